//! `srtm calibrate tasks`: the CPU share that a task needs for a wanted mean wait.
//!
//! With a spec it is simulated in virtual time, beside the expectation of queueing theory; with
//! `--broker` it is measured at a running broker, whose topic's share is raised until the wait
//! holds.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kernel::CpuShare;
use sim::tempo;
use wire::TopicName;

use super::live;
use crate::commands::scenario::{self, Jobs};
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::token_flags::TokenFlags;

const EXAMPLES: &str = "\
Examples:
  srtm calibrate tasks SPEC.toml
  srtm calibrate tasks SPEC.toml --json
  srtm calibrate tasks --broker http://127.0.0.1:4151 --topic alarms --want-wait 2ms
  srtm calibrate tasks --broker http://127.0.0.1:4151 --topic alarms --want-wait 2ms --max-share 0.5 --window 30s

docs/calibrate.md describes SPEC.toml and what is measured.";

/// Flags of `srtm calibrate tasks`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct TasksFlags {
    /// Spec of simulated tasks: arrivals and durations of their events, and the kernel.
    #[arg(
        value_name = "SPEC.toml",
        required_unless_present = "broker",
        conflicts_with = "broker"
    )]
    spec: Option<PathBuf>,
    /// URL of a broker that has no controller.
    #[arg(long, value_name = "URL", requires = "topic", requires = "want_wait")]
    broker: Option<String>,
    /// Topic whose CPU share is raised. It is calibrated for the traffic that it has meanwhile.
    #[arg(long, value_name = "TOPIC", requires = "broker")]
    topic: Option<TopicName>,
    /// Longest acceptable mean time that the topic's events wait for their turn.
    #[arg(long, value_name = "DURATION", requires = "broker")]
    want_wait: Option<GoDuration>,
    /// How long to measure each CPU share, after a warm-up of a fifth of it.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10s",
        requires = "broker"
    )]
    window: GoDuration,
    /// Largest CPU share to try [default: all that other topics leave].
    #[arg(long, value_name = "SHARE", requires = "broker")]
    max_share: Option<CpuShare>,
    #[command(flatten)]
    token: TokenFlags,
    #[command(flatten)]
    jobs: Jobs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Calibrates and prints.
pub(super) fn run(flags: &TasksFlags) -> Result<(), Failure> {
    match (flags, &flags.spec) {
        (_, Some(spec)) => simulate(spec, flags),
        (
            TasksFlags {
                broker: Some(broker),
                topic: Some(topic),
                want_wait: Some(GoDuration(wanted)),
                ..
            },
            None,
        ) => {
            let question = live::Question {
                token: &flags.token,
                broker,
                topic,
                wanted: *wanted,
                window: flags.window.0,
                max_share: flags.max_share,
            };
            live::run(&question, flags.json)
        }
        _ => Err(Failure::Usage(String::from(
            "the task to calibrate is missing; give a SPEC.toml, or --broker with --topic and --want-wait",
        ))),
    }
}

fn simulate(path: &Path, flags: &TasksFlags) -> Result<(), Failure> {
    ::bench::sys::end_with_closed_output();
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(Failure::io(format!("read {shown}")))?;
    let wrong = |error| Failure::Usage(format!("{shown}: {error}"));
    let spec = tempo::Spec::parse(&text).map_err(wrong)?;
    let calibration = tempo::calibrate(&spec, flags.jobs.count()).map_err(wrong)?;
    if flags.json {
        scenario::print_json(&calibration)?;
    } else {
        print!("{calibration}");
    }
    Ok(())
}
