//! Messages that passed before it was known whether a limit applies, for the limit's witness.
//!
//! A topic without a known limit flows where its broker trusts the data folder, or has given its
//! controller up. If it turns out that there was a limit all the time, what has just passed is held
//! against it, so that nobody reads "kept" where nobody looked.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use limit::{Limit, Share, Unit};

use super::witness::Witness;

/// Instants that are remembered; older ones are forgotten.
const INSTANTS_MAX: usize = 64;

/// Messages that pass within so long count as passing at once.
const GRAIN: Duration = Duration::from_millis(1);

/// The latest of those messages.
#[derive(Debug, Default)]
pub struct Unjudged(VecDeque<Passed>);

#[derive(Debug)]
struct Passed {
    at: Instant,
    messages: u64,
    bytes: u64,
}

impl Unjudged {
    /// Notes a message that passes at `now`.
    pub fn note(&mut self, now: Instant, body_bytes: usize) {
        let bytes = body_bytes as u64;
        if let Some(last) = self.0.back_mut().filter(|last| now - last.at < GRAIN) {
            last.messages += 1;
            last.bytes += bytes;
            return;
        }
        if self.0.len() == INSTANTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Passed {
            at: now,
            messages: 1,
            bytes,
        });
    }

    /// Tokens by which the worst window of them exceeded the whole of `limit`; none where nothing passed.
    #[must_use]
    pub fn excess_over(&self, limit: &Limit) -> Option<f64> {
        let mut witness = Witness::new(Some(Share::whole(limit)), self.0.front()?.at);
        for passed in &self.0 {
            let cost = match limit.unit {
                Unit::Messages => passed.messages,
                Unit::Bytes => passed.bytes,
            };
            witness.release(passed.at, cost as f64);
        }
        Some(witness.excess())
    }
}
