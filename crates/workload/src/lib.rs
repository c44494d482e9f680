//! One workload language for load generator, simulator, planner and experiments.
//!
//! A [`Spec`] says in TOML who publishes what, how often, in which groups; [`Spec::arrivals`] turns it into the
//! instants at which messages are due, the same ones for every program and every run with the same seed. Pure: no
//! clock, no files, no global randomness.

mod arrival;
mod error;
mod spec;
pub mod trace;

pub use arrival::{Arrival, Arrivals, PublisherProfile};
pub use error::{Place, SpecError};
pub use spec::{Class, Cluster, Failure, POLICIES, Pattern, Ramp, Spec, Topic};
