//! `srtm calibrate`: what a broker carries under a promise, and what a message costs it.

use std::env;

use bench::calibrate::{self, CalibrateOptions};
use clap::Args;

use crate::error::Failure;

/// The program that is running, whatever its name and place.
const THIS_PROGRAM: &str = "/proc/self/exe";

const EXAMPLES: &str = "\
Examples:
  srtm calibrate --data-path /var/lib/srtm
  srtm calibrate --slo-p99 5ms --body-bytes 1000 --data-path /var/lib/srtm
  srtm calibrate --quick
  srtm calibrate --tcp 127.0.0.1:4150 --pid 4711
  srtm calibrate --show --data-path /var/lib/srtm";

/// Flags of `srtm calibrate`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    options: CalibrateOptions,
}

/// Measures and prints; keeps the result when told where.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    calibrate::calibrate(&flags.options, THIS_PROGRAM.as_ref(), &env::temp_dir())?;
    Ok(())
}
