//! Over all brokers and in every window, at most r·Δt + b of a topic passes.
//!
//! The law is a bucket that begins full and is never waited for: it falls below nothing only if
//! some window held too much. While a limit shrinks, the greater of both counts until every broker
//! has been seen within the new one for longer than a lease.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;

/// Rounding of sums.
const EPSILON: f64 = 1e-6;

/// (r, b).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Messages per second.
    pub rate: f64,
    /// Messages at once.
    pub burst: f64,
}

#[derive(Debug)]
struct Law {
    declared: Bound,
    /// A greater one before it, which brokers may still be using.
    former: Option<Bound>,
    /// The declared one was granted: until then the controller goes on with the former.
    is_granted: bool,
    /// Since when the shares that are in force are within the declared one.
    within_since: Option<Instant>,
    tokens: f64,
    at: Instant,
    passed: u64,
}

/// The books, by topic.
#[derive(Debug, Default)]
pub struct Limits {
    laws: BTreeMap<String, Law>,
    /// How long a former limit counts after it was last seen in use.
    pub memory: Duration,
}

impl Bound {
    /// The greater of each.
    #[must_use]
    pub fn max(self, other: Bound) -> Bound {
        Bound {
            rate: self.rate.max(other.rate),
            burst: self.burst.max(other.burst),
        }
    }

    /// The lesser of each.
    #[must_use]
    pub fn min(self, other: Bound) -> Bound {
        Bound {
            rate: self.rate.min(other.rate),
            burst: self.burst.min(other.burst),
        }
    }

    /// Whether a sum of shares is allowed.
    fn allows(self, sum: Bound) -> bool {
        sum.rate <= self.rate * (1.0 + 1e-9) + EPSILON
            && sum.burst <= self.burst * (1.0 + 1e-9) + EPSILON
    }
}

impl Law {
    fn bound(&self) -> Bound {
        match self.former {
            None => self.declared,
            Some(former) => former.max(self.declared),
        }
    }
}

impl Limits {
    /// A topic is declared with a limit, or with another one.
    pub fn declare(&mut self, topic: &str, bound: Bound, now: Instant) {
        match self.laws.get_mut(topic) {
            None => {
                let law = Law {
                    declared: bound,
                    former: None,
                    is_granted: true,
                    within_since: None,
                    tokens: bound.burst,
                    at: now,
                    passed: 0,
                };
                self.laws.insert(topic.to_owned(), law);
            }
            Some(law) => {
                let former = law.bound();
                law.former = Some(former);
                law.declared = bound;
                law.is_granted = false;
                law.within_since = None;
            }
        }
    }

    /// Who declared it has heard that it is so.
    pub fn granted(&mut self, topic: &str) {
        if let Some(law) = self.laws.get_mut(topic) {
            law.is_granted = true;
        }
    }

    /// Whether a topic has one.
    #[must_use]
    pub fn declared(&self, topic: &str) -> Option<Bound> {
        self.laws.get(topic).map(|law| law.declared)
    }

    /// Topics with a limit.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        self.laws.keys().cloned().collect()
    }

    /// Messages that have passed of a topic.
    #[must_use]
    pub fn passed(&self, topic: &str) -> u64 {
        self.laws.get(topic).map_or(0, |law| law.passed)
    }

    /// Messages pass at `now`, which never runs back.
    ///
    /// # Errors
    /// Too many.
    pub fn pass(&mut self, topic: &str, messages: usize, now: Instant) -> Result<(), String> {
        let Some(law) = self.laws.get_mut(topic) else {
            return Ok(());
        };
        let bound = law.bound();
        let earned = now.saturating_since(law.at).as_secs_f64() * bound.rate;
        law.tokens = (law.tokens + earned).min(bound.burst) - messages as f64;
        law.at = law.at.max(now);
        law.passed += messages as u64;
        match law.tokens >= -EPSILON {
            true => Ok(()),
            false => Err(format!(
                "{topic}: {:.6} messages more than {bound:?} allows have passed",
                -law.tokens
            )),
        }
    }

    /// The shares of a topic that are in force come to `sum`.
    ///
    /// # Errors
    /// That is more than the limit.
    pub fn held(&mut self, topic: &str, sum: Bound, now: Instant) -> Result<(), String> {
        let Some(law) = self.laws.get_mut(topic) else {
            return Ok(());
        };
        let bound = law.bound();
        if !bound.allows(sum) {
            return Err(format!("{topic}: shares in force are {sum:?} of {bound:?}"));
        }
        if !law.declared.allows(sum) || !law.is_granted {
            law.within_since = None;
            return Ok(());
        }
        let since = *law.within_since.get_or_insert(now);
        if now.saturating_since(since) > self.memory {
            law.former = None;
            law.tokens = law.tokens.min(law.declared.burst);
        }
        Ok(())
    }
}
