//! How brokers share a topic's limit, as contracts name it.

use std::str::FromStr;

use super::one_of;
use crate::InvalidLimit;
use crate::sharing::Policy;

/// How brokers share a topic's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SharePolicy {
    /// By leases that a controller grants; a broker that has no controller has the whole limit.
    #[default]
    Lease,
    /// By gossip among themselves: global token bucket.
    Gtb,
    /// By gossip: global random drop.
    Grd,
    /// By gossip: flow proportional share.
    Fps,
}

/// What contracts called leases once, and stores may hold; packet limiters mean 1/N by it ([`Policy::Static`]).
const FORMER_LEASE: &str = "static";

impl SharePolicy {
    /// The word for it in JSON and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            SharePolicy::Lease => "lease",
            SharePolicy::Gtb => "gtb",
            SharePolicy::Grd => "grd",
            SharePolicy::Fps => "fps",
        }
    }

    /// The policy of the brokers' limiters, where they share by gossip.
    pub const fn gossiped(self) -> Option<Policy> {
        match self {
            SharePolicy::Lease => None,
            SharePolicy::Gtb => Some(Policy::Gtb),
            SharePolicy::Grd => Some(Policy::Grd),
            SharePolicy::Fps => Some(Policy::Fps),
        }
    }
}

impl FromStr for SharePolicy {
    type Err = InvalidLimit;

    fn from_str(word: &str) -> Result<Self, InvalidLimit> {
        if word == FORMER_LEASE {
            return Ok(SharePolicy::Lease);
        }
        let all = [
            SharePolicy::Lease,
            SharePolicy::Gtb,
            SharePolicy::Grd,
            SharePolicy::Fps,
        ];
        one_of(
            "sharing",
            &all,
            SharePolicy::as_str,
            "lease, gtb, grd, fps",
            word,
        )
    }
}
