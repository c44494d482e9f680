//! Experiments, whichever evaluation they repeat: a definition, its runs, a record of each run, and
//! findings that the records show or do not show.
//!
//! An [`Experiment`] names its cells and computes each. [`run_experiment`] works them off on all
//! cores and keeps one record per run in a file of JSON lines, which is the same byte for byte for
//! the same seed, whatever the order of execution and however often it was interrupted
//! ([`Results`]). A [`Verdict`] is a finding compared with records, whether these were made just
//! now or read from the file.
//!
//! [`crate::figures`] are the experiments of the SRTM paper, [`crate::drl::experiment`] those of
//! DRL. Nothing here reads a clock; the caller notes how long a run took and where it ran.

mod error;
pub(crate) mod overrides;
mod results;
mod runner;
pub(crate) mod seeds;
mod spread;
mod verdict;

pub use error::ExperimentError;
pub use results::Results;
pub use runner::{Experiment, Progress, RunOptions, run_experiment};
pub use spread::Spread;
pub use verdict::Verdict;
