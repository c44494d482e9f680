//! By what all leases of a reactor were prolonged, said once for all.
//!
//! A hundred thousand topics at rest cost nothing then. A lease hears it, as of the instants at which it was said, before its end
//! is looked for, before a report and before another grant; so its end is where it would be if it had heard everything at once.
//! Only so many are kept, so at times a reactor has all leases hear them, in slices. One that missed some all the same ends earlier, as if
//! they had been lost on their way: shares that are used never exceed what the controller and the other brokers reckon with.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clock::Instant;
use limit::Prolongation;

/// Kept at most; the oldest goes first.
const KEPT_MAX: usize = 64;

/// After so many all leases are to hear them.
const HEARD_EVERY: u64 = 16;

/// See the module. The lock is taken once per lease and prolongation at most, and by one thread only.
#[derive(Debug, Default)]
pub struct Prolongations {
    said: AtomicU64,
    latest: Mutex<VecDeque<(Instant, Prolongation)>>,
}

impl Prolongations {
    /// Says one at `now`; whether it is time that all leases hear it.
    pub fn say(&self, by: Prolongation, now: Instant) -> bool {
        let mut latest = self.lock();
        if latest.len() == KEPT_MAX {
            latest.pop_front();
        }
        latest.push_back((now, by));
        let said = self.said.fetch_add(1, Ordering::Relaxed) + 1;
        said.is_multiple_of(HEARD_EVERY)
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
        hear: impl FnOnce(&mut dyn Iterator<Item = (Instant, Prolongation)>),
    ) -> u64 {
        let latest = self.lock();
        let said = self.said();
        let unheard = usize::try_from(said - heard).unwrap_or(usize::MAX);
        let known = latest.len().saturating_sub(unheard);
        hear(&mut latest.range(known..).copied());
        said
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, Prolongation)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
