//! Why something cannot be simulated.

use placement::FitError;
use thiserror::Error;
use workload::SpecError;

/// Why something cannot be simulated.
#[derive(Debug, Error)]
pub enum SimError {
    /// The spec itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The limit that the spec gives, or that follows from it.
    #[error("the topic's limit: {0}")]
    Limit(#[from] limit::InvalidLimit),
    /// No bucket could be fitted to the arrivals.
    #[error("fitting a bucket to the arrivals: {0}")]
    Profile(#[from] limit::profile::ProfileError),
    /// A policy or a mode that does not exist.
    #[error("{0}")]
    Word(String),
    /// The fit refused to begin.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A placement that is not one of this scene.
    #[error("a placement of {places} publishers does not fit a load of {publishers}")]
    Placement {
        /// Places given.
        places: usize,
        /// Publishers of the load.
        publishers: usize,
    },
    /// A recording cannot be sped up.
    #[error(
        "the rate of a recording cannot be changed: ask \"rate x…\" of a spec with [[publishers]]"
    )]
    FixedRate,
    /// A question about a broker that does not exist.
    #[error("there is no broker b{broker}: the cluster has b1 to b{brokers}")]
    NoSuchBroker {
        /// Asked for.
        broker: u32,
        /// Brokers there are.
        brokers: usize,
    },
    /// A number of limiters, or of how they share their limit.
    #[error(transparent)]
    Sharing(#[from] limit::sharing::SharingError),
    /// A scenario of limiters that cannot be.
    #[error("{0}")]
    Scenario(String),
    /// A trace without arrivals.
    #[error("the recording holds no arrivals: there is nothing to simulate")]
    EmptyRecording,
}
