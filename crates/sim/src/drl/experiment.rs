//! The figures and tables of DRL's evaluation, in virtual time.
//!
//! A definition is a TOML file ([`Study`]): a [`Scenario`](super::Scenario), its traffic in parts, series that set keys
//! of it anew, and perhaps keys that are varied. It serves one or several [`Figure`]s of the paper. It makes one
//! [`Record`] per run, in the form that live results have, which does not depend on the machine, the threads or the
//! hour. [`check`] holds records against what the paper found, [`table`] shows them.
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
