//! Sharing policies: N limiters, each with its own traffic, enforce one limit together (DRL,
//! section 3).
//!
//! Each limiter measures its local demand per *estimate interval*, tells the others, hears theirs,
//! and decides from both what it lets through. Five [`Policy`]s, one trait:
//!
//! * `ctb`: one token bucket that all traffic passes; the reference for the others.
//! * `static`: each limiter enforces 1/N of the limit, whatever the demand.
//! * `gtb`: every bucket fills at the whole limit's rate and is drained by what arrives elsewhere.
//! * `grd`: drops at random, in proportion to the excess of the demand of all limiters.
//! * `fps`: each bucket gets a part of the limit in proportion to the number of flows it holds
//!   back.
//!
//! A limiter is used in one of two ways. Where the excess is dropped it decides itself
//! ([`Limiter::handle`]); where the excess waits, its owner keeps a bucket of [`Limiter::part`]
//! and tells it what passes ([`Limiter::observe`]).
//!
//! It sends nothing: what limiters hear of each other, how late and how much of it is lost, is an
//! argument ([`Remote`]). Between two updates a limiter relies on what it heard last. So the sum of
//! what all let through is near the limit but not below it at every instant, unlike with the leases
//! of [`crate::lease`].

mod config;
mod estimate;
mod fixed_part;
mod flow_share;
mod global_bucket;
mod random_drop;

pub use config::{Policy, Sharing, SharingConfig, SharingError};

use clock::Instant;

use crate::{Burst, Rate, Share};

/// The fate of a message or packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Forward,
    /// It exceeds the limit.
    Drop,
}

/// What one limiter tells the others at the end of an estimate interval, or several of them added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Update {
    demand: f64,
    passed: f64,
}

impl Update {
    /// The greatest number that is believed.
    pub const MAX: f64 = 1e15;

    /// Of a limiter at which nothing arrives.
    pub const NOTHING: Update = Update {
        demand: 0.0,
        passed: 0.0,
    };

    /// An update as another limiter told it, or gossip added it up.
    ///
    /// # Errors
    /// [`SharingError::Update`] unless both are numbers from 0 to [`Update::MAX`].
    pub fn new(demand: f64, passed: f64) -> Result<Self, SharingError> {
        for (field, given) in [("demand", demand), ("passed", passed)] {
            if !(0.0..=Self::MAX).contains(&given) {
                return Err(SharingError::Update { field, given });
            }
        }
        Ok(Update { demand, passed })
    }

    /// The quantity by which the policy divides the limit. For `gtb` and `grd` units per second
    /// that arrive; for `fps` a weight: the number of unbottlenecked flows that the traffic is
    /// worth. All limiters of a limit follow one policy.
    pub const fn demand(self) -> f64 {
        self.demand
    }

    /// Units per second that were let through.
    pub const fn passed(self) -> f64 {
        self.passed
    }

    /// Local measurements, brought into range.
    fn measured(demand: f64, passed: f64) -> Self {
        Update {
            demand: demand.clamp(0.0, Self::MAX),
            passed: passed.clamp(0.0, Self::MAX),
        }
    }
}

/// What a limiter knows of the others at the end of an estimate interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// The latest updates of all others, added up: exactly, or as gossip estimates them.
    pub others: Update,
    /// Limiters that are connected, this one included. Each one that is missing from N takes 1/N of the limit away
    /// (DRL, section 5.6), so parts of a network that cannot hear each other never have more than the limit together. 0
    /// counts as 1, more than N as N.
    pub connected: u32,
}

/// A limiter's figures as of its last estimate, for metrics. Rates are units per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// What arrives, averaged.
    pub arriving: f64,
    /// What passes, averaged.
    pub passing: f64,
    /// The number of unbottlenecked flows that an `fps` limiter's traffic is worth; 0 under the other policies.
    pub weight: f64,
    /// What may pass here: the rate of [`Limiter::part`].
    pub local_limit: f64,
    /// L, less the parts of limiters that are not connected.
    pub limit: f64,
}

/// One of the N limiters of a limit.
///
/// Time never runs backwards for it: an earlier instant counts as the latest seen. Units that are negative or no
/// number count as 0.
pub trait Limiter: std::fmt::Debug + Send {
    /// Decides about a message or packet of `units` that belongs to `flow` and arrived at `now`. Takes constant time,
    /// and allocates nothing.
    fn handle(&mut self, now: Instant, flow: u64, units: f64) -> Verdict;

    /// Notes an arrival that a bucket of [`Limiter::part`] decides about elsewhere. `waits`: it found too few tokens.
    fn observe(&mut self, now: Instant, flow: u64, units: f64, waits: bool);

    /// Ends an estimate interval: from the traffic since the last call and what the others said follows what is
    /// enforced until the next one. Returns what to tell them. Any time between two calls will do; a call at the
    /// instant of the last one changes nothing.
    fn estimate(&mut self, now: Instant, remote: Remote) -> Update;

    /// The token bucket that enforces what this limiter may let through at present. For `grd`, which has no bucket, and
    /// `gtb`, whose bucket is drained from outside, the one with the same mean rate.
    fn part(&self) -> Share;

    /// Changes L and the depth while the limiter runs; the next estimate goes by them, and what is enforced changes in
    /// proportion at once. Tokens that are held stay, cut to the new depth, and none is given. The other limiters are
    /// told by whoever changes the limit: while only some know, the sum is between the old and the new limit.
    ///
    /// # Errors
    /// [`SharingError`] as of [`SharingConfig::checked`]; the limit is then what it was.
    fn set_limit(&mut self, now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError>;

    /// Figures for metrics.
    fn figures(&self) -> Figures;
}

/// Units as they count.
fn counted(units: f64) -> f64 {
    if units > 0.0 {
        units.min(Update::MAX)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests;
