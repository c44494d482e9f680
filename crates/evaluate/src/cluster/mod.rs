//! Checks on live clusters of real processes under load.
//!
//! The load is [`bench::cluster`]'s: publishers that follow their placement, a subscriber at every
//! broker, every message counted.

mod checks;
mod consumer;
mod processes;

pub use checks::{ClusterOptions, JUDGES, check};
pub use consumer::Consumer;
pub use processes::{Broker, Cluster, Setup};
