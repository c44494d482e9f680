//! What a fit asks for, and the answers.

use crate::{BrokerIndex, Neighbour, Trace};

/// The next step. Assignments go by publisher.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Move publishers so, let traffic settle, run one profiling window, then call
    /// [`Fitting::measured`](super::Fitting::measured). `None`: withhold this publisher for the window; there
    /// is no broker it could wait at without disturbing the measurement.
    Measure(Vec<Option<BrokerIndex>>),
    /// All are placed and the SLO is met. The assignment is final.
    Done(Vec<BrokerIndex>),
    /// Publishers are left over, or the SLO is not met, and no broker is left. Ask a spawner for more and
    /// call [`Fitting::add_broker`](super::Fitting::add_broker).
    OutOfBrokers {
        /// The best configuration meanwhile. Publishers that fit nowhere are spread over all brokers, since
        /// they will send anyway; `None` only if no broker is available at all.
        best: Vec<Option<BrokerIndex>>,
        /// Messages per second that fit nowhere.
        missing: f64,
        /// In words.
        why: String,
    },
}

/// One broker's answer to a profiling window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BrokerWindow {
    /// End-to-end latency at the percentile that was asked for, in microseconds; `None`: too few samples.
    pub p99_us: Option<f64>,
    /// Messages released within the window.
    pub messages: u64,
}

/// A profiling window.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// By broker index; those that are missing at the end have not answered.
    pub brokers: &'a [BrokerWindow],
    /// What arrived within it at all brokers, if it was traced.
    pub trace: Option<&'a Trace>,
    /// Its length.
    pub seconds: f64,
    /// Promised topics on the same brokers.
    pub neighbours: &'a [Neighbour<'a>],
}
