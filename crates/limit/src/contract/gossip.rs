//! How the limiters of a shared limit gossip about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::InvalidLimit;

/// A limit's settings of its gossip, in JSON `{"interval_ms":50,"branches":3,"ewma":0.1}`; missing
/// ones have the common values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gossip {
    /// Length of an estimate interval, milliseconds, 10 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u32>,
    /// To how many others each tells its numbers per interval, 1 or more; N − 1 or more: to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branches: Option<u16>,
    /// The fraction of an old estimate that remains after one second, at least 0 and below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ewma: Option<f64>,
}

impl Gossip {
    /// Intervals that can be asked for, milliseconds.
    pub const INTERVALS_MS: std::ops::RangeInclusive<u32> = 10..=10_000;

    /// Length of an estimate interval, if it says so.
    pub fn interval(self) -> Option<Duration> {
        self.interval_ms.map(|ms| Duration::from_millis(ms.into()))
    }

    /// Whether it says nothing.
    pub fn is_default(&self) -> bool {
        *self == Gossip::default()
    }

    /// Whether all of it can be.
    ///
    /// # Errors
    /// [`InvalidLimit::Gossip`], with the field that cannot.
    pub fn checked(self) -> Result<Self, InvalidLimit> {
        let refused = |field, given: f64, expected| {
            Err(InvalidLimit::Gossip {
                field,
                given,
                expected,
            })
        };
        if let Some(ms) = self.interval_ms
            && !Self::INTERVALS_MS.contains(&ms)
        {
            return refused("interval_ms", ms.into(), "from 10 to 10000 milliseconds");
        }
        if self.branches == Some(0) {
            return refused("branches", 0.0, "at least 1");
        }
        if let Some(ewma) = self.ewma
            && !(0.0..1.0).contains(&ewma)
        {
            return refused("ewma", ewma, "at least 0 and less than 1");
        }
        Ok(self)
    }
}
