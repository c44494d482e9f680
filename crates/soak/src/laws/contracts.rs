//! A contract that a broker has confirmed is in force there after a restart, unless a later one is.

use std::collections::BTreeMap;

use broker::Declaration;
use broker::stats::Catalog;
use link::Contract;

/// Contracts that may wait behind the last one that was confirmed.
const SINCE_MAX: usize = 1000;

/// The books: by place and topic.
#[derive(Debug, Default)]
pub struct Contracts(BTreeMap<(usize, String), Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Was told to be in force, and kept.
    confirmed: Contract,
    /// Was to be kept since: a crash may leave any of them.
    since: Vec<Contract>,
}

impl Contracts {
    /// Contracts are to be kept in a place.
    pub fn ordered(&mut self, place: usize, contracts: &[Declaration]) {
        for each in contracts {
            let kept = self.of(place, each);
            kept.since.push(each.contract);
            assert!(kept.since.len() < SINCE_MAX, "none is ever confirmed");
        }
    }

    /// One is in force there, and kept.
    pub fn confirmed(&mut self, place: usize, contract: &Declaration) {
        let kept = self.of(place, contract);
        kept.confirmed = contract.contract;
        // Those behind it were ordered later.
        let own = kept
            .since
            .iter()
            .rposition(|each| *each == contract.contract);
        kept.since.drain(..own.map_or(0, |own| own + 1));
    }

    /// A process begins in a place with what its folder holds.
    ///
    /// # Errors
    /// One is lost.
    pub fn restarted(&self, place: usize, catalog: &Catalog) -> Result<(), String> {
        for ((of, topic), kept) in &self.0 {
            let held = catalog.topics.iter().find(|held| held.name == *topic);
            let held = held.map(|held| held.contract).unwrap_or_default();
            let mut may_be = kept.since.iter().chain([&kept.confirmed]);
            if *of == place && !may_be.any(|may_be| is_same(may_be, &held)) {
                return Err(format!(
                    "broker {place} has lost a contract of {topic}: {held:?} is in its folder, {kept:?} may be"
                ));
            }
        }
        Ok(())
    }

    fn of(&mut self, place: usize, contract: &Declaration) -> &mut Kept {
        let topic = contract.topic.to_string();
        self.0.entry((place, topic)).or_default()
    }
}

/// Numbers go through text.
fn is_same(one: &Contract, other: &Contract) -> bool {
    let numbers = |contract: &Contract| {
        let limit = contract.limit?;
        Some((limit.rate.get(), limit.burst.get()))
    };
    let is_near = match (numbers(one), numbers(other)) {
        (Some((rate, burst)), Some((rate_of, burst_of))) => {
            (rate - rate_of).abs() <= 1e-9 * rate && (burst - burst_of).abs() <= 1e-9 * burst
        }
        (one, other) => one == other,
    };
    is_near && one.on_full == other.on_full
}
