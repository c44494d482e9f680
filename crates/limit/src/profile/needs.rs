//! How many messages need how much burst.
//!
//! The messages of a batch need n, n + 1, n + 2, … tokens, so a batch is noted as a step up and a step down and
//! costs the same whatever its size.

use std::time::Duration;

use clock::Instant;

use crate::{Burst, ProfileError, Rate, TokenBucket};

/// The largest burst that [`fit_bucket`](super::fit_bucket) finds.
pub const BURST_MAX: usize = 1 << 22;

/// Some units in the last place of an `f64`.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// Counts of messages by the smallest whole burst that lets them leave in time.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Messages that need `n` tokens are the sum of the steps up to `n`.
    steps: Vec<i64>,
}

impl Needs {
    /// Of the arrivals, from a queue that is idle at `begin` and serves at `rate`.
    pub(super) fn of(
        arrivals: impl Iterator<Item = (u64, u32)>,
        rate: Rate,
        begin: Instant,
        target: Duration,
    ) -> Result<Needs, ProfileError> {
        // Unfinished work is the same whatever the burst; the least is taken.
        let mut queue = TokenBucket::full(rate, Burst::new(1.0)?, begin);
        let patience = target.as_secs_f64() * rate.get();
        let mut needs = Needs::default();
        for (at_ns, messages) in arrivals.filter(|&(_, messages)| messages > 0) {
            let at = Instant::from_nanos(at_ns);
            let exact = queue.unfinished_at(at) + 1.0 - patience;
            // Work that is whole up to its last digits counts as whole.
            let first = (exact - exact.abs() * ROUNDING).ceil();
            needs.count(first as i128, messages);
            queue.take(at, f64::from(messages));
        }
        Ok(needs)
    }

    /// Notes a batch of `messages` of which the first needs `first` tokens and each further one
    /// more. A need below 1 counts as 1, because there is no smaller burst.
    fn count(&mut self, first: i128, messages: u32) {
        let below_one = (1 - first).clamp(0, i128::from(messages)) as i64;
        if below_one > 0 {
            self.step(1, below_one);
            self.step(2, -below_one);
        }
        let rest = i128::from(messages) - i128::from(below_one);
        if rest > 0 {
            let from = first.max(1);
            self.step(from, 1);
            self.step(from + rest, -1);
        }
    }

    /// The least burst with which `enough` messages leave in time.
    pub(super) fn least_burst(&self, enough: u64) -> Result<Burst, ProfileError> {
        let (mut needing_this, mut served) = (0i64, 0u64);
        for (burst, step) in self.steps.iter().enumerate().take(BURST_MAX + 1) {
            needing_this += step;
            served += needing_this.unsigned_abs();
            if served >= enough {
                return Ok(Burst::new(burst as f64)?);
            }
        }
        Err(ProfileError::BurstTooLarge)
    }

    fn step(&mut self, at: i128, by: i64) {
        let at = at.clamp(0, BURST_MAX as i128 + 1) as usize;
        if self.steps.len() <= at {
            self.steps.resize(at + 1, 0);
        }
        self.steps[at] += by;
    }
}
