//! The experiments of the SRTM paper's evaluation, in virtual time.
//!
//! A figure is a TOML file ([`Figure`]): a base load in the workload language, an x-axis and series that override keys
//! of it, and panels, each an [`Experiment`]. [`run_experiment`] works off its grid of x × repeats × series on all
//! cores and keeps one [`Row`] per run in a file of JSON lines that is the same byte for byte for the same seed, whatever
//! the order of execution and however often it was interrupted. [`Summary`] aggregates the rows, [`check`] holds
//! them against what the paper found.
//!
//! Nothing here reads a clock; what a run took and where it ran is the caller's to note.

mod built_in;
mod cell;
mod check;
mod definition;
mod error;
pub(crate) mod overrides;
mod parse;
mod profile;
mod results;
mod row;
mod runner;
pub(crate) mod seeds;
mod summary;
mod table;
#[cfg(test)]
mod tests;

pub use built_in::{built_in, built_in_names};
pub use check::{Verdict, check};
pub use definition::{Axis, Brokers, Experiment, Figure, Series};
pub use error::ExperimentError;
pub use results::Results;
pub use row::{BrokerRow, Row};
pub use runner::{Progress, RunOptions, run_experiment};
pub use summary::{Point, Spread, Summary};
pub use table::table;
