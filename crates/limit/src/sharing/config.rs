//! The operator's configuration of a shared limit, and its refusals.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clock::{Instant, Streams};
use serde::{Deserialize, Serialize};

use super::Limiter;
use super::fixed_part::FixedPart;
use super::flow_share::FlowShare;
use super::global_bucket::GlobalBucket;
use super::random_drop::RandomDrop;
use crate::{Burst, InvalidLimit, Rate};

/// How limiters share a limit. See [`crate::sharing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// 1/N each.
    #[default]
    Static,
    /// Global token bucket.
    Gtb,
    /// Global random drop.
    Grd,
    /// Flow proportional share.
    Fps,
    /// Central token bucket: the whole limit, for the one limiter that all traffic passes. More than one of them let
    /// through as many times the limit.
    Ctb,
}

/// A limit and how it is shared; [`SharingConfig::checked`] makes limiters of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingConfig {
    /// The policy of all its limiters.
    pub policy: Policy,
    /// L: units per second of all limiters together.
    pub rate: Rate,
    /// Depth of the one bucket that the limiters stand for, units.
    pub burst: Burst,
    /// N: limiters that there are, connected or not.
    pub limiters: u32,
    /// Time between two calls of [`Limiter::estimate`]; the paper's is 50 ms. Here only to be checked: a limiter goes
    /// by the time between the calls that it gets.
    pub estimate_interval: Duration,
    /// The fraction of an old estimate that remains after one second, from 0 (no smoothing) to
    /// below 1. The paper's is 0.1.
    pub ewma_1s: f64,
    /// Depth that every local bucket has at least, units: below the size of its largest message a bucket never lets
    /// that message through. All local depths together are at most `burst` + N times this.
    pub least_depth: Burst,
    /// Flows that an `fps` limiter watches, 1 to 4,096.
    pub sampled_flows: usize,
    /// The chance of a flow that is not watched to become so with one of its packets, above 0 and at most 1.
    pub resample_probability: f64,
    /// The most that all `fps` limiters' rates together may be, as a multiple of L, while less than L passes; 1 for never
    /// more than L. Greater values need transports that carry [`Update::passed`](super::Update::passed).
    pub overbooking: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// A [`SharingConfig`] that was checked: makes the limiters of one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing(SharingConfig);

/// A way of sharing that cannot be, with a text for the person who asked for it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SharingError {
    /// Rate or burst.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// No such policy.
    #[error("sharing policy {given:?} is unknown: use one of static, gtb, grd, fps, ctb")]
    Policy {
        /// What was given.
        given: String,
    },
    /// Nobody shares, or more than a limiter keeps apart.
    #[error("{given} limiters are out of range: 1 to {MAX_LIMITERS} may share a limit")]
    Limiters {
        /// What was given.
        given: u32,
    },
    /// The depth that each bucket has at least is more than all together should have.
    #[error(
        "the least depth {least} exceeds the burst {burst}: raise the burst or lower the depth"
    )]
    LeastDepth {
        /// What was given.
        least: Burst,
        /// The limit's.
        burst: Burst,
    },
    /// Estimates would follow single packets, or nothing.
    #[error("an estimate interval of {given:?} is out of range: 1 ms to 60 s")]
    Interval {
        /// What was given.
        given: Duration,
    },
    /// Not a part of an estimate.
    #[error("ewma_1s {given} is out of range: it must be at least 0 and less than 1")]
    Ewma {
        /// What was given.
        given: f64,
    },
    /// Too few flows to say anything, or too many to look through per packet.
    #[error("{given} sampled flows are out of range: 1 to 4096")]
    SampledFlows {
        /// What was given.
        given: usize,
    },
    /// Not a probability with which anything happens.
    #[error(
        "resample_probability {given} is out of range: it must be greater than 0 and at most 1"
    )]
    Resample {
        /// What was given.
        given: f64,
    },
    /// Less than the limit, or so much more that it means nothing.
    #[error("overbooking {given} is out of range: 1 to 2 times the limit")]
    Overbooking {
        /// What was given.
        given: f64,
    },
    /// A limiter beyond the last one.
    #[error("limiter {index} is out of range: there are {limiters}, counted from 0")]
    Index {
        /// What was given.
        index: u32,
        /// N.
        limiters: u32,
    },
    /// What another limiter says of itself cannot be.
    #[error("{field} {given} of an update is out of range: it must be at least 0 and at most 1e15")]
    Update {
        /// The quantity.
        field: &'static str,
        /// What was given.
        given: f64,
    },
}

/// The most limiters that share a limit.
pub(super) const MAX_LIMITERS: u32 = 65_536;

/// Three full Ethernet packets.
const THREE_PACKETS_BYTES: f64 = 4500.0;

impl SharingConfig {
    /// A limit in messages; everything else as in the paper or, where that is silent, as docs/sharing.md explains.
    ///
    /// # Errors
    /// [`SharingError::Limit`] when a number is out of range.
    pub fn messages(
        policy: Policy,
        rate: f64,
        burst: f64,
        limiters: u32,
    ) -> Result<Self, SharingError> {
        Ok(SharingConfig {
            policy,
            rate: Rate::new(rate)?,
            burst: Burst::new(burst)?,
            limiters,
            estimate_interval: Duration::from_millis(50),
            ewma_1s: 0.1,
            least_depth: Burst::new(1.0)?,
            sampled_flows: 32,
            resample_probability: 0.02,
            overbooking: 4.0 / 3.0,
            seed: 0,
        })
    }

    /// A limit in bytes, of packets: every local bucket holds three full packets at least, or the burst if it is less.
    ///
    /// # Errors
    /// [`SharingError::Limit`] when a number is out of range.
    pub fn bytes(
        policy: Policy,
        rate: f64,
        burst: f64,
        limiters: u32,
    ) -> Result<Self, SharingError> {
        let config = Self::messages(policy, rate, burst, limiters)?;
        Ok(SharingConfig {
            least_depth: Burst::new(burst.min(THREE_PACKETS_BYTES))?,
            ..config
        })
    }

    /// The limit, if all of it makes sense.
    ///
    /// # Errors
    /// [`SharingError`], with the field that does not.
    pub fn checked(self) -> Result<Sharing, SharingError> {
        if !(1..=MAX_LIMITERS).contains(&self.limiters) {
            return Err(SharingError::Limiters {
                given: self.limiters,
            });
        }
        if self.least_depth > self.burst {
            return Err(SharingError::LeastDepth {
                least: self.least_depth,
                burst: self.burst,
            });
        }
        let interval = self.estimate_interval;
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&interval) {
            return Err(SharingError::Interval { given: interval });
        }
        if !(0.0..1.0).contains(&self.ewma_1s) {
            return Err(SharingError::Ewma {
                given: self.ewma_1s,
            });
        }
        if !(1..=4096).contains(&self.sampled_flows) {
            return Err(SharingError::SampledFlows {
                given: self.sampled_flows,
            });
        }
        if !(self.resample_probability > 0.0 && self.resample_probability <= 1.0) {
            return Err(SharingError::Resample {
                given: self.resample_probability,
            });
        }
        if !(1.0..=2.0).contains(&self.overbooking) {
            return Err(SharingError::Overbooking {
                given: self.overbooking,
            });
        }
        // A part of the limit that is no rate any more could not be enforced.
        Rate::new(self.rate.get() * LEAST_PART / f64::from(self.limiters))?;
        Ok(Sharing(self))
    }
}

/// No local limit is a smaller part of L/N than this.
const LEAST_PART: f64 = 1e-3;

impl Sharing {
    /// Limiter `index` of the N, from 0, as it begins at `now`: with an empty bucket, and 1/N of the limit until it
    /// hears of demands.
    ///
    /// # Errors
    /// [`SharingError::Index`] beyond the last.
    pub fn limiter(&self, index: u32, now: Instant) -> Result<Box<dyn Limiter>, SharingError> {
        let limiters = self.0.limiters;
        if index >= limiters {
            return Err(SharingError::Index { index, limiters });
        }
        let random = || {
            let limiters = Streams::new(self.0.seed).family("sharing");
            limiters.stream(&format!("limiter-{index}"))
        };
        Ok(match self.0.policy {
            Policy::Ctb | Policy::Static => Box::new(FixedPart::new(self, now)),
            Policy::Gtb => Box::new(GlobalBucket::new(self, now)),
            Policy::Grd => Box::new(RandomDrop::new(self, now, random())),
            Policy::Fps => Box::new(FlowShare::new(self, now, random())),
        })
    }

    /// The same with another limit, for limiters that start from now on; [`Limiter::set_limit`] is for those that run.
    ///
    /// # Errors
    /// [`SharingError`] as of [`SharingConfig::checked`].
    pub fn with_limit(&self, rate: Rate, burst: Burst) -> Result<Sharing, SharingError> {
        SharingConfig {
            rate,
            burst,
            ..self.0
        }
        .checked()
    }

    /// The checked configuration.
    pub fn config(&self) -> &SharingConfig {
        &self.0
    }

    /// L with `connected` of the N limiters: each that is missing takes its 1/N away.
    pub(super) fn limit_of(&self, connected: u32) -> f64 {
        let connected = connected.clamp(1, self.0.limiters);
        self.0.rate.get() * f64::from(connected) / f64::from(self.0.limiters)
    }

    /// A local limit as a rate: what is smaller than can be enforced counts as the smallest that can.
    pub(super) fn rate(&self, local_limit: f64) -> Rate {
        let least = self.0.rate.get() * LEAST_PART / f64::from(self.0.limiters);
        Rate::new(local_limit.max(least)).unwrap_or(self.0.rate)
    }

    /// The depth of a bucket that has a `part` of the limit: that part of the burst, and `least_depth` at least.
    pub(super) fn depth(&self, part: f64) -> Burst {
        let depth = self.0.burst.get() * part.min(1.0);
        Burst::new(depth.max(self.0.least_depth.get())).unwrap_or(self.0.burst)
    }
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] = [
        Policy::Static,
        Policy::Gtb,
        Policy::Grd,
        Policy::Fps,
        Policy::Ctb,
    ];

    /// The word for it in JSON and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Policy::Static => "static",
            Policy::Gtb => "gtb",
            Policy::Grd => "grd",
            Policy::Fps => "fps",
            Policy::Ctb => "ctb",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = SharingError;

    fn from_str(word: &str) -> Result<Self, SharingError> {
        let found = Self::ALL.into_iter().find(|policy| policy.as_str() == word);
        found.ok_or_else(|| SharingError::Policy {
            given: word.to_owned(),
        })
    }
}
