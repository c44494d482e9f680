//! A cluster in virtual time: the load of a [`workload::Spec`] through the same pure crates that
//! run live.
//!
//! Publishers send by the spec's arrivals; each broker is a [`placement::Station`] (servers behind
//! one queue, the topic's bucket behind them); publishers are placed by [`placement::Fitting`],
//! which gets profiling windows exactly as from the control plane; shares move as leases of a
//! [`limit::Ledger`]. Nothing reads a clock, and all randomness comes from the spec's seed: the
//! same spec gives the same messages at the same nanoseconds; [`Measured::hash`] proves it.
//!
//! Not modelled: packets, slow subscribers, and the network between brokers. [`drl`] deals with
//! packets: limiters of TCP traffic.

mod capacity;
pub mod drl;
mod engine;
mod error;
pub mod experiment;
pub mod figures;
mod fit;
mod gap;
mod measure;
pub mod parallel;
pub mod plan;
mod scene;
pub mod tcp;
pub mod tempo;

pub use capacity::capacity;
pub use error::SimError;
pub use fit::{Fit, fit, spread};
pub use measure::{BrokerMeasured, Measured, Percentiles, Second, measure, simulate};
pub use scene::Scene;
