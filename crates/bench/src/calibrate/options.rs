//! Options of a calibration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::error::BenchError;
use crate::workload::Workload;

/// Options of `srtm calibrate`.
#[derive(Debug, Clone, Args)]
pub struct CalibrateOptions {
    /// Promise: 99 of 100 messages take at most this, end to end.
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = parse_latency)]
    pub slo_p99: Duration,
    /// Data folder of the broker; the result is kept there [default: it is only printed].
    #[arg(long, value_name = "FOLDER")]
    pub data_path: Option<PathBuf>,
    /// Print what is kept in --data-path and measure nothing.
    #[arg(long, requires = "data_path")]
    pub show: bool,
    /// Takes about 20 s instead of 90: to try it out, the result is too rough to rely on.
    #[arg(long)]
    pub quick: bool,
    /// The program to calibrate, as `FILE broker` [default: this one].
    #[arg(long, value_name = "FILE", conflicts_with = "tcp")]
    pub srtm: Option<PathBuf>,
    /// Further argument of `srtm broker`; may be repeated.
    #[arg(
        long = "srtm-arg",
        value_name = "ARG",
        allow_hyphen_values = true,
        conflicts_with = "tcp"
    )]
    pub srtm_args: Vec<String>,
    /// Calibrate a running, idle broker of this machine instead of starting one.
    #[arg(long, value_name = "ADDRESS", requires = "pid")]
    pub tcp: Option<SocketAddr>,
    /// Process id of the broker behind --tcp.
    #[arg(long, value_name = "PID", requires = "tcp")]
    pub pid: Option<u32>,
    /// Reactor threads of the broker behind --tcp; a broker that is started has one.
    #[arg(long, value_name = "N", requires = "tcp", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Messages per second of a publisher; more publishers make a higher rate.
    #[arg(long, value_name = "MSG/S", default_value_t = 10.0)]
    pub rate_per_publisher: f64,
    /// Messages per publish command.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch_messages: u32,
    /// Body of a message, at least 24 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub body_bytes: usize,
    /// Length of a run at one rate [default: 5000, with --quick 1500].
    #[arg(long, value_name = "MS")]
    pub measure_ms: Option<u64>,
    /// Most runs of the search for mcap [default: 12, with --quick 6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub max_runs: Option<u16>,
    /// Core that the broker runs on.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub broker_core: usize,
    /// Core that the load comes from.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub generator_core: usize,
}

/// How long and how often things are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effort {
    /// Rounds of the model's loads.
    pub(super) model_rounds: u32,
    pub(super) model_warmup_ms: u64,
    pub(super) model_measure_ms: u64,
    pub(super) mcap_warmup_ms: u64,
    pub(super) mcap_measure_ms: u64,
    pub(super) max_runs: usize,
    /// How close the search brackets mcap, in percent.
    pub(super) tolerance_percent: u32,
}

impl CalibrateOptions {
    /// The promise in microseconds.
    pub fn slo_p99_us(&self) -> f64 {
        self.slo_p99.as_secs_f64() * 1e6
    }

    pub(super) fn effort(&self) -> Effort {
        let mut effort = if self.quick {
            Effort {
                model_rounds: 1,
                model_warmup_ms: 200,
                model_measure_ms: 500,
                mcap_warmup_ms: 300,
                mcap_measure_ms: 1500,
                max_runs: 6,
                tolerance_percent: 10,
            }
        } else {
            Effort {
                model_rounds: 2,
                model_warmup_ms: 300,
                model_measure_ms: 1000,
                mcap_warmup_ms: 700,
                mcap_measure_ms: 5000,
                max_runs: 12,
                tolerance_percent: 5,
            }
        };
        effort.mcap_measure_ms = self.measure_ms.unwrap_or(effort.mcap_measure_ms);
        effort.max_runs = self.max_runs.map_or(effort.max_runs, usize::from);
        effort
    }

    /// The load of one publisher, to be multiplied.
    ///
    /// # Errors
    /// Names the option that is out of range.
    pub(super) fn one_publisher(&self) -> Result<Workload, BenchError> {
        let effort = self.effort();
        let one = Workload {
            publishers: 1,
            rate_per_publisher: self.rate_per_publisher,
            batch_messages: self.batch_messages,
            mpub: self.batch_messages > 1,
            body_bytes: self.body_bytes,
            warmup_ms: effort.mcap_warmup_ms,
            measure_ms: effort.mcap_measure_ms,
            ..Workload::default()
        };
        one.check()?;
        Ok(one)
    }
}

/// A latency as one number and its unit: 800us, 1ms, 0.5s.
fn parse_latency(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let number_end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit_s = units.iter().find(|(name, _)| *name == unit);
    let seconds = unit_s
        .zip(number.parse::<f64>().ok())
        .map(|((_, unit_s), number)| number * unit_s);
    seconds
        .filter(|seconds| (1e-6..=60.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is not a latency: write 1us to 60s, as in 800us or 1ms"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        options: CalibrateOptions,
    }

    fn parse(arguments: &[&str]) -> Result<CalibrateOptions, String> {
        let all = ["test"].iter().chain(arguments);
        Only::try_parse_from(all)
            .map(|only| only.options)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_sound() {
        Only::command().debug_assert();
    }

    #[test]
    fn latencies_are_read() {
        for (text, us) in [
            ("1ms", 1000.0),
            ("800us", 800.0),
            ("2.5ms", 2500.0),
            ("1s", 1e6),
            ("5µs", 5.0),
        ] {
            let options = parse(&["--slo-p99", text]).expect(text);
            assert!((options.slo_p99_us() - us).abs() < 1e-6, "{text}");
        }
        for text in ["", "1", "ms", "0ms", "-1ms", "61s", "1h", "1ms2us", "NaNms"] {
            let flag = format!("--slo-p99={text}");
            let error = parse(&[&flag]).expect_err(text);
            assert!(error.contains("as in 800us"), "{text}: {error}");
        }
    }

    #[test]
    fn options_that_need_each_other() {
        for wrong in [
            &["--show"][..],
            &["--tcp", "127.0.0.1:4150"],
            &["--pid", "7"],
            &["--threads", "2"],
            &["--tcp", "127.0.0.1:4150", "--pid", "7", "--srtm", "x"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let options = parse(&["--tcp", "127.0.0.1:4150", "--pid", "7", "--threads", "2"]);
        assert_eq!(options.expect("complete").threads, 2);
        assert!(
            parse(&["--show", "--data-path", "x"])
                .expect("complete")
                .show
        );
    }

    #[test]
    fn quick_is_shorter_and_explicit_numbers_win() {
        let (slow, quick) = (
            parse(&[]).expect("defaults"),
            parse(&["--quick"]).expect("known"),
        );
        assert!(quick.effort().mcap_measure_ms < slow.effort().mcap_measure_ms);
        let both = parse(&["--quick", "--measure-ms", "9000", "--max-runs", "3"]).expect("known");
        assert_eq!(
            (both.effort().mcap_measure_ms, both.effort().max_runs),
            (9000, 3)
        );
    }

    #[test]
    fn a_load_out_of_range_is_refused() {
        for wrong in [
            ["--body-bytes", "1"],
            ["--batch-messages", "0"],
            ["--rate-per-publisher", "0"],
        ] {
            let options = parse(&wrong).expect("a number");
            assert!(options.one_publisher().is_err(), "{wrong:?}");
        }
        assert!(parse(&[]).expect("defaults").one_publisher().is_ok());
    }
}
