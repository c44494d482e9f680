//! Work to do at a given instant.
//!
//! A heap without removal: whoever no longer wants a wake-up forgets its time, and a wake-up whose
//! target remembers another time is skipped. So an entry costs no search, and each target keeps at
//! most one live entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use clock::Instant;

/// Targets with their times, earliest first.
#[derive(Debug)]
pub struct Wakeups<T>(BinaryHeap<Reverse<(Instant, T)>>);

impl<T: Ord> Default for Wakeups<T> {
    fn default() -> Self {
        Wakeups(BinaryHeap::new())
    }
}

impl<T: Ord + Copy> Wakeups<T> {
    /// Asks for `target` to come up at `at`.
    pub fn push(&mut self, at: Instant, target: T) {
        self.0.push(Reverse((at, target)));
    }

    /// Entries, those that nobody wants any more among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the entries that `is_wanted` does not want, and all but one of equal ones.
    pub fn retain(&mut self, is_wanted: impl Fn(Instant, T) -> bool) {
        let mut entries = std::mem::take(&mut self.0).into_vec();
        entries.retain(|Reverse((at, target))| is_wanted(*at, *target));
        entries.sort_unstable();
        entries.dedup();
        self.0 = entries.into();
    }

    /// The earliest time asked for.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// The earliest target, if its time is at or before `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
