//! The Load Distributor's decisions: how many brokers, which publisher where, and the fit to an
//! SLO.
//!
//! Pure: no clock, no sockets, no global randomness. The inputs of decisions come in as values; the
//! control plane carries the decisions out and brings back measurements.

mod choose;
mod distribute;
mod fitting;
mod groups;
mod policy;
mod publisher;
mod quota;
mod replay;

pub use distribute::{Distribution, OutOfBrokers, Question, distribute};
pub use fitting::{
    BrokerFit, BrokerWindow, Deciding, FitConfig, FitError, FitState, FitStatus, Fitting,
    Iteration, Mode, Step, UnknownMode, Window, shedding_order,
};
pub use groups::{InferConfig, infer_groups};
pub use policy::{Policy, UnknownPolicy};
pub use publisher::{BrokerIndex, BrokerState, GroupIndex, Publisher, PublisherIndex};
pub use replay::{
    Arrival, Gate, Latencies, Left, Neighbour, ReplayFit, ReplayProblem, Replayer, Station, Trace,
    fit_by_replay, replay,
};
