//! A live check of a rate limit: does the broker release each message when the token bucket says?
//!
//! Publishers send more than the limit for a while. Every message comes back with the broker's
//! stamp of its arrival; from these stamps the oracle computes the instant at which each message
//! should have left. Reported are the distance from there to the subscriber's read (late: queueing
//! and wake-ups; early: a broken limit) and by how many messages the worst window of reads exceeds
//! rate x time + burst. Reads of several messages at once look like a burst, so a small excess is
//! the reader's, not the broker's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Instant;
use limit::oracle::{self, Held};
use limit::{Burst, Rate};
use serde::Serialize;

use crate::broker_port::{BrokerPort, LimitStats};
use bench::BenchError;
use bench::generator::{self, RunOptions};
use bench::measurement::{Counts, Percentiles, Sample};
use bench::peers::{Peer, PeerOptions, TOPIC};
use bench::report::{Results, table};
use bench::sys;
use bench::workload::Workload;

/// Time for messages that still wait in the bucket when the publishers have stopped.
const MAX_DRAIN: Duration = Duration::from_secs(60);
/// Time beyond a full bucket that is waited before the load begins.
const SETTLE: Duration = Duration::from_millis(200);

/// Options of `srtm-evaluate limit`.
#[derive(Debug, Clone, Args)]
pub struct LimitOptions {
    /// The load; it should exceed the limit.
    #[command(flatten)]
    pub workload: Workload,
    /// Where the srtm program is and which cores are used.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Limit: messages per second.
    #[arg(long, default_value_t = 1000.0, value_name = "MSG/S")]
    pub rate: f64,
    /// Limit: messages that may pass at once.
    #[arg(long, default_value_t = 50.0, value_name = "MSG")]
    pub burst: f64,
    /// File that the result is appended to.
    #[arg(long, default_value = "bench/results/limit.jsonl", value_name = "FILE")]
    pub results: PathBuf,
}

/// The result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct LimitReport {
    /// The limit's rate in messages per second.
    pub rate: f64,
    /// The limit's burst in messages.
    pub burst: f64,
    /// Messages read per second, from the first to the last.
    pub achieved_per_second: f64,
    /// Numbers of messages.
    pub counts: Counts,
    /// How many messages more than rate x time + burst were read in the worst window; at most 0 is perfect.
    pub window_excess_messages: f64,
    /// From the instant of the oracle to the subscriber's read.
    pub late: Percentiles,
    /// Messages read before the oracle's instant.
    pub early_messages: u64,
    /// The earliest of them, in microseconds.
    pub early_max_us: f64,
    /// Messages that the oracle delays.
    pub delayed_messages: u64,
    /// How late the generator itself was; a stall of it makes reads late as well.
    pub lateness: Percentiles,
    /// What the broker itself saw, without the way to the subscriber.
    pub broker: LimitStats,
}

/// Sets the limit on a fresh broker, loads it, and prints what came out.
///
/// # Errors
/// When the broker is missing, fails, or refuses the limit.
pub fn check_limit(options: &LimitOptions) -> Result<LimitReport, BenchError> {
    let bad = |error: String| BenchError::Options(error);
    let rate = Rate::new(options.rate).map_err(|error| bad(error.to_string()))?;
    let burst = Burst::new(options.burst).map_err(|error| bad(error.to_string()))?;
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    sys::pin_to_core(options.programs.generator_core).map_err(BenchError::io("run on one core"))?;
    let running = Peer::Srtm.start(&options.programs, &[])?;
    let port = BrokerPort::new(running.http_address);
    port.limit_messages(TOPIC, options.rate, options.burst)?;
    // A bucket starts empty; the oracle is told that it is full.
    sys::pause_for(Duration::from_secs_f64(options.burst / options.rate) + SETTLE);
    let options_of_run = RunOptions {
        drain: drain_time(options),
        keep_samples: true,
    };
    let outcome = generator::run(&options.workload, &running.target, options_of_run)?;
    let judged = judge(&outcome.samples, outcome.counts, rate, burst);
    let report = LimitReport {
        lateness: outcome.lateness,
        broker: port.limit_stats(TOPIC)?,
        ..judged
    };
    let results = Results::new(Some(&options.results));
    results.append("limit", Peer::Srtm.name(), 1, &options.workload, &report)?;
    print!("{}", render(&report));
    Ok(report)
}

/// How long what was sent beyond the limit takes to leave.
fn drain_time(options: &LimitOptions) -> Duration {
    let sent = options.workload.offered_per_second() * options.workload.duration_ns() as f64 / 1e9;
    let longest = MAX_DRAIN.as_secs_f64();
    Duration::from_secs_f64((sent / options.rate + 5.0).clamp(5.0, longest))
}

/// Compares reads with the oracle. The samples are in the order of reading, which is the broker's order of release.
fn judge(samples: &[Sample], counts: Counts, rate: Rate, burst: Burst) -> LimitReport {
    let arrival = |sample: &Sample| Instant::from_nanos(sample.broker_ns.max(0).cast_unsigned());
    let arrivals: Vec<Instant> = samples.iter().map(arrival).collect();
    let reads: Vec<Instant> = samples
        .iter()
        .map(|sample| Instant::from_nanos(sample.received_ns))
        .collect();
    let full = Held {
        tokens: burst.get(),
        at: arrivals.first().copied().unwrap_or(Instant::ZERO),
    };
    let expected = oracle::gd1_departures(&arrivals, &vec![1; arrivals.len()], rate, burst, full);
    let mut late_ns = Vec::with_capacity(samples.len());
    let (mut early_messages, mut early_max_ns) = (0, 0);
    for (read, expected) in reads.iter().zip(&expected) {
        if read < expected {
            early_messages += 1;
            early_max_ns = early_max_ns.max(expected.as_nanos() - read.as_nanos());
        } else {
            late_ns.push(read.as_nanos() - expected.as_nanos());
        }
    }
    let span_s = match (reads.first(), reads.last()) {
        (Some(first), Some(last)) => last.saturating_since(*first).as_secs_f64(),
        _ => 0.0,
    };
    LimitReport {
        rate: rate.get(),
        burst: burst.get(),
        achieved_per_second: (samples.len() as f64 - 1.0).max(0.0) / span_s.max(1e-9),
        counts,
        window_excess_messages: oracle::window_excess(&reads, rate, burst),
        late: Percentiles::of_times(late_ns),
        early_messages,
        early_max_us: early_max_ns as f64 / 1000.0,
        delayed_messages: expected
            .iter()
            .zip(&arrivals)
            .filter(|(expected, arrival)| expected > arrival)
            .count() as u64,
        lateness: Percentiles::default(),
        broker: LimitStats::default(),
    }
}

fn render(report: &LimitReport) -> String {
    let header = [
        "limit",
        "msg/s",
        "read",
        "missing",
        "delayed",
        "excess msg",
        "late p50 us",
        "p99",
        "max",
        "early",
        "max us",
        "gen late p99",
        "max",
        "broker: excess",
        "late p50",
        "p99",
    ];
    let row = vec![
        format!("{} msg/s, burst {}", report.rate, report.burst),
        format!("{:.1}", report.achieved_per_second),
        report.counts.received.to_string(),
        report.counts.missing.to_string(),
        report.delayed_messages.to_string(),
        format!("{:.2}", report.window_excess_messages),
        format!("{:.0}", report.late.p50_us),
        format!("{:.0}", report.late.p99_us),
        format!("{:.0}", report.late.max_us),
        report.early_messages.to_string(),
        format!("{:.0}", report.early_max_us),
        format!("{:.0}", report.lateness.p99_us),
        format!("{:.0}", report.lateness.max_us),
        format!("{:.2}", report.broker.window_excess_messages),
        format!("{:.0}", report.broker.release_late_p50_us),
        format!("{:.0}", report.broker.release_late_p99_us),
    ];
    table(&header, &[row])
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 1_700_000_000_000_000_000;

    fn report(times_us: &[(i64, u64)], rate: f64, burst: f64) -> LimitReport {
        let samples: Vec<Sample> = times_us
            .iter()
            .map(|(arrival_us, read_us)| Sample {
                broker_ns: START_NS as i64 + arrival_us * 1000,
                received_ns: START_NS + read_us * 1000,
                publisher: 0,
                sequence: 0,
            })
            .collect();
        let rate = Rate::new(rate).expect("a valid rate");
        let burst = Burst::new(burst).expect("a valid burst");
        judge(&samples, Counts::default(), rate, burst)
    }

    #[test]
    fn reads_at_the_instants_of_the_bucket_are_perfect() {
        // Burst 2 at 1000 msg/s: two pass at once, the others follow each millisecond.
        let report = report(
            &[(0, 0), (0, 0), (0, 1000), (0, 2000), (10_000, 10_000)],
            1000.0,
            2.0,
        );
        assert_eq!((report.early_messages, report.delayed_messages), (0, 2));
        assert!(report.late.max_us < 0.01, "{report:?}");
        assert!(report.window_excess_messages <= 1e-9, "{report:?}");
    }

    #[test]
    fn late_and_early_reads_are_told_apart() {
        let report = report(&[(0, 100), (0, 100), (0, 600), (0, 2300)], 1000.0, 2.0);
        assert_eq!(report.early_messages, 1);
        assert_eq!(report.early_max_us, 400.0);
        assert!((report.late.max_us - 300.0).abs() < 1.0, "{report:?}");
        // Three reads within 500 us: 3 - (0.5 + 2).
        assert!(
            (report.window_excess_messages - 0.5).abs() < 1e-6,
            "{report:?}"
        );
    }

    #[test]
    fn nothing_read_is_nothing_wrong() {
        let report = report(&[], 10.0, 1.0);
        assert_eq!(
            (
                report.early_messages,
                report.delayed_messages,
                report.achieved_per_second
            ),
            (0, 0, 0.0)
        );
    }
}
