//! The figures and tables of DRL's evaluation, in virtual time.
//!
//! A definition is a TOML file ([`Study`]): a [`Scenario`](super::Scenario), its traffic in parts,
//! series that override keys of it, and optionally keys that are varied. It serves one or several
//! [`Figure`]s of the paper. It makes one [`Record`] per run, in the form of live results, which
//! does not depend on the machine, the threads or the hour. [`check`] compares records with the
//! paper's findings, [`table`] shows them.
//!
//! Nothing here reads a clock or writes a file.

mod built_in;
mod check;
mod definition;
mod measure;
mod record;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod traffic;

pub use built_in::{built_in, parse_all};
pub use check::check;
pub use definition::{Figure, Series, Study};
pub use record::{
    Control, Downloads, LocalLimits, Measured, Rates, Record, SizeClass, Steps, Workload,
};
pub use table::table;
pub use traffic::{All, Bulk, Count, Narrow, Part, Sessions, Sites, Sizes, Web};
