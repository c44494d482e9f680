//! The limit that a recorded load needs: (r, b) from its arrivals (SRTM-long, sections 1.2 and 6).
//!
//! r is the mean rate with some headroom. b is the smallest whole burst with which the access
//! delay, the time a message waits for tokens, meets a target at a percentile. The unfinished work
//! U of equation (2) depends on r alone, so one pass that counts every message's ⌈U − target · r⌉
//! answers for every b at once: the percentile of these numbers is b. The result is then checked
//! against [`TokenBucket`] itself, nanosecond by nanosecond: a bucket of b meets the target, one of
//! b − 1 misses it.
//!
//! [`AccessDelays`] is the other direction: how long a load waits under a given limit. [`Advice`]
//! is both: the limit to declare, beside the one in force.
//!
//! It keeps no arrivals, knows no publishers, and does not predict: traffic other than the recorded
//! one needs another burst.

mod advice;
mod delays;
mod needs;

use std::time::Duration;

use clock::Instant;
use statistics::nearest_rank;

use crate::{Burst, InvalidLimit, Rate, TokenBucket};
use needs::Needs;

pub use advice::{Advice, UnderLimit};
pub use delays::{AccessDelays, DELAYED_MAX};
pub use needs::BURST_MAX;

/// The goal of a fitted bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitQuestion {
    /// Multiple of the mean rate that r is; at least 1.
    pub headroom: f64,
    /// Percentile of the access delay, above 0 and at most 100.
    pub percentile: f64,
    /// The access delay allowed at that percentile.
    pub target: Duration,
    /// r itself, in messages per second; then `headroom` is not asked.
    pub rate: Option<Rate>,
    /// Begin and end of the recording in nanoseconds; without it first and last arrival.
    pub span: Option<(u64, u64)>,
}

/// A load and the bucket that fits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// r, messages per second.
    pub rate: Rate,
    /// b, whole messages.
    pub burst: Burst,
    /// Messages in the recording.
    pub messages: u64,
    /// Length of the recording in seconds.
    pub seconds: f64,
    /// Messages per second in the mean over the recording.
    pub mean_rate: f64,
}

/// Why no bucket was fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// Nothing to fit.
    #[error("the recording has no messages: record while there is traffic")]
    Empty,
    /// No mean rate can be told.
    #[error(
        "the recording of {messages} messages has no duration and thus no rate: give the times when it \
         began and ended"
    )]
    NoTime {
        /// Messages in it.
        messages: u64,
    },
    /// The recording's end is before its beginning.
    #[error("the recording ends at {end_ns} ns, before it begins at {begin_ns} ns")]
    Backwards {
        /// Its beginning.
        begin_ns: u64,
        /// Its end.
        end_ns: u64,
    },
    /// Arrivals have to be sorted.
    #[error(
        "arrival {position} at {at_ns} ns comes after one at {previous_ns} ns: sort arrivals by time"
    )]
    Unsorted {
        /// Its position, from 1.
        position: u64,
        /// Its time.
        at_ns: u64,
        /// That of the one before.
        previous_ns: u64,
    },
    /// An arrival that the recording cannot contain.
    #[error(
        "arrival {position} at {at_ns} ns lies outside of the recording, {begin_ns} ns to {end_ns} ns"
    )]
    Outside {
        /// Its position, from 1.
        position: u64,
        /// Its time.
        at_ns: u64,
        /// Beginning of the recording.
        begin_ns: u64,
        /// Its end.
        end_ns: u64,
    },
    /// A limit below the mean rate cannot carry the load.
    #[error("headroom {given} is out of range: it must be at least 1 and at most 1e6")]
    Headroom {
        /// What was given.
        given: f64,
    },
    /// No percentile.
    #[error("percentile {given} is out of range: it must be greater than 0 and at most 100")]
    Percentile {
        /// What was given.
        given: f64,
    },
    /// The rate that was asked for is less than what arrives.
    #[error(
        "rate {rate}/s is below the recording's mean of {mean_rate}/s: delays would grow for as long as \
         the load lasts, whatever the burst"
    )]
    TooSlow {
        /// The rate asked for.
        rate: Rate,
        /// What arrives.
        mean_rate: f64,
    },
    /// The burst would be larger than what is counted.
    #[error(
        "the load needs a burst of more than {BURST_MAX} messages: raise the rate or the target"
    )]
    BurstTooLarge,
    /// Too much waits to be kept.
    #[error(
        "more than {DELAYED_MAX} messages wait under {rate}/s, burst {burst}: the limit is too low for this load"
    )]
    TooManyDelayed {
        /// Rate of the limit.
        rate: Rate,
        /// Burst of the limit.
        burst: Burst,
    },
    /// The rate is out of the range of limits.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
}

/// The bucket that the arrivals, each an instant in nanoseconds and a number of messages, need.
///
/// The bucket begins full. Messages of one arrival follow each other in the queue. Arrivals of no messages
/// count for nothing. Passes some four times over `arrivals`, in memory that depends on the burst and not on
/// their number.
///
/// # Errors
/// [`ProfileError`], which says what of the recording or of the question is at fault.
pub fn fit_bucket(
    arrivals: impl Iterator<Item = (u64, u32)> + Clone,
    question: &FitQuestion,
) -> Result<Profile, ProfileError> {
    question.check()?;
    let recording = Recording::of(arrivals.clone(), question.span)?;
    let rate = match question.rate {
        Some(rate) if rate.get() < recording.mean_rate => {
            return Err(ProfileError::TooSlow {
                rate,
                mean_rate: recording.mean_rate,
            });
        }
        Some(rate) => rate,
        None => Rate::new(recording.mean_rate * question.headroom)?,
    };
    let begin = Instant::from_nanos(recording.begin_ns);
    let needs = Needs::of(arrivals.clone(), rate, begin, question.target)?;
    let enough = nearest_rank(recording.messages, question.percentile);
    let meets = |burst: Burst| {
        let bucket = TokenBucket::full(rate, burst, begin);
        in_time(arrivals.clone(), bucket, question.target) >= enough
    };
    Ok(Profile {
        rate,
        burst: settle(needs.least_burst(enough)?, meets)?,
        messages: recording.messages,
        seconds: recording.seconds,
        mean_rate: recording.mean_rate,
    })
}

impl Default for FitQuestion {
    /// 1.1 × the mean rate, and a burst that lets 99 of 100 messages pass at once.
    fn default() -> Self {
        FitQuestion {
            headroom: 1.1,
            percentile: 99.0,
            target: Duration::ZERO,
            rate: None,
            span: None,
        }
    }
}

impl FitQuestion {
    fn check(&self) -> Result<(), ProfileError> {
        let FitQuestion {
            headroom,
            percentile,
            ..
        } = *self;
        if self.rate.is_none() && !(1.0..=1e6).contains(&headroom) {
            return Err(ProfileError::Headroom { given: headroom });
        }
        if !(percentile > 0.0 && percentile <= 100.0) {
            return Err(ProfileError::Percentile { given: percentile });
        }
        Ok(())
    }
}

/// The least burst that meets the target, from one that may be off by the rounding of its last digit.
fn settle(near: Burst, meets: impl Fn(Burst) -> bool) -> Result<Burst, InvalidLimit> {
    let mut burst = near;
    while !meets(burst) {
        burst = Burst::new(burst.get() + 1.0)?;
    }
    while let Ok(less) = Burst::new(burst.get() - 1.0) {
        if burst > near || !meets(less) {
            break;
        }
        burst = less;
    }
    Ok(burst)
}

/// Messages that leave the bucket within `target`.
fn in_time(
    arrivals: impl Iterator<Item = (u64, u32)>,
    mut bucket: TokenBucket,
    target: Duration,
) -> u64 {
    let mut count = 0;
    for (at_ns, messages) in arrivals {
        let at = Instant::from_nanos(at_ns);
        // The messages of a batch leave in their order: those in time come first.
        let leaves_in_time = |bucket: &mut TokenBucket| bucket.take(at, 1.0) - at <= target;
        let early = (0..messages)
            .take_while(|_| leaves_in_time(&mut bucket))
            .count() as u64;
        let late = u64::from(messages).saturating_sub(early + 1);
        bucket.take(at, late as f64);
        count += early;
    }
    count
}

/// The result of the first pass.
struct Recording {
    begin_ns: u64,
    messages: u64,
    seconds: f64,
    mean_rate: f64,
}

impl Recording {
    fn of(
        arrivals: impl Iterator<Item = (u64, u32)>,
        span: Option<(u64, u64)>,
    ) -> Result<Recording, ProfileError> {
        let (mut messages, mut first_ns, mut last_ns) = (0u64, None, 0);
        for (position, (at_ns, batch)) in (1..).zip(arrivals) {
            if at_ns < last_ns {
                return Err(ProfileError::Unsorted {
                    position,
                    at_ns,
                    previous_ns: last_ns,
                });
            }
            check_inside(position, at_ns, span)?;
            first_ns.get_or_insert(at_ns);
            last_ns = at_ns;
            messages = messages.saturating_add(u64::from(batch));
        }
        let (begin_ns, end_ns) = span.unwrap_or((first_ns.unwrap_or(0), last_ns));
        if end_ns < begin_ns {
            return Err(ProfileError::Backwards { begin_ns, end_ns });
        }
        if messages == 0 {
            return Err(ProfileError::Empty);
        }
        if end_ns == begin_ns {
            return Err(ProfileError::NoTime { messages });
        }
        let length_ns = (end_ns - begin_ns) as f64;
        Ok(Recording {
            begin_ns,
            messages,
            seconds: length_ns / 1e9,
            // Exact wherever the rate is: one rounding.
            mean_rate: messages as f64 * 1e9 / length_ns,
        })
    }
}

fn check_inside(position: u64, at_ns: u64, span: Option<(u64, u64)>) -> Result<(), ProfileError> {
    match span {
        Some((begin_ns, end_ns)) if end_ns < begin_ns => {
            Err(ProfileError::Backwards { begin_ns, end_ns })
        }
        Some((begin_ns, end_ns)) if at_ns < begin_ns || at_ns > end_ns => {
            Err(ProfileError::Outside {
                position,
                at_ns,
                begin_ns,
                end_ns,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
