//! Publishers and brokers of a placement, as numbers in a slice.

use limit::Rate;
use serde::{Deserialize, Serialize};

/// A publisher of the topic, as its place in the slice of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PublisherIndex(pub u32);

/// A broker, as its place in the slice of all of them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct BrokerIndex(pub u32);

/// A correlation group (SRTM-long, section 4.3), numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupIndex(pub u32);

/// What the distributor knows of a publisher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Publisher {
    /// Messages per second, declared or measured.
    pub rate: Rate,
    /// Messages it sends at once, at least 1.
    pub batch_messages: u32,
    /// Publishers of one group send at about the same time; `None`: independent of all others.
    pub group: Option<GroupIndex>,
}

/// What the distributor knows of a broker, in messages per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrokerState {
    /// The most that it carries under the SLO, found by a benchmark phase (mcap).
    pub mcap: f64,
    /// Its present load of other topics and of clients that cannot be moved.
    pub load: f64,
    /// Whether it may be given publishers of this topic: not draining, not dead.
    pub is_available: bool,
}

impl BrokerState {
    /// Residual capacity: rcap = mcap − load, never negative.
    #[must_use]
    pub fn rcap(&self) -> f64 {
        (self.mcap - self.load).max(0.0)
    }
}
