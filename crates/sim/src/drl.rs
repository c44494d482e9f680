//! Limiters of one limit and the TCP flows through them, in virtual time (DRL, section 4.3).
//!
//! A [`Scenario`] is data: limiters, flows, the transport of updates between limiters, and
//! failures. [`run`] drives the same [`limit::sharing`] policies and the same [`gossip::Exchange`]
//! that run live, with the senders and receivers of [`crate::tcp`], through one queue of events.
//! Equal scenarios give equal packets at equal nanoseconds; [`Outcome::hash`] proves it.
//!
//! A packet goes from its sender through an upstream bottleneck, if it has one, over the access
//! link of its limiter to the limiter; what is let through reaches the receiver half a round trip
//! later. Acknowledgements are never limited, delayed or lost. Nothing is queued at a limiter.

mod chance;
pub mod experiment;
mod fabric;
mod flow;
mod network;
mod outcome;
mod paper;
mod scenario;
mod schedule;
mod world;

pub use outcome::{FlowOutcome, LimiterOutcome, Outcome};
pub use scenario::{Bottleneck, Cut, Flows, Reach, Scenario, Updates, WebSessions};
pub use world::run;

#[cfg(test)]
mod tests;
