//! How long a limit (r, b) makes Poisson traffic wait: the access delay, its tail, and the cost of
//! splitting.
//!
//! A bucket is an M/D/1 queue whose service time is that of one token; a message waits as long as
//! the unfinished work, its own included, exceeds b (SRTM-long, section 2.1 and appendix A). With W
//! the wait in a queue with unit service ([`Md1`]), a message of Poisson traffic waits
//!
//! ```text
//! max(0, W + 1 − b) / r        so that        E = ∫ P(W > u) du / r,  u from b − 1
//! ```
//!
//! Batches of m messages that arrive together are a queue of batches: its server needs m tokens for
//! each, so r and b are scaled down by m (section 6.3). That applies to the *last* message of a
//! batch, the one that waits longest. The j-th waits max(0, m·W + j − b)/r; an average over
//! [`Which::Any`] message averages that over all j.
//!
//! [`AccessDelay::equation_1_s`] is equation (1) as the paper gives it. It assumes that messages
//! that wait do so for 1/(2r(1 − ρ)) in the mean, as in a queue without tokens: exact for b = 1 and
//! too much beyond. For whole bursts the factor goes to θ/(2(1 − ρ)), 1.04 at a load of 0.9 and
//! 1.26 at 0.5. [`AccessDelay::mean_s`] is the exact mean.
//!
//! Not covered: arrivals other than Poisson (replay a trace for these), transients (the queue is in
//! its steady state), and processing time.

mod md1;
mod split;

pub use md1::Md1;
pub use split::{Batches, Penalty};

use std::time::Duration;

use crate::{Burst, InvalidLimit, Rate};

/// Poisson traffic: batches at exponential gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poisson {
    /// Messages per second, those of all batches.
    pub rate: Rate,
    /// Messages that arrive at once, 1 and up.
    pub batch_messages: u16,
}

/// Which message of a batch is meant. Without batches there is no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Any message: each counts once, whatever its place.
    Any,
    /// The last of its batch, which waits longest; the paper's view of a batch.
    LastOfBatch,
}

/// The steady access delay of Poisson traffic under a limit.
#[derive(Clone, Debug)]
pub struct AccessDelay {
    poisson: Poisson,
    rate: Rate,
    burst: Burst,
    queue: Md1,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TheoryError {
    /// At and above the limit's rate, delays grow without end.
    #[error(
        "a load of {arriving} messages/s is too high for a limit of {rate}/s: it must be below the rate"
    )]
    Unstable {
        /// Messages per second that arrive.
        arriving: Rate,
        /// Rate of the limit.
        rate: Rate,
    },
    /// Not a load of a queue that comes to rest.
    #[error("load {given} is out of range: it must be greater than 0 and less than 1")]
    Load {
        /// What was given.
        given: f64,
    },
    /// Nothing arrives.
    #[error("a batch holds at least 1 message")]
    EmptyBatch,
    /// No finite delay covers all messages.
    #[error("percentile {given} is out of range: it must be at least 0 and less than 100")]
    Percentile {
        /// What was given.
        given: f64,
    },
    /// A part of the burst would be less than a message.
    #[error("a burst of {burst} cannot be split over {brokers} brokers: each needs at least 1")]
    BurstTooSmall {
        /// Burst of the limit.
        burst: Burst,
        /// Parts.
        brokers: u32,
    },
    /// Batches cannot be divided evenly.
    #[error("a batch of {batch_messages} messages cannot be divided evenly over {brokers} brokers")]
    UnevenBatch {
        /// Messages of a batch.
        batch_messages: u16,
        /// Parts.
        brokers: u32,
    },
    /// A part of a limit is out of the range of limits.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
}

impl AccessDelay {
    /// The delay of `poisson` traffic under the limit (`rate`, `burst`). The burst may be smaller than a batch:
    /// then some messages of each batch always wait.
    ///
    /// # Errors
    /// [`TheoryError::Unstable`], [`TheoryError::EmptyBatch`].
    pub fn new(poisson: Poisson, rate: Rate, burst: Burst) -> Result<AccessDelay, TheoryError> {
        Ok(AccessDelay {
            poisson,
            rate,
            burst,
            queue: queue(poisson, rate)?,
        })
    }

    /// Equation (1) of SRTM-long, section 2.1: the mean delay in seconds as the paper approximates it, of the
    /// last message of a batch, with r and b scaled down by the size of a batch. `None` where the burst is
    /// smaller than a batch, of which it does not speak.
    pub fn equation_1_s(&self) -> Option<f64> {
        let batch = self.batch();
        let (rate, burst) = (self.rate.get() / batch, self.burst.get() / batch);
        let if_delayed_s = 1.0 / (2.0 * rate * self.queue.idle());
        (burst >= 1.0).then(|| if_delayed_s * self.queue.tail(burst - 1.0))
    }

    /// The mean delay in seconds, exactly, those that do not wait included.
    pub fn mean_s(&self, which: Which) -> f64 {
        let batch = self.batch();
        let excess = |place: f64| self.queue.excess((self.burst.get() - place) / batch);
        let tokens = match which {
            Which::LastOfBatch => batch * excess(batch),
            Which::Any => self.places().map(excess).sum(),
        };
        tokens / self.rate.get()
    }

    /// The probability that a message waits for longer than `delay_s` seconds.
    pub fn tail(&self, which: Which, delay_s: f64) -> f64 {
        self.tail_in_tokens(which, delay_s * self.rate.get())
    }

    /// The delay in seconds that `percentile` of 100 messages do not exceed.
    ///
    /// # Errors
    /// [`TheoryError::Percentile`] below 0, at 100 and beyond.
    pub fn percentile_s(&self, which: Which, percentile: f64) -> Result<f64, TheoryError> {
        let above = above(percentile)?;
        let batch = self.batch();
        let of_last = (batch * (self.queue.quantile(above) + 1.0) - self.burst.get()).max(0.0);
        if which == Which::LastOfBatch || self.poisson.batch_messages == 1 {
            return Ok(of_last / self.rate.get());
        }
        if self.tail_in_tokens(which, 0.0) <= above {
            return Ok(0.0);
        }
        let (mut less, mut tokens) = (0.0, of_last);
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(less, tokens);
            if self.tail_in_tokens(which, middle) <= above {
                tokens = middle;
            } else {
                less = middle;
            }
        }
        Ok(tokens / self.rate.get())
    }

    /// Messages that wait for tokens at one time, in the mean: Little's law, λ times the mean delay.
    pub fn waiting_messages(&self) -> f64 {
        self.poisson.rate.get() * self.mean_s(Which::Any)
    }

    /// ρ, the part of the tokens that is used.
    pub fn load(&self) -> f64 {
        self.queue.load()
    }

    fn tail_in_tokens(&self, which: Which, delay: f64) -> f64 {
        let batch = self.batch();
        let tail = |place: f64| self.queue.tail((self.burst.get() - place + delay) / batch);
        match which {
            Which::LastOfBatch => tail(batch),
            Which::Any => self.places().map(tail).sum::<f64>() / batch,
        }
    }

    fn batch(&self) -> f64 {
        f64::from(self.poisson.batch_messages)
    }

    /// The places of a batch's messages, from 1.
    fn places(&self) -> impl Iterator<Item = f64> {
        (1..=self.poisson.batch_messages).map(f64::from)
    }
}

/// The smallest whole burst with which the delay of any message is at most `target` at `percentile`, for Poisson
/// traffic under a limit of `rate`.
///
/// # Errors
/// [`TheoryError`]; also where the burst would be beyond [`Burst::MAX`].
pub fn smallest_burst(
    poisson: Poisson,
    rate: Rate,
    percentile: f64,
    target: Duration,
) -> Result<Burst, TheoryError> {
    let above = above(percentile)?;
    let target = target.as_secs_f64() * rate.get();
    let mut delay = AccessDelay::new(poisson, rate, Burst::new(1.0)?)?;
    let batch = delay.batch();
    // With this burst even the last message of a batch meets the target.
    let enough = batch * (delay.queue.quantile(above) + 1.0) - target;
    let (mut least, mut most) = (1.0, enough.ceil().max(0.0) + 1.0);
    Burst::new(most)?;
    while least < most {
        let middle = f64::midpoint(least, most).floor();
        delay.burst = Burst::new(middle)?;
        if delay.tail_in_tokens(Which::Any, target) <= above {
            most = middle;
        } else {
            least = middle + 1.0;
        }
    }
    Ok(Burst::new(least)?)
}

/// Halvings of an interval until it is as narrow as an `f64` can tell, and some more.
const BISECTIONS: u32 = 100;

fn queue(poisson: Poisson, rate: Rate) -> Result<Md1, TheoryError> {
    if poisson.batch_messages == 0 {
        return Err(TheoryError::EmptyBatch);
    }
    Md1::new(poisson.rate.get() / rate.get()).map_err(|_| TheoryError::Unstable {
        arriving: poisson.rate,
        rate,
    })
}

/// The part of the messages that may exceed a percentile.
fn above(percentile: f64) -> Result<f64, TheoryError> {
    if (0.0..100.0).contains(&percentile) {
        Ok((100.0 - percentile) / 100.0)
    } else {
        Err(TheoryError::Percentile { given: percentile })
    }
}

#[cfg(test)]
mod tests;
