//! How many names one maker may make: topics and channels.
//!
//! A name counts against its maker from when it is made until it is gone, or a window is over, whichever comes first. So nobody fills
//! the tables of a broker alone, and whoever makes some each day for years never comes to a bound. The window is kept in [`SLOTS`]
//! slots; what was made in a slot is forgotten as a whole.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::Instant;

use super::refusal::Refusal;

/// Parts of a window.
const SLOTS: u64 = 24;

/// What makers of names have made, at all reactors of a broker. Clones are one.
///
/// Makers are remembered while something counts that they made, so there are no more of them than names.
#[derive(Clone, Debug)]
pub struct NameBudget(Arc<Ledger>);

/// A name that counts against its maker; gives it back when it is dropped.
#[derive(Debug)]
pub struct NameShare {
    ledger: Arc<Ledger>,
    maker: IpAddr,
    slot: u64,
}

/// On whose behalf names are made at the moment.
#[derive(Debug, Default)]
pub(super) struct Naming {
    pub(super) budget: Option<NameBudget>,
    pub(super) maker: Option<(IpAddr, Instant)>,
}

#[derive(Debug)]
struct Ledger {
    most: usize,
    window: Duration,
    makers: Mutex<HashMap<IpAddr, Made>>,
    refused: AtomicU64,
}

/// What one maker made in each slot of the window, the oldest first.
#[derive(Debug, Default)]
struct Made(VecDeque<(u64, usize)>);

impl NameBudget {
    /// So many names for each maker, at any time within `window`; 0: no bound.
    #[must_use]
    pub fn new(most: usize, window: Duration) -> NameBudget {
        NameBudget(Arc::new(Ledger {
            most,
            window,
            makers: Mutex::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// One more name of `maker`'s, made at `now`; `None` where there is no bound.
    ///
    /// # Errors
    /// [`Refusal::Names`] at the bound.
    pub fn take(&self, maker: IpAddr, now: Instant) -> Result<Option<NameShare>, Refusal> {
        let Ledger { most, window, .. } = *self.0;
        if most == 0 {
            return Ok(None);
        }
        let slot = now.as_nanos() / slot_ns(window);
        let mut makers = self.0.makers();
        let made = makers.entry(maker).or_default();
        made.forget_before(oldest(slot));
        if made.count() >= most {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Names { most, window });
        }
        made.add(slot);
        Ok(Some(NameShare {
            ledger: Arc::clone(&self.0),
            maker,
            slot,
        }))
    }

    /// Whether `maker` may make one more name at `now`; nothing is taken, and nothing counted.
    #[must_use]
    pub fn has_room(&self, maker: IpAddr, now: Instant) -> bool {
        let Ledger { most, window, .. } = *self.0;
        let oldest = oldest(now.as_nanos() / slot_ns(window));
        let makers = self.0.makers();
        most == 0
            || makers
                .get(&maker)
                .is_none_or(|made| made.count_since(oldest) < most)
    }

    /// How many were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Naming {
    /// Whether `maker` may make one more.
    pub(super) fn has_room(&self, maker: Option<IpAddr>, now: Instant) -> bool {
        let (Some(budget), Some(maker)) = (&self.budget, maker) else {
            return true;
        };
        budget.has_room(maker, now)
    }

    /// A name that is about to be made; nothing where it counts against nobody.
    pub(super) fn take(&self) -> Result<Option<NameShare>, Refusal> {
        match (&self.budget, self.maker) {
            (Some(budget), Some((maker, now))) => budget.take(maker, now),
            _ => Ok(None),
        }
    }
}

impl Ledger {
    fn makers(&self) -> MutexGuard<'_, HashMap<IpAddr, Made>> {
        // Whole after every call, so a panic elsewhere does not spoil it.
        self.makers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Made {
    fn count(&self) -> usize {
        self.count_since(0)
    }

    fn count_since(&self, slot: u64) -> usize {
        let young = self.0.iter().filter(|(made_in, _)| *made_in >= slot);
        young.map(|(_, made)| made).sum()
    }

    fn forget_before(&mut self, slot: u64) {
        while self.0.front().is_some_and(|(old, _)| *old < slot) {
            self.0.pop_front();
        }
    }

    fn add(&mut self, slot: u64) {
        match self.0.back_mut().filter(|(last, _)| *last >= slot) {
            Some((_, made)) => *made += 1,
            None => self.0.push_back((slot, 1)),
        }
    }

    fn give_back(&mut self, slot: u64) {
        if let Some(at) = self.0.iter().position(|(made_in, _)| *made_in == slot) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }
}

impl Drop for NameShare {
    fn drop(&mut self) {
        let mut makers = self.ledger.makers();
        if let Some(made) = makers.get_mut(&self.maker) {
            made.give_back(self.slot);
            if made.0.is_empty() {
                makers.remove(&self.maker);
            }
        }
    }
}

/// The oldest slot of the window that ends with `slot`.
fn oldest(slot: u64) -> u64 {
    (slot + 1).saturating_sub(SLOTS)
}

fn slot_ns(window: Duration) -> u64 {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    (window_ns / SLOTS).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(24);

    fn maker(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_maker_has_so_many_names_until_they_are_gone_or_old() {
        let budget = NameBudget::new(3, WINDOW);
        let mut names: Vec<_> = (0..3).map(|now| budget.take(maker(1), at(now))).collect();
        let refused = budget.take(maker(1), at(3)).expect_err("three are there");
        assert_eq!(
            refused.to_string(),
            "this address has made 3 topics and channels within 24s; delete some, or raise --max-names-per-address"
        );
        assert!(budget.take(maker(2), at(3)).is_ok(), "another maker");
        names.pop();
        let again = budget.take(maker(1), at(4));
        assert!(again.is_ok(), "one is gone");
        assert!(budget.take(maker(1), at(5)).is_err());
        // The first is as old as the window.
        let next = budget.take(maker(1), at(24));
        assert!(next.is_ok());
        assert!(budget.take(maker(1), at(24)).is_err());
        assert_eq!(budget.refused(), 3);
        drop((names, again, next));
        assert_eq!(budget.0.makers().len(), 0);
    }

    #[test]
    fn without_a_bound_nothing_is_counted() {
        let budget = NameBudget::new(0, WINDOW);
        assert!((0..100).all(|now| matches!(budget.take(maker(1), at(now)), Ok(None))));
        assert_eq!(budget.0.makers().len(), 0);
    }

    proptest! {
        /// Against a list of all names that are there, with when each was made.
        #[test]
        fn what_counts_is_what_is_there_and_young(
            steps in prop::collection::vec((0_u8..3, 0_u64..9, any::<bool>(), 0_usize..20), 1..200)
        ) {
            let budget = NameBudget::new(5, WINDOW);
            let mut there: Vec<(u8, u64, NameShare)> = Vec::new();
            let mut now = 0;
            for (who, pause, is_new, which) in steps {
                now += pause;
                if !is_new {
                    if which < there.len() {
                        there.swap_remove(which);
                    }
                    continue;
                }
                let young = |made: u64| now - made < 24;
                let count = there.iter().filter(|(other, made, _)| *other == who && young(*made)).count();
                prop_assert_eq!(budget.has_room(maker(who), at(now)), count < 5);
                match budget.take(maker(who), at(now)) {
                    Ok(Some(share)) => {
                        prop_assert!(count < 5);
                        there.push((who, now, share));
                    }
                    Ok(None) => prop_assert!(false, "there is a bound"),
                    Err(_) => prop_assert_eq!(count, 5),
                }
                prop_assert!(budget.0.makers().len() <= there.len() + 1);
            }
            there.clear();
            prop_assert_eq!(budget.0.makers().len(), 0);
        }
    }
}
