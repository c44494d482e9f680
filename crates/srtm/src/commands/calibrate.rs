//! `srtm calibrate`: how much a broker carries under a promise, the cost of a message, and the CPU
//! shares that wanted waits need.

mod live;
mod tasks;

use std::env;

use bench::calibrate::{self, CalibrateOptions};
use clap::{Args, Subcommand};

use crate::error::Failure;

/// The program that is running, whatever its name and place.
const THIS_PROGRAM: &str = "/proc/self/exe";

const EXAMPLES: &str = "\
Examples:
  srtm calibrate --data-path /var/lib/srtm
  srtm calibrate --slo-p99 5ms --body-bytes 1000 --data-path /var/lib/srtm
  srtm calibrate --quick
  srtm calibrate --tcp 127.0.0.1:4150 --pid 4711
  srtm calibrate --show --data-path /var/lib/srtm
  srtm calibrate tasks SPEC.toml";

/// Flags of `srtm calibrate`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    options: CalibrateOptions,
}

/// What else is calibrated.
#[derive(Subcommand, Debug)]
enum What {
    /// Finds CPU shares: of simulated tasks, or of a topic at a broker.
    Tasks(tasks::TasksFlags),
}

/// Measures and prints; keeps the result when told where.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    if let Some(What::Tasks(flags)) = &flags.what {
        return tasks::run(flags);
    }
    calibrate::calibrate(&flags.options, THIS_PROGRAM.as_ref(), &env::temp_dir())?;
    Ok(())
}
