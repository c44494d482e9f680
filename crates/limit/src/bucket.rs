//! A token bucket (r, b) as the unfinished work of a queue.
//!
//! The bucket is a G/D/1 queue with service rate r (SRTM-long, appendix A): with F the instant at
//! which the queue would run dry, a message of cost c that arrives at a makes it
//! F' = max(F, a) + c/r, and by equation (2) leaves at max(a, F' − b/r): it waits if and only if
//! unfinished work, its own included, exceeds b. The bucket is full at and after F and holds no
//! token at F − b/r. A message with c > b leaves too, later.
//!
//! Representation: F, 1/r and b/r are fixed-point times ([`counts`]). The level kept as an `f64`
//! would lose the small increments of a slow rate under a large burst; here adding a cost is exact
//! and nothing is divided per message. 1/r is rounded up once, so the rate is never exceeded, and
//! only what leaves the bucket is rounded again: a departure to the next nanosecond, without
//! feeding the error back.
//!
//! What it does not do: hold messages, or see anything but what it is told. Messages are booked in
//! the order of the calls; an earlier arrival stamp does not overtake and earns nothing.

mod counts;

use std::time::Duration;

use clock::Instant;

use crate::{Burst, Rate, Share};

/// A token bucket (r, b). See the module for its law and its arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucket {
    /// F: the bucket is full at and after this count.
    full_at: u128,
    /// 1/r, counts per token.
    per_token: u128,
    /// b/r, the counts it takes to fill the bucket.
    to_fill: u128,
    /// No message leaves before the one that was booked ahead of it.
    last_departure: Instant,
    /// The latest instant the bucket knows to have passed.
    seen: Instant,
    rate: Rate,
    burst: Burst,
}

/// Why a batch was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// Larger than the limit can admit at once, however long the publisher waits.
    #[error(
        "a batch of {total} tokens never fits a limit with burst {burst}: it admits at most {} tokens at once; \
         send smaller batches or raise the burst",
        2.0 * .burst.get()
    )]
    NeverFits {
        /// Tokens that the batch costs.
        total: f64,
        /// The limit's burst.
        burst: Burst,
    },
    /// Too few tokens now.
    #[error("the limit is exceeded: retry in {} us", .after.as_micros() + 1)]
    Retry {
        /// Time from the arrival until the batch would be admitted if nothing else came.
        after: Duration,
    },
}

impl TokenBucket {
    /// A bucket that holds no token at `now`: what every start and restart begins with, so that a
    /// restart never admits more than an uninterrupted run would have.
    pub fn empty(rate: Rate, burst: Burst, now: Instant) -> Self {
        let mut bucket = Self::full(rate, burst, now);
        bucket.full_at = counts::at(now).saturating_add(bucket.to_fill);
        bucket
    }

    /// A bucket that is full at `now`, as theory and simulations begin.
    pub fn full(rate: Rate, burst: Burst, now: Instant) -> Self {
        let per_token = counts::per_token(rate);
        TokenBucket {
            full_at: counts::at(now),
            per_token,
            to_fill: counts::to_fill(burst, per_token),
            last_departure: Instant::ZERO,
            seen: now,
            rate,
            burst,
        }
    }

    /// The instant at which a message that arrived at `arrival` and costs `cost` tokens leaves:
    /// `arrival`, or when the bucket holds the tokens, and never before the message booked last.
    ///
    /// Changes nothing, so the head of a queue may be asked about again after a resize and profits
    /// from it at once. A head that costs more than the burst must be booked with
    /// [`TokenBucket::take`] instead: a bucket remembers being full, not for how long, so a resize
    /// would begin its wait anew. A `cost` that is negative or no number counts as 0.
    #[inline]
    pub fn departure(&self, arrival: Instant, cost: f64) -> Instant {
        self.departure_and_full_at(arrival, cost).0
    }

    /// [`TokenBucket::departure`], and books the tokens.
    #[inline]
    pub fn take(&mut self, arrival: Instant, cost: f64) -> Instant {
        let (departure, full_at) = self.departure_and_full_at(arrival, cost);
        self.full_at = full_at;
        self.last_departure = departure;
        self.seen = self.seen.max(arrival);
        departure
    }

    /// Books the tokens if the message conforms at its arrival; otherwise takes nothing.
    ///
    /// An arrival stamp earlier than one already admitted counts as that later instant: the message
    /// stands behind the other in the queue. A message that costs more than the burst never
    /// conforms.
    #[inline]
    pub fn try_take(&mut self, arrival: Instant, cost: f64) -> bool {
        let at = arrival.max(self.seen);
        let (departure, full_at) = self.departure_and_full_at(at, cost);
        if departure > at {
            return false;
        }
        self.full_at = full_at;
        self.last_departure = at;
        self.seen = at;
        true
    }

    /// Books a batch of `total` tokens, all or nothing.
    ///
    /// A batch larger than the burst b is admitted when the bucket is full and leaves a debt of at
    /// most b tokens, so that up to 2b fit. Arrivals count as in [`TokenBucket::try_take`].
    ///
    /// # Errors
    /// [`Refused::NeverFits`] above 2b, else [`Refused::Retry`]; neither takes a token.
    pub fn try_take_batch(&mut self, arrival: Instant, total: f64) -> Result<(), Refused> {
        if total > 2.0 * self.burst.get() {
            return Err(Refused::NeverFits {
                total,
                burst: self.burst,
            });
        }
        let at = arrival.max(self.seen);
        let held = total.min(self.burst.get());
        let (admitted_at, _) = self.departure_and_full_at(at, held);
        if admitted_at > at {
            return Err(Refused::Retry {
                after: admitted_at - at,
            });
        }
        let (_, full_at) = self.departure_and_full_at(at, total);
        self.full_at = full_at;
        self.last_departure = at;
        self.seen = at;
        Ok(())
    }

    /// Changes the limit while in use.
    ///
    /// The tokens held at `now` stay, cut to the new burst; room that a greater burst adds is
    /// empty. Debt stays too, and is paid at the new rate. Departures already booked stand.
    pub fn resize(&mut self, now: Instant, rate: Rate, burst: Burst) {
        let now = now.max(self.seen);
        let per_token = counts::per_token(rate);
        let to_fill = counts::to_fill(burst, per_token);
        let missing = self.full_at.saturating_sub(counts::at(now));
        let missing_then = if missing == 0 {
            to_fill.saturating_sub(counts::of(self.burst.get(), per_token))
        } else {
            // Negative while tokens are held, positive in debt.
            let until_empty = counts::difference(missing, self.to_fill);
            counts::sum(
                to_fill,
                counts::rescale(until_empty, self.per_token, per_token),
            )
        };
        *self = TokenBucket {
            full_at: counts::at(now).saturating_add(missing_then),
            per_token,
            to_fill,
            last_departure: self.last_departure,
            seen: now,
            rate,
            burst,
        };
    }

    /// Tokens held at `now`; negative while booked work exceeds the burst.
    pub fn tokens_at(&self, now: Instant) -> f64 {
        let missing = self.full_at.saturating_sub(counts::at(now));
        if missing == 0 {
            return self.burst.get();
        }
        counts::difference(self.to_fill, missing) as f64 / self.per_token as f64
    }

    /// U of appendix A at `now`: the tokens that the bucket is short of being full, more than the
    /// burst while it is in debt. With what waits unbooked it is the backlog that the burst would
    /// have to hold.
    #[inline]
    pub fn unfinished_at(&self, now: Instant) -> f64 {
        self.full_at.saturating_sub(counts::at(now)) as f64 / self.per_token as f64
    }

    /// Makes the time from `since` to `until`, in which the limit was withdrawn, count for nothing:
    /// no token was generated in it, those held at its beginning are gone, a debt is still owed in
    /// full.
    pub fn pause(&mut self, since: Instant, until: Instant) {
        let until = until.max(self.seen);
        let missing = self.full_at.saturating_sub(counts::at(since));
        self.full_at = counts::at(until).saturating_add(missing.max(self.to_fill));
        self.seen = until;
    }

    /// r of the limit in force.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// b of the limit in force.
    pub fn burst(&self) -> Burst {
        self.burst
    }

    /// The limit in force, as a share.
    pub fn share(&self) -> Share {
        Share {
            rate: self.rate,
            burst: self.burst,
        }
    }

    /// Equation (2), and F' beside it.
    #[inline]
    fn departure_and_full_at(&self, arrival: Instant, cost: f64) -> (Instant, u128) {
        let full_at = self
            .full_at
            .max(counts::at(arrival))
            .saturating_add(counts::of(cost, self.per_token));
        let has_tokens_at = counts::round_up(full_at.saturating_sub(self.to_fill));
        (arrival.max(has_tokens_at).max(self.last_departure), full_at)
    }
}

#[cfg(test)]
mod tests;
