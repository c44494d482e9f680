//! Isolation: what a conformant topic notices of another one that floods the same broker core.
//!
//! The neighbour is 20 sensors with a subscriber, at normal priority. The other topic is fed over a
//! few connections with PUBs, many in a write, by a process at nice 19 on the same core as the
//! neighbour's, so that it is the broker that has to tell them apart. Nobody subscribes to it and
//! it is ephemeral, so the broker drops its messages and never holds its publisher: a subscriber
//! would cost the generator's core more than the flood does the broker's.
//!
//! First the flood is calibrated: how many of its messages would fill a core of the broker. In the
//! situation [`Situation::AtShare`] it sends its CPU share of that, in [`Situation::Flood`] ten
//! times as much. The broker is started afresh for each run, the rounds are interleaved, and ratios
//! are of runs of one round.

mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

pub use report::Reading;

use super::endpoint::{Endpoint, Place, Published, Publishing, Task, Window};
use super::render::Form;
use super::way::Way;
use crate::broker_port::BrokerPort;
use bench::BenchError;
use bench::cpu_time::CpuReading;
use bench::generator::{self, Outcome, RunOptions};
use bench::load::Load;
use bench::peers::{Peer, PeerOptions, RunningPeer, TOPIC};
use bench::protocol::Protocol;
use bench::report::Results;
use bench::sys;
use bench::workload::{Arrivals, Workload};

/// The topic that floods.
const FLOOD_TOPIC: &str = "flood#ephemeral";
/// Length of the calibration of a flood.
const CALIBRATION: Duration = Duration::from_millis(1500);
/// The flood begins before the neighbour's window and ends after it.
const MARGIN: Duration = Duration::from_millis(300);
/// How long messages of the neighbour may take after the last send.
const DRAIN: Duration = Duration::from_secs(3);

/// Options of `srtm-evaluate neighbour`.
#[derive(Debug, Clone, Args)]
pub struct NeighbourOptions {
    /// Where the brokers' programs are.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Brokers to compare.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "srtm-shares,srtm-equal,nsqd,nats"
    )]
    pub rows: Vec<Row>,
    /// Connections of the neighbour.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub publishers: u32,
    /// Messages per second of all of them.
    #[arg(long, default_value_t = 2000.0, value_name = "MSG/S")]
    pub rate: f64,
    /// Size of the neighbour's messages.
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub body_bytes: usize,
    /// The neighbour's share of the broker's time.
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    pub share: f64,
    /// The other topic's share.
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    pub flood_share: f64,
    /// Load of the flood, as a multiple of the other topic's share.
    #[arg(long, default_value_t = 10.0, value_name = "TIMES")]
    pub flood_times: f64,
    /// Size of the flood's messages.
    #[arg(long, default_value_t = 32, value_name = "BYTES")]
    pub flood_body_bytes: usize,
    /// Messages per write of the flood.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub flood_batch_messages: u64,
    /// Flood NSQ brokers with MPUBs: more messages for less work of both sides.
    #[arg(long)]
    pub flood_mpub: bool,
    /// Connections of the flood.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub flood_connections: usize,
    /// Load before each measurement.
    #[arg(long, default_value_t = 500, value_name = "MS")]
    pub warmup_ms: u64,
    /// Length of each measurement.
    #[arg(long, default_value_t = 3000, value_name = "MS")]
    pub measure_ms: u64,
    /// Repetitions, interleaved; figures are medians.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub rounds: u32,
    /// Print the tables as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// File that results are appended to, a JSON line each.
    #[arg(
        long,
        default_value = "bench/results/neighbour.jsonl",
        value_name = "FILE"
    )]
    pub results: PathBuf,
}

/// A broker in one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// SRTM with the shares of the options.
    SrtmShares,
    /// SRTM, nothing declared: all topics have equal parts.
    SrtmEqual,
    /// nsqd, output buffer off.
    Nsqd,
    /// NATS core.
    Nats,
}

/// What the other topic does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Situation {
    /// Nothing.
    Alone,
    /// As much as its share.
    AtShare,
    /// Many times its share.
    Flood,
}

/// All situations, in the order of a round.
pub const SITUATIONS: [Situation; 3] = [Situation::Alone, Situation::AtShare, Situation::Flood];

/// A broker with its flood's capacity and what was read of it.
struct Contender {
    row: Row,
    /// Messages of the flood that a core of the broker carries in a second.
    capacity: f64,
    /// By round, then by situation.
    rounds: Vec<Vec<Reading>>,
    failure: Option<String>,
}

/// Measures all rows in all situations and prints the tables.
///
/// # Errors
/// When the options are wrong or results cannot be written; not when a row fails.
pub fn neighbour(options: &NeighbourOptions) -> Result<(), BenchError> {
    let load = load(options)?;
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    sys::pin_to_core(options.programs.generator_core).map_err(BenchError::io("run on one core"))?;
    let results = Results::new(Some(&options.results));
    let calibrate = |row: &Row| Contender::calibrate(*row, options);
    let mut contenders: Vec<Contender> = options.rows.iter().map(calibrate).collect();
    for round in 1..=options.rounds {
        for contender in &mut contenders {
            if contender.failure.is_some() {
                continue;
            }
            let mut readings = Vec::new();
            for situation in SITUATIONS {
                match contender.run(situation, &load, options) {
                    Ok(reading) => {
                        let name = contender.row.name();
                        eprintln!(
                            "neighbour {}",
                            reading.progress(name, round, options.rounds)
                        );
                        results.append("neighbour", name, round, &load, &reading)?;
                        readings.push(reading);
                    }
                    Err(error) => {
                        contender.failure = Some(error.to_string());
                        break;
                    }
                }
            }
            contender.rounds.push(readings);
        }
    }
    let form = Form::new(options.markdown);
    let rows = contenders.iter();
    let rows: Vec<(&str, &[Vec<Reading>])> = rows
        .map(|contender| (contender.row.name(), &contender.rounds[..]))
        .collect();
    print!(
        "{}\n{}",
        report::figures(&rows, form),
        report::ratios(&rows, form)
    );
    for contender in &contenders {
        if let Some(failure) = &contender.failure {
            println!("{}: left out: {failure}", contender.row.name());
        }
    }
    Ok(())
}

impl Row {
    /// The name in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::SrtmShares => "srtm-shares",
            Self::SrtmEqual => "srtm-equal",
            Self::Nsqd => "nsqd",
            Self::Nats => "nats",
        }
    }

    fn peer(self) -> Peer {
        match self {
            Self::SrtmShares | Self::SrtmEqual => Peer::Srtm,
            Self::Nsqd => Peer::Nsqd,
            Self::Nats => Peer::Nats,
        }
    }

    /// Starts the broker and declares the shares, if it has any.
    fn start(self, options: &NeighbourOptions) -> Result<RunningPeer, BenchError> {
        let running = self.peer().start(&options.programs, &[])?;
        if self == Self::SrtmShares {
            let port = BrokerPort::new(running.http_address);
            port.set_cpu_share(TOPIC, options.share)?;
            port.set_cpu_share(FLOOD_TOPIC, options.flood_share)?;
        }
        Ok(running)
    }
}

impl Situation {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::AtShare => "other at its share",
            Self::Flood => "other floods",
        }
    }

    /// Messages per second of the other topic, of which a core carries `capacity`.
    fn wanted_per_second(self, capacity: f64, options: &NeighbourOptions) -> f64 {
        let at_share = capacity * options.flood_share;
        match self {
            Self::Alone => 0.0,
            Self::AtShare => at_share,
            Self::Flood => at_share * options.flood_times,
        }
    }
}

impl Contender {
    /// Floods the broker alone, as fast as it takes, and divides what it took by the CPU time that it used.
    fn calibrate(row: Row, options: &NeighbourOptions) -> Self {
        let measure = || {
            let running = row.start(options)?;
            let pid = running.target.pid.unwrap_or(0);
            let mut flood = start_flood(&running, None, options)?;
            let window = Window::soon(MARGIN, CALIBRATION);
            flood.begin(&window)?;
            sys::pause_for(Duration::from_millis(100) + MARGIN);
            let before = CpuReading::take(pid, running.target.core)?;
            sys::pause_for(CALIBRATION);
            let used = CpuReading::take(pid, running.target.core)?.since(&before);
            let published = flood.published(&window)?;
            Ok::<_, BenchError>((published.sent as f64, used))
        };
        let mut contender = Self {
            row,
            capacity: f64::NAN,
            rounds: Vec::new(),
            failure: None,
        };
        match measure() {
            Ok((sent, used)) => {
                contender.capacity = sent / (used.process_us / 1e6).max(1e-3);
                eprintln!(
                    "neighbour {}: a core carries {:.0} msg/s of the flood (measured at {:.0} % of one)",
                    row.name(),
                    contender.capacity,
                    100.0 * used.process_us / CALIBRATION.as_micros() as f64
                );
            }
            Err(error) => contender.failure = Some(error.to_string()),
        }
        contender
    }

    /// One run of the neighbour, with the other topic beside it.
    fn run(
        &self,
        situation: Situation,
        load: &Load,
        options: &NeighbourOptions,
    ) -> Result<Reading, BenchError> {
        let running = self.row.start(options)?;
        let wanted = situation.wanted_per_second(self.capacity, options);
        let length = load.spec.length() + MARGIN;
        let mut flood = None;
        if wanted > 0.0 {
            let mut endpoint = start_flood(&running, Some(wanted), options)?;
            let window = Window::soon(MARGIN, length);
            endpoint.begin(&window)?;
            sys::pause_for(Duration::from_millis(100) + MARGIN);
            flood = Some((endpoint, window));
        }
        let run_options = RunOptions {
            drain: DRAIN,
            keep_samples: false,
        };
        let outcome = generator::run_load(load, &running.target, run_options)?;
        let published = flood.map(|(mut endpoint, window)| {
            let published = endpoint.published(&window)?;
            Ok::<Published, BenchError>(published)
        });
        let sent = published.transpose()?.map_or(0, |published| published.sent);
        let sent_per_second = sent as f64 / length.as_secs_f64();
        self.reading(situation, &outcome, (wanted, sent_per_second), &running)
    }

    fn reading(
        &self,
        situation: Situation,
        outcome: &Outcome,
        (wanted_per_second, sent_per_second): (f64, f64),
        running: &RunningPeer,
    ) -> Result<Reading, BenchError> {
        let told = |name| match self.row {
            Row::SrtmShares | Row::SrtmEqual => {
                let port = BrokerPort::new(running.http_address);
                port.stage(TOPIC, name).map(Some)
            }
            Row::Nsqd | Row::Nats => Ok(None),
        };
        Ok(Reading {
            situation,
            flood_capacity_per_second: self.capacity,
            flood_wanted_per_second: wanted_per_second,
            flood_sent_per_second: sent_per_second,
            received_per_second: outcome.achieved_per_second,
            missing: outcome.counts.missing,
            latency: outcome.latency,
            lateness: outcome.lateness,
            broker_total: told("total")?,
            broker_end_to_end: told("end_to_end")?,
            broker_core_busy: outcome.broker_cpu.map_or(f64::NAN, |used| used.core_busy),
        })
    }
}

/// Starts the flood's publisher in the background of the generator's core.
fn start_flood(
    running: &RunningPeer,
    rate: Option<f64>,
    options: &NeighbourOptions,
) -> Result<Endpoint, BenchError> {
    let address = running.target.address;
    let (way, topic) = match running.target.protocol {
        Protocol::Nats(_) | Protocol::JetStream(_) => (Way::Nats(address), "flood"),
        Protocol::Nsq(_) | Protocol::Mqtt(_) => (Way::Nsq(address), FLOOD_TOPIC),
    };
    let publishing = Publishing {
        way,
        topic: topic.to_owned(),
        rate,
        body_bytes: options.flood_body_bytes,
        is_marked: false,
        under_way_messages: None,
        batch_messages: options.flood_batch_messages,
        connections: options.flood_connections,
        is_mpub: options.flood_mpub,
    };
    let place = Place {
        core: Some(options.programs.generator_core),
        is_background: true,
    };
    Endpoint::start(&Task::Publish(publishing), place)
}

/// The neighbour's load.
fn load(options: &NeighbourOptions) -> Result<Load, BenchError> {
    let share_sum = options.share + options.flood_share;
    let is_share = |share: f64| share > 0.0 && share < 1.0;
    if !is_share(options.share) || !is_share(options.flood_share) || share_sum > 1.0 {
        let text = "--share and --flood-share: give numbers above 0 that add up to at most 1";
        return Err(BenchError::Options(text.to_owned()));
    }
    Workload {
        publishers: options.publishers,
        rate_per_publisher: options.rate / f64::from(options.publishers.max(1)),
        arrivals: Arrivals::Periodic,
        batch_messages: 1,
        mpub: false,
        body_bytes: options.body_bytes,
        group_publishers: 1,
        warmup_ms: options.warmup_ms,
        measure_ms: options.measure_ms,
        seed: 1,
    }
    .load()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: NeighbourOptions,
    }

    fn options(arguments: &[&str]) -> NeighbourOptions {
        let all = ["bench"].iter().chain(arguments);
        Line::try_parse_from(all).expect("valid").options
    }

    #[test]
    fn the_flood_is_a_multiple_of_its_share_of_a_core() {
        let options = options(&["--flood-share", "0.1", "--flood-times", "10"]);
        let wanted = |situation: Situation| situation.wanted_per_second(1e6, &options).round();
        assert_eq!(SITUATIONS.map(wanted), [0.0, 100_000.0, 1_000_000.0]);
    }

    #[test]
    fn the_neighbour_is_periodic_and_shares_are_checked() {
        let load = load(&options(&[])).expect("the defaults are valid");
        assert_eq!(load.offered_per_second(), 2000.0);
        assert_eq!(load.spec.publisher_count(), 20);
        for wrong in ["--share=0", "--share=0.95", "--flood-share=1"] {
            assert!(super::load(&options(&[wrong])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for row in Row::value_variants() {
            let value = row.to_possible_value().expect("every row can be chosen");
            assert_eq!(value.get_name(), row.name());
        }
    }
}
