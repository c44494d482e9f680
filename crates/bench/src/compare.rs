//! Runs every broker on the same load, in turns, and makes a table of the results.
//!
//! The rounds are interleaved (all peers once, then all again), so that other work on the machine
//! affects all of them alike; a figure in the table is the median of its rounds. Each broker runs
//! alone on its core and is started afresh for each run. A peer that is missing or fails is
//! reported in its row and does not end the comparison.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::error::BenchError;
use crate::generator::{self, Outcome, RunOptions};
use crate::load::{Load, LoadOptions};
use crate::peers::{Peer, PeerOptions};
use crate::report::{Results, table};
use crate::standings::{Row, render};
use crate::sys;
use crate::throughput::{self, Flow};
use statistics::median;

/// How long messages under way may take after the last send.
const DRAIN: Duration = Duration::from_secs(3);

/// Rates in messages per second, said with commas in between.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(Vec<f64>);

impl FromStr for Rates {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Rates, BenchError> {
        let words = text.split(',').filter(|_| !text.is_empty());
        let rate = |word: &str| word.trim().parse().ok();
        let rates: Option<Vec<f64>> = words.map(rate).collect();
        let wrong = || {
            let form = "write numbers with commas in between, such as 20000,40000";
            BenchError::Options(format!("`{text}` is no list of rates; {form}"))
        };
        rates.map(Rates).ok_or_else(wrong)
    }
}

/// Options of `bench compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareOptions {
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// Where the brokers' programs are.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Brokers to compare.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "srtm,srtm-acks,relay-ok,relay,nsqd,nsqd-buffered,nats,mosquitto-qos0,mosquitto-qos1"
    )]
    pub peers: Vec<Peer>,
    /// Repetitions, interleaved.
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Rates of the sweep in messages per second; empty for none.
    #[arg(long, value_name = "MSG/S,…", default_value = "")]
    pub sweep: Rates,
    /// Brokers of the sweep.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "srtm,srtm-acks,relay-ok,relay,nsqd"
    )]
    pub sweep_peers: Vec<Peer>,
    /// Also measure one publisher and one subscriber at full speed, with brokers that speak NSQ.
    #[arg(long)]
    pub throughput: bool,
    /// File that results are appended to, a JSON line each.
    #[arg(
        long,
        default_value = "bench/results/compare.jsonl",
        value_name = "FILE"
    )]
    pub results: PathBuf,
}

/// Options of `bench run`.
#[derive(Debug, Clone, Args)]
pub struct RunPeerOptions {
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// Where the brokers' programs are.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Broker to load.
    #[arg(long, value_enum, default_value_t = Peer::Srtm)]
    pub peer: Peer,
    /// File that the result is appended to.
    #[arg(long, default_value = "bench/results/run.jsonl", value_name = "FILE")]
    pub results: PathBuf,
}

/// Starts one broker, loads it, and prints what came out.
///
/// # Errors
/// When the broker is missing or fails.
pub fn run(options: &RunPeerOptions, relaunch: &[String]) -> Result<Outcome, BenchError> {
    let load = options.load.load()?;
    prepare(&options.programs)?;
    let results = Results::new(Some(&options.results));
    let outcome = run_once(options.peer, &load, &options.programs, relaunch)?;
    results.append("run", options.peer.name(), 1, &load, &outcome)?;
    let row = Row {
        peer: options.peer,
        outcomes: vec![outcome.clone()],
        failure: None,
    };
    print!("{}", render(&[row]));
    Ok(outcome)
}

/// Compares the peers and prints the tables.
///
/// # Errors
/// When the options are wrong or results cannot be written; not when a peer fails.
pub fn compare(options: &CompareOptions, relaunch: &[String]) -> Result<(), BenchError> {
    let load = options.load.load()?;
    let sweep: Vec<Load> = options
        .sweep
        .0
        .iter()
        .map(|rate| load.at_rate(*rate))
        .collect();
    sweep.iter().try_for_each(Load::check)?;
    prepare(&options.programs)?;
    let results = Results::new(Some(&options.results));
    let plan = Plan {
        options,
        relaunch,
        results,
    };
    plan.load("compare", &options.peers, &load)?;
    for load in &sweep {
        plan.load("sweep", &options.sweep_peers, load)?;
    }
    if options.throughput {
        plan.throughput(load.spec.duration);
    }
    Ok(())
}

struct Plan<'a> {
    options: &'a CompareOptions,
    relaunch: &'a [String],
    results: Results<'a>,
}

impl Plan<'_> {
    /// All rounds of all peers with one load, and their table.
    fn load(&self, kind: &str, peers: &[Peer], load: &Load) -> Result<(), BenchError> {
        let mut rows: Vec<Row> = peers
            .iter()
            .map(|peer| Row {
                peer: *peer,
                outcomes: Vec::new(),
                failure: None,
            })
            .collect();
        for round in 1..=self.options.rounds {
            for row in &mut rows {
                if row.failure.is_some() {
                    continue;
                }
                match run_once(row.peer, load, &self.options.programs, self.relaunch) {
                    Ok(outcome) => {
                        self.results
                            .append(kind, row.peer.name(), round, load, &outcome)?;
                        row.outcomes.push(outcome);
                    }
                    Err(error) => row.failure = Some(error.to_string()),
                }
            }
        }
        println!("\n{kind}: {}, {} rounds", load.title(), self.options.rounds,);
        print!("{}", render(&rows));
        Ok(())
    }

    /// One publisher, one subscriber, as fast as it goes.
    fn throughput(&self, measure: Duration) {
        let nsq = |peer: &Peer| matches!(peer.protocol(), crate::protocol::Protocol::Nsq(_));
        let peers: Vec<Peer> = self.options.peers.iter().copied().filter(nsq).collect();
        let (mut rows, mut failures) = (Vec::new(), String::new());
        for flow in throughput::FLOWS {
            for peer in &peers {
                match self.throughput_row(*peer, flow, measure) {
                    Ok(row) => rows.push(row),
                    Err(error) => {
                        failures.push_str(&format!(
                            "{}, {}: left out: {error}\n",
                            flow.name,
                            peer.name()
                        ));
                    }
                }
            }
        }
        println!(
            "\nthroughput: one publisher, one subscriber, {} B, closed loop",
            throughput::BODY_BYTES
        );
        print!(
            "{}",
            table(
                &["flow, peer", "msg/s", "CPU us/msg", "core busy", "p99 us"],
                &rows
            )
        );
        print!("{failures}");
    }

    fn throughput_row(
        &self,
        peer: Peer,
        flow: Flow,
        measure: Duration,
    ) -> Result<Vec<String>, BenchError> {
        let name = format!("{}, {}", flow.name, peer.name());
        let mut outcomes = Vec::new();
        for round in 1..=self.options.rounds {
            let running = peer.start(&self.options.programs, self.relaunch)?;
            let outcome = throughput::run(&running.target, flow, measure)?;
            self.results
                .append("throughput", peer.name(), round, &flow, &outcome)?;
            outcomes.push(outcome);
        }
        let middle = |figure: fn(&throughput::Outcome) -> f64| median(outcomes.iter().map(figure));
        Ok(vec![
            name,
            format!("{:.0}", middle(|outcome| outcome.achieved_per_second)),
            format!("{:.2}", middle(|outcome| outcome.broker_us_per_message)),
            format!("{:.2}", middle(|outcome| outcome.broker_cpu.core_busy)),
            format!("{:.0}", middle(|outcome| outcome.latency.p99_us)),
        ])
    }
}

/// Makes this process a generator: enough descriptors, its own core.
fn prepare(programs: &PeerOptions) -> Result<(), BenchError> {
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    sys::pin_to_core(programs.generator_core).map_err(BenchError::io(format!(
        "run on core {}",
        programs.generator_core
    )))
}

fn run_once(
    peer: Peer,
    load: &Load,
    programs: &PeerOptions,
    relaunch: &[String],
) -> Result<Outcome, BenchError> {
    let running = peer.start(programs, relaunch)?;
    generator::run_load(
        load,
        &running.target,
        RunOptions {
            drain: DRAIN,
            keep_samples: false,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_list_that_may_be_empty() {
        for (text, rates) in [
            ("", vec![]),
            ("20000", vec![20_000.0]),
            ("20000,4e4, 60000", vec![20_000.0, 40_000.0, 60_000.0]),
        ] {
            assert_eq!(text.parse::<Rates>().expect(text), Rates(rates));
        }
        for text in [",", "20000,", "fast", "20000;40000"] {
            let error = text.parse::<Rates>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
