//! What a broker would have done: recorded arrivals through a service model and a token bucket.
//!
//! A profiling window records when every publisher sent. Replaying those arrivals gives the latency
//! of *any* assignment of the same publishers within milliseconds, where measuring it live takes a
//! window of a minute. The law is that of the broker itself: messages are served first come first
//! served on identical servers while the topic's bucket judges their arrival stamps, so service and
//! tokens overlap, and nobody overtakes (SRTM-long, appendix A).
//!
//! * [`Trace`]: the arrivals of one window.
//! * [`Station`]: one broker, with a [`model::ServiceModel`], as a queue with a bucket, message by
//!   message.
//! * [`replay`], [`Replayer`]: one broker's latencies under an assignment; with [`Neighbour`]s,
//!   those of all its topics together, through one queue and a bucket each.
//! * [`fit_by_replay`]: the assignment with the fewest brokers whose replay meets the SLO.
//!
//! Not modelled: a network that loses packets, publishers that react to back-pressure, and slow
//! subscribers. A window measured live has the last word ([`crate::Fitting`]).

mod fit;
mod judge;
mod lane;
mod latencies;
mod neighbour;
mod repair;
mod run;
mod servers;
mod shares;
mod station;
mod together;
mod trace;

pub use fit::{ReplayFit, ReplayProblem, fit_by_replay};
pub(crate) use judge::Judge;
pub use lane::{Gate, Left};
pub use latencies::Latencies;
pub use neighbour::Neighbour;
pub use run::{Replayer, replay};
pub use station::Station;
pub use trace::{Arrival, Trace};

#[cfg(test)]
mod tests;
