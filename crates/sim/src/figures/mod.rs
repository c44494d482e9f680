//! The experiments of the SRTM paper's evaluation, in virtual time.
//!
//! A figure is a TOML file ([`Figure`]): a base load in the workload language, an x-axis and series
//! that override keys of it, and panels, each an experiment ([`Panel`]): a grid of x × repeats ×
//! series with one [`Row`] per run. [`Summary`] aggregates the rows, [`check`] compares them with
//! the paper's findings.

mod built_in;
mod cell;
mod check;
mod definition;
mod parse;
mod profile;
mod row;
mod summary;
mod table;
#[cfg(test)]
mod tests;

pub use built_in::{built_in, built_in_names};
pub use check::check;
pub use definition::{Axis, Brokers, Figure, Panel, Series};
pub use row::{BrokerRow, Row};
pub use summary::{Point, Summary};
pub use table::table;
