//! The worth of the kernel's arrival stamps: how many messages a limit delays that were conformant
//! when they arrived.
//!
//! SRTM-long, section 5.2: a busy broker reads late, and reads at once what arrived apart; judged
//! by the time of reading, that looks like a burst. Here one load is sent twice, to a broker that
//! judges by the kernel's stamps and to one that judges by the time of reading. The limit just fits
//! the load: its rate is 1.1 times the offered one, its burst the smallest with which the bucket
//! delays at most one message in a hundred of the schedule. The broker counts what it delays. The
//! oracle computes from the kernel's stamps of the first run what it should have delayed; the rest
//! was conformant.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Instant;
use limit::oracle::{self, Held};
use limit::{Burst, Rate};
use serde::Serialize;

use crate::broker_port::BrokerPort;
use bench::BenchError;
use bench::generator::{self, Outcome, RunOptions};
use bench::peers::{Peer, PeerOptions, TOPIC};
use bench::report::{Results, table};
use bench::sys;
use bench::workload::Workload;

/// Rate of the limit over the offered rate, as the paper fits it.
const HEADROOM: f64 = 1.1;
/// Share of the scheduled messages that the fitted bucket may delay.
const FITTED_SHARE: f64 = 0.01;
/// Messages of the schedule that the burst is fitted to.
const FITTED_MESSAGES: usize = 200_000;
const SETTLE: Duration = Duration::from_millis(500);

/// Options of `srtm-evaluate clock`.
#[derive(Debug, Clone, Args)]
pub struct ClockOptions {
    /// The load of each publisher; `--publishers` is replaced by `--levels`.
    #[command(flatten)]
    pub workload: Workload,
    /// Where the srtm program is and which cores are used.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Numbers of publisher connections.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 3000, 6000])]
    pub levels: Vec<u32>,
    /// File that results are appended to, a JSON line each.
    #[arg(long, default_value = "bench/results/clock.jsonl", value_name = "FILE")]
    pub results: PathBuf,
}

/// One load under one arrival clock.
#[derive(Debug, Clone, Serialize)]
pub struct ClockReport {
    /// `kernel` or `read`.
    pub arrival_clock: String,
    /// Rate of the limit in messages per second.
    pub rate: f64,
    /// Burst of the limit in messages.
    pub burst: f64,
    /// Messages that the broker delayed, of all.
    pub delayed_share: f64,
    /// Messages that the oracle delays by the kernel's stamps, of all.
    pub owed_share: f64,
    /// The run as the generator saw it.
    pub outcome: Outcome,
}

/// Runs all levels under both clocks and prints a table.
///
/// # Errors
/// When the broker is missing, fails, or refuses the limit.
pub fn check_clocks(options: &ClockOptions) -> Result<Vec<ClockReport>, BenchError> {
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    sys::pin_to_core(options.programs.generator_core).map_err(BenchError::io("run on one core"))?;
    let results = Results::new(Some(&options.results));
    let mut reports = Vec::new();
    for &publishers in &options.levels {
        let workload = Workload {
            publishers,
            ..options.workload.clone()
        };
        workload.check()?;
        let (rate, burst) = fitted_limit(&workload)?;
        let mut owed_share = 0.0;
        for arrival_clock in ["kernel", "read"] {
            eprintln!(
                "{publishers} publishers, {arrival_clock} clock, limit {rate:.0}/s with burst {burst:.0}"
            );
            let (outcome, delayed_share) =
                run_under(options, &workload, arrival_clock, rate, burst)?;
            if arrival_clock == "kernel" {
                owed_share = delayed_by_stamps(&outcome, rate, burst);
            }
            let arrival_clock = arrival_clock.to_owned();
            let report = ClockReport {
                arrival_clock,
                rate: rate.get(),
                burst: burst.get(),
                delayed_share,
                owed_share,
                outcome,
            };
            results.append("clock", Peer::Srtm.name(), 1, &workload, &report)?;
            reports.push(report);
        }
    }
    print!("{}", render(&reports));
    Ok(reports)
}

/// One run; gives the share of messages that the broker says it delayed.
fn run_under(
    options: &ClockOptions,
    workload: &Workload,
    arrival_clock: &str,
    rate: Rate,
    burst: Burst,
) -> Result<(Outcome, f64), BenchError> {
    let mut programs = options.programs.clone();
    programs
        .srtm_args
        .push(format!("--arrival-clock={arrival_clock}"));
    let running = Peer::Srtm.start(&programs, &[])?;
    let port = BrokerPort::new(running.http_address);
    port.limit_messages(TOPIC, rate.get(), burst.get())?;
    sys::pause_for(Duration::from_secs_f64(burst.get() / rate.get()) + SETTLE);
    let run = RunOptions {
        drain: Duration::from_secs(10),
        keep_samples: true,
    };
    let outcome = generator::run(workload, &running.target, run)?;
    let delayed = port.limit_stats(TOPIC)?.delayed_messages;
    let all = outcome.counts.sent.max(1);
    Ok((outcome, delayed as f64 / all as f64))
}

/// Rate and burst that the schedule just fits.
fn fitted_limit(workload: &Workload) -> Result<(Rate, Burst), BenchError> {
    let bad = |error: limit::InvalidLimit| BenchError::Options(error.to_string());
    let rate = Rate::new((HEADROOM * workload.offered_per_second()).round()).map_err(bad)?;
    let arrivals = fitted_arrivals(workload);
    let (mut too_small, mut enough) = (0_u32, 1_u32);
    while share_delayed(&arrivals, rate, Burst::new(f64::from(enough)).map_err(bad)?) > FITTED_SHARE
    {
        too_small = enough;
        enough *= 2;
    }
    while enough - too_small > 1 {
        let middle = too_small.midpoint(enough);
        let share = share_delayed(&arrivals, rate, Burst::new(f64::from(middle)).map_err(bad)?);
        if share > FITTED_SHARE {
            too_small = middle
        } else {
            enough = middle
        }
    }
    Ok((rate, Burst::new(f64::from(enough)).map_err(bad)?))
}

/// The arrivals that the limit is fitted to.
fn fitted_arrivals(workload: &Workload) -> Vec<Instant> {
    let at = |arrival: ::workload::Arrival| Instant::from_nanos(arrival.at_ns);
    workload.schedule().take(FITTED_MESSAGES).map(at).collect()
}

/// Share of `arrivals`, in order, that a bucket delays which is full at the first.
fn share_delayed(arrivals: &[Instant], rate: Rate, burst: Burst) -> f64 {
    let at = arrivals.first().copied().unwrap_or(Instant::ZERO);
    let full = Held {
        tokens: burst.get(),
        at,
    };
    let departures = oracle::gd1_departures(arrivals, &vec![1; arrivals.len()], rate, burst, full);
    let delayed = departures
        .iter()
        .zip(arrivals)
        .filter(|(departure, arrival)| departure > arrival);
    delayed.count() as f64 / arrivals.len().max(1) as f64
}

/// What the oracle delays, by the kernel's stamps of a run.
fn delayed_by_stamps(outcome: &Outcome, rate: Rate, burst: Burst) -> f64 {
    let stamp = |ns: i64| Instant::from_nanos(ns.max(0).cast_unsigned());
    let mut arrivals: Vec<Instant> = outcome
        .samples
        .iter()
        .map(|sample| stamp(sample.broker_ns))
        .collect();
    arrivals.sort_unstable();
    share_delayed(&arrivals, rate, burst)
}

fn render(reports: &[ClockReport]) -> String {
    let header = [
        "msg/s",
        "limit",
        "arrival clock",
        "core busy",
        "delayed %",
        "owed %",
        "conformant, yet delayed %",
        "p99 us",
        "gen late p99",
    ];
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let row = |report: &ClockReport| {
        let busy = report
            .outcome
            .broker_cpu
            .as_ref()
            .map_or(f64::NAN, |cpu| cpu.core_busy);
        vec![
            format!("{:.0}", report.outcome.achieved_per_second),
            format!("({:.0}, {:.0})", report.rate, report.burst),
            report.arrival_clock.clone(),
            format!("{busy:.2}"),
            percent(report.delayed_share),
            percent(report.owed_share),
            percent((report.delayed_share - report.owed_share).max(0.0)),
            format!("{:.0}", report.outcome.latency.p99_us),
            format!("{:.0}", report.outcome.lateness.p99_us),
        ]
    };
    table(&header, &reports.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_burst_is_the_smallest_that_fits() {
        let workload = Workload {
            publishers: 100,
            rate_per_publisher: 100.0,
            ..Workload::default()
        };
        let (rate, burst) = fitted_limit(&workload).expect("a valid workload");
        assert_eq!(rate.get(), 11_000.0);
        let arrivals = fitted_arrivals(&workload);
        let smaller = Burst::new(burst.get() - 1.0).expect("still at least one");
        assert!(share_delayed(&arrivals, rate, burst) <= FITTED_SHARE);
        assert!(share_delayed(&arrivals, rate, smaller) > FITTED_SHARE);
    }

    #[test]
    fn a_bucket_that_is_read_in_clumps_delays_more() {
        let rate = Rate::new(1000.0).expect("valid");
        let burst = Burst::new(2.0).expect("valid");
        let apart: Vec<Instant> = (0..100)
            .map(|ms| Instant::from_nanos(ms * 1_000_000))
            .collect();
        let clumps: Vec<Instant> = (0..100)
            .map(|ms| Instant::from_nanos((ms / 10 * 10 + 10) * 1_000_000))
            .collect();
        assert_eq!(share_delayed(&apart, rate, burst), 0.0);
        assert!(share_delayed(&clumps, rate, burst) > 0.7);
    }
}
