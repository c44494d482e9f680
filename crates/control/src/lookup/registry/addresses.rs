//! How much of a registry each address may fill, so that none fills it for all others.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// One address may have this part of each bound …
const PART: usize = 10;

/// … and at least so much of it.
const PART_MIN: usize = 100;

/// The part of a bound that one address may have.
pub(super) fn part_of(bound: usize) -> usize {
    (bound / PART).max(PART_MIN)
}

/// The entries of one address: topics and channels that peers there created and that are still
/// known, and registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holds {
    pub(super) topics: usize,
    pub(super) channels: usize,
    pub(super) registrations: usize,
}

/// By address; `None` is what was made by hand.
#[derive(Debug, Default)]
pub(super) struct Addresses(BTreeMap<Option<IpAddr>, Holds>);

impl Addresses {
    pub(super) fn at(&self, address: Option<IpAddr>) -> Holds {
        self.0.get(&address).copied().unwrap_or_default()
    }

    pub(super) fn change(&mut self, address: Option<IpAddr>, change: impl FnOnce(&mut Holds)) {
        let holds = self.0.entry(address).or_default();
        change(holds);
        if *holds == Holds::default() {
            self.0.remove(&address);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
