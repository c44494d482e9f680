//! What is said once for all topics of a reactor, and heard by each when it is looked at.
//!
//! A hundred thousand topics at rest cost nothing then. Who hears it does so as of the instants at which it was said, before anything
//! rests on it; so it ends up where it would be if it had heard everything at once. Only so many words are kept, so at times all topics
//! are had to hear them, in slices ([`super::settling`]). One that missed some all the same has the latest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clock::Instant;

/// Kept at most; the oldest goes first.
const KEPT_MAX: usize = 64;

/// See the module. The lock is taken once per hearer and word at most, and by one thread only.
#[derive(Debug)]
pub struct Words<T> {
    said: AtomicU64,
    latest: Mutex<VecDeque<(Instant, T)>>,
}

impl<T> Default for Words<T> {
    fn default() -> Self {
        Words {
            said: AtomicU64::new(0),
            latest: Mutex::new(VecDeque::new()),
        }
    }
}

impl<T: Copy> Words<T> {
    /// Says one at `now`; how many were said with it.
    pub fn say(&self, word: T, now: Instant) -> u64 {
        let mut latest = self.lock();
        if latest.len() == KEPT_MAX {
            latest.pop_front();
        }
        latest.push_back((now, word));
        self.said.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many were said.
    #[inline]
    #[must_use]
    pub fn said(&self) -> u64 {
        self.said.load(Ordering::Relaxed)
    }

    /// Gives `hear` those that were said after the first `heard`, as far as they are kept; how many were said.
    pub fn since(
        &self,
        heard: u64,
        hear: impl FnOnce(&mut dyn Iterator<Item = (Instant, T)>),
    ) -> u64 {
        let latest = self.lock();
        let said = self.said();
        let unheard = usize::try_from(said - heard).unwrap_or(usize::MAX);
        let known = latest.len().saturating_sub(unheard);
        hear(&mut latest.range(known..).copied());
        said
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, T)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
