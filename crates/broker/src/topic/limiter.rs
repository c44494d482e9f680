//! A topic's limit in force: the contract and its token bucket.

use clock::Instant;
use limit::{Limit, OnExceed, TokenBucket, Unit};

use super::witness::Witness;

/// Limit and bucket of one topic.
#[derive(Debug)]
pub struct TopicLimiter {
    limit: Limit,
    bucket: TokenBucket,
    booked: Option<Instant>,
    witness: Witness,
}

impl TopicLimiter {
    /// Begins with an empty bucket: a restart must not gift a burst.
    #[must_use]
    pub fn new(limit: Limit, now: Instant) -> TopicLimiter {
        TopicLimiter {
            bucket: TokenBucket::empty(limit.rate, limit.burst, now),
            booked: None,
            witness: Witness::new(now),
            limit,
        }
    }

    /// The contract.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Changes the contract; tokens held stay, up to the new burst. Another unit begins anew, empty.
    pub fn set(&mut self, limit: Limit, now: Instant) {
        if limit.unit == self.limit.unit {
            if limit != self.limit {
                self.witness = Witness::new(now);
            }
            self.bucket.resize(now, limit.rate, limit.burst);
            self.limit = limit;
        } else {
            *self = TopicLimiter::new(limit, now);
        }
    }

    #[inline]
    fn cost(&self, body_bytes: usize) -> f64 {
        match self.limit.unit {
            Unit::Messages => 1.0,
            Unit::Bytes => body_bytes as f64,
        }
    }

    /// Whether messages wait for tokens (rather than being refused at their arrival).
    #[inline]
    #[must_use]
    pub fn delays(&self) -> bool {
        self.limit.on_exceed == OnExceed::Delay
    }

    /// When the message at the head of the queue may pass (equation (2)).
    ///
    /// One that costs more than the burst is booked at once: were it only looked at, each change of
    /// the limit would start its wait anew, and it could wait for ever.
    pub fn departure(&mut self, arrival: Instant, body_bytes: usize) -> Instant {
        let cost = self.cost(body_bytes);
        if self.booked.is_none() && cost > self.limit.burst.get() {
            self.booked = Some(self.bucket.take(arrival, cost));
        }
        self.booked
            .unwrap_or_else(|| self.bucket.departure(arrival, cost))
    }

    /// Takes the tokens of the message at the head, which passes now.
    pub fn take(&mut self, arrival: Instant, body_bytes: usize, now: Instant) {
        let cost = self.cost(body_bytes);
        if self.booked.take().is_none() {
            self.bucket.take(arrival, cost);
        }
        self.witness.release(now, cost, self.limit.rate);
    }

    /// Tokens by which the worst window of releases since the limit was set exceeded r·(t − s) + b;
    /// negative where none reached it. Messages that wait are counted when they leave (`delay`).
    #[must_use]
    pub fn window_excess(&self) -> f64 {
        self.witness.excess(&self.limit)
    }

    /// Judges a message at its arrival (`drop`); one that does not conform takes nothing.
    pub fn try_take(&mut self, arrival: Instant, body_bytes: usize) -> bool {
        self.bucket.try_take(arrival, self.cost(body_bytes))
    }

    /// Judges a whole command at its arrival (`reject`), all of its messages or none.
    ///
    /// # Errors
    /// A text for the publisher: what refuses it, by how much, and when to come again.
    pub fn try_take_batch<'a>(
        &mut self,
        arrival: Instant,
        bodies: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), String> {
        let total = bodies.map(|body| self.cost(body.len())).sum();
        self.bucket
            .try_take_batch(arrival, total)
            .map_err(|refused| {
                let (rate, burst, unit) = (self.limit.rate, self.limit.burst, self.limit.unit);
                format!("rate limit exceeded ({rate} {unit}/s, burst {burst}): {refused}")
            })
    }

    /// Tokens held at `now`.
    #[must_use]
    pub fn tokens_at(&self, now: Instant) -> f64 {
        self.bucket.tokens_at(now)
    }
}
