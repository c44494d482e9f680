//! The price of distributed rate limiting: the delay under a limit that is split over k brokers, beside that of
//! one (SRTM-long, sections 2.1 and 6.3).

use super::{AccessDelay, Poisson, TheoryError, Which};
use crate::{Burst, Rate};

/// How a batch is divided when its traffic is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// Each goes to one broker, picked at random: publishers that batch on their own.
    Whole,
    /// Each is divided evenly over all brokers: the members of a correlation group kept apart. "If you split
    /// the load, split the burst."
    Divided,
}

/// The delay over some brokers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalty {
    /// Brokers that share the limit evenly.
    pub brokers: u32,
    /// Mean delay of any message, in seconds.
    pub mean_s: f64,
    /// The delay at the percentile asked for, in seconds.
    pub percentile_s: f64,
    /// The mean as a multiple of that of one broker; `None` where that one is nothing.
    pub mean_ratio: Option<f64>,
    /// The percentile as a multiple of that of one broker; `None` where that one is nothing.
    pub percentile_ratio: Option<f64>,
}

impl AccessDelay {
    /// The delay on each of `brokers` brokers that share traffic and limit evenly: λ/k, r/k, b/k.
    ///
    /// # Errors
    /// [`TheoryError::BurstTooSmall`] when b/k is less than 1, [`TheoryError::UnevenBatch`] when a batch cannot
    /// be divided.
    pub fn split(&self, brokers: u32, batches: Batches) -> Result<AccessDelay, TheoryError> {
        let parts = f64::from(brokers);
        let burst = Burst::new(self.burst.get() / parts);
        let burst = burst.map_err(|_| TheoryError::BurstTooSmall {
            burst: self.burst,
            brokers,
        })?;
        Ok(AccessDelay {
            poisson: Poisson {
                rate: Rate::new(self.poisson.rate.get() / parts)?,
                batch_messages: self.batch_of(brokers, batches)?,
            },
            rate: Rate::new(self.rate.get() / parts)?,
            burst,
            // The load is the same, and so is the queue in its own time.
            queue: self.queue.clone(),
        })
    }

    /// The delay over 1, 2, … `brokers_max` brokers, of any message.
    ///
    /// # Errors
    /// As [`AccessDelay::split`] and [`AccessDelay::percentile_s`] have them, for any of these numbers.
    pub fn penalties(
        &self,
        brokers_max: u32,
        batches: Batches,
        percentile: f64,
    ) -> Result<Vec<Penalty>, TheoryError> {
        let one_mean_s = self.mean_s(Which::Any);
        let one_percentile_s = self.percentile_s(Which::Any, percentile)?;
        let ratio = |of: f64, to: f64| (to > 0.0).then(|| of / to);
        let penalty = |brokers| {
            let part = self.split(brokers, batches)?;
            let mean_s = part.mean_s(Which::Any);
            let percentile_s = part.percentile_s(Which::Any, percentile)?;
            Ok(Penalty {
                brokers,
                mean_s,
                percentile_s,
                mean_ratio: ratio(mean_s, one_mean_s),
                percentile_ratio: ratio(percentile_s, one_percentile_s),
            })
        };
        (1..=brokers_max).map(penalty).collect()
    }

    fn batch_of(&self, brokers: u32, batches: Batches) -> Result<u16, TheoryError> {
        let batch_messages = self.poisson.batch_messages;
        match batches {
            Batches::Whole => Ok(batch_messages),
            Batches::Divided => match u32::from(batch_messages).checked_rem(brokers) {
                Some(0) => Ok((u32::from(batch_messages) / brokers) as u16),
                _ => Err(TheoryError::UnevenBatch {
                    batch_messages,
                    brokers,
                }),
            },
        }
    }
}
