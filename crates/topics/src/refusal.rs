//! Why a topic or channel cannot be created.

use std::time::Duration;

/// Why a topic or channel cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The table holds as many topics as it may.
    #[error("too many topics (limit {0})")]
    Topics(usize),
    /// Its maker has made as many topics and channels as it may.
    #[error(
        "this address has made {most} topics and channels within {window:?}; delete some, or raise --max-names-per-address"
    )]
    Names {
        /// The bound.
        most: usize,
        /// Names that are older do not count.
        window: Duration,
    },
    /// The memory for topics and channels is used up.
    #[error("no memory for another {0} (raise --memory-budget)")]
    Memory(&'static str),
    /// The topic has as many channels as it may.
    #[error("too many channels (limit {0})")]
    Channels(usize),
    /// The channel has as many consumers as it may; nsqd's text.
    #[error("consumers for {topic}:{channel} exceeds limit of {limit}")]
    Consumers {
        /// Topic name.
        topic: String,
        /// Channel name.
        channel: String,
        /// The bound.
        limit: usize,
    },
}
