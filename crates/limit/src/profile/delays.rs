//! How long recorded arrivals wait under a given limit.

use std::time::Duration;

use clock::Instant;

use statistics::nearest_rank;

use super::ProfileError;
use crate::{Burst, Rate, TokenBucket};

/// Delayed messages of which the delay is kept; those that pass at once are only counted.
pub const DELAYED_MAX: usize = 1 << 24;

/// The access delays of a recording under one limit: what each message waits for tokens, equation (2).
#[derive(Clone, Debug, PartialEq)]
pub struct AccessDelays {
    messages: u64,
    /// Of those that wait, in order.
    delayed_ns: Vec<u64>,
}

impl AccessDelays {
    /// Takes the arrivals, instants in nanoseconds and numbers of messages, through a bucket that is full at the
    /// first of them.
    ///
    /// # Errors
    /// [`ProfileError::Unsorted`]; [`ProfileError::TooManyDelayed`] beyond [`DELAYED_MAX`].
    pub fn measure(
        arrivals: impl Iterator<Item = (u64, u32)>,
        rate: Rate,
        burst: Burst,
    ) -> Result<AccessDelays, ProfileError> {
        let mut bucket = TokenBucket::full(rate, burst, Instant::ZERO);
        let mut previous_ns = 0;
        let (mut messages, mut delayed_ns) = (0u64, Vec::new());
        for (position, (at_ns, batch)) in (1..).zip(arrivals) {
            if at_ns < previous_ns {
                return Err(ProfileError::Unsorted {
                    position,
                    at_ns,
                    previous_ns,
                });
            }
            previous_ns = at_ns;
            messages = messages.saturating_add(u64::from(batch));
            let at = Instant::from_nanos(at_ns);
            for _ in 0..batch {
                let departure = bucket.take(at, 1.0);
                if departure <= at {
                    continue;
                }
                if delayed_ns.len() >= DELAYED_MAX {
                    return Err(ProfileError::TooManyDelayed { rate, burst });
                }
                delayed_ns.push(departure.as_nanos() - at_ns);
            }
        }
        delayed_ns.sort_unstable();
        Ok(AccessDelays {
            messages,
            delayed_ns,
        })
    }

    /// Messages of the recording.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Messages that waited.
    pub fn delayed(&self) -> u64 {
        self.delayed_ns.len() as u64
    }

    /// The delay that `percentile` of 100 messages do not exceed, by nearest rank; zero without messages.
    /// Percentiles beyond 0 and 100 count as these.
    pub fn percentile(&self, percentile: f64) -> Duration {
        let rank = nearest_rank(self.messages, percentile);
        let at_once = self.messages - self.delayed();
        let waited = rank.checked_sub(at_once + 1);
        let delay_ns = waited.and_then(|waited| self.delayed_ns.get(waited as usize));
        Duration::from_nanos(delay_ns.copied().unwrap_or(0))
    }

    /// The mean over all messages, in seconds.
    pub fn mean_s(&self) -> f64 {
        let sum_s: f64 = self.delayed_ns.iter().map(|&ns| ns as f64 / 1e9).sum();
        sum_s / self.messages.max(1) as f64
    }
}
