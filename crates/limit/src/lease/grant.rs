//! Grants, which the ledger sends to a holder, and sums of them.

use serde::{Deserialize, Serialize};

use crate::{Burst, Limit, Rate, Share};

/// A share of a topic's limit as a lease, to one broker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Life of the controller: a later one's grants count more than all of an earlier one's.
    pub epoch: u64,
    /// Number within the epoch; within a topic no two grants have the same.
    pub seq: u64,
    /// What may be used until the lease ends; `None`: nothing passes.
    pub share: Option<Share>,
    /// What may be used from then on, never more than the share; `None`: nothing passes.
    pub floor: Option<Share>,
    /// The lease ends this long after the report was sent, by the broker's clock.
    pub ttl_ms: u64,
    /// Number of the report that it answers.
    pub answers_report: u64,
    /// The round in which it was made: beyond the lease's end the share may be used while all brokers of the round vouch for
    /// it ([`crate::Vouches`]). 0: never.
    #[serde(default, skip_serializing_if = "is_none")]
    pub round: u64,
}

fn is_none(round: &u64) -> bool {
    *round == 0
}

/// A sum of shares. Unlike a [`Share`] it may be nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exposure {
    /// Tokens per second.
    pub rate: f64,
    /// Tokens.
    pub burst: f64,
}

impl Exposure {
    /// Whether a limit allows it.
    pub fn is_within(&self, limit: &Limit) -> bool {
        self.rate <= limit.rate.get() && self.burst <= limit.burst.get()
    }

    /// The share of this size; `None` when a bucket could not pass a single token with it.
    pub fn to_share(self) -> Option<Share> {
        let rate = Rate::new(self.rate).ok()?;
        let burst = Burst::new(self.burst).ok()?;
        Some(Share { rate, burst })
    }

    /// The greater of each.
    pub(super) fn max(self, other: Exposure) -> Exposure {
        Exposure {
            rate: self.rate.max(other.rate),
            burst: self.burst.max(other.burst),
        }
    }

    /// The smaller of each.
    pub(super) fn min(self, other: Exposure) -> Exposure {
        Exposure {
            rate: self.rate.min(other.rate),
            burst: self.burst.min(other.burst),
        }
    }

    /// Whether `other` is no greater, neither in rate nor in burst.
    pub(super) fn covers(self, other: Exposure) -> bool {
        self.rate >= other.rate && self.burst >= other.burst
    }

    pub(super) fn plus(self, other: Exposure) -> Exposure {
        Exposure {
            rate: self.rate + other.rate,
            burst: self.burst + other.burst,
        }
    }
}

impl From<Option<Share>> for Exposure {
    fn from(share: Option<Share>) -> Self {
        share.map_or(Exposure::default(), |share| Exposure {
            rate: share.rate.get(),
            burst: share.burst.get(),
        })
    }
}
