//! `srtm bench`: the measurements of the `bench` crate.

use bench::Command;

use crate::error::Failure;

/// Carries out a measurement. One that starts this program again calls it by the same subcommand.
pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    Ok(bench::execute(command, &["bench".to_owned()])?)
}
