//! Questions about publishers, answered without counting them.

use std::collections::BTreeSet;

use limit::Unit;

use super::{Looked, Publishers, Row};
use crate::core::BrokerNumber;
use crate::core::parts::Sizes;
use crate::core::tally::Tally;

impl Publishers {
    /// Looks for publishers below an index, the last first, as many as one part may.
    pub(in crate::core) fn look_below(
        &self,
        below: usize,
        sizes: Sizes,
        is_meant: impl Fn(&Row) -> bool,
    ) -> Looked {
        let mut looked = Looked::default();
        let mut index = below.min(self.rows.len());
        while index > 0 && looked.rows < sizes.looks && looked.found.len() < sizes.rows {
            index -= 1;
            looked.rows += 1;
            if is_meant(&self.rows[index]) {
                looked.found.push(index);
            }
        }
        looked.rows_left = (index > 0).then_some(index);
        looked.found.reverse();
        looked
    }

    /// The sums at a broker.
    #[must_use]
    pub fn at(&self, number: BrokerNumber) -> Option<&Tally> {
        self.tallies.get(&number)
    }

    /// The sums at each broker that any of them belongs to or is connected to.
    pub fn tallies(&self) -> impl Iterator<Item = (BrokerNumber, &Tally)> {
        self.tallies.iter().map(|(&number, tally)| (number, tally))
    }

    /// Brokers that any of them belongs to, in order.
    pub fn places(&self) -> impl Iterator<Item = BrokerNumber> {
        let placed = self.tallies();
        let placed = placed.filter(|(_, tally)| tally.placed.number() > 0);
        placed.map(|(number, _)| number)
    }

    /// Whether any of them belongs to a broker.
    #[must_use]
    pub fn is_placed_at(&self, number: BrokerNumber) -> bool {
        self.at(number).is_some_and(|at| at.placed.number() > 0)
    }

    /// Indices of those without a place, in order.
    #[must_use]
    pub fn unplaced(&self) -> &BTreeSet<u32> {
        &self.unplaced
    }

    /// Indices of those that are connected elsewhere than they are to be, in order.
    #[must_use]
    pub fn misplaced(&self) -> &BTreeSet<u32> {
        &self.misplaced
    }

    /// How many are connected.
    #[must_use]
    pub fn attached(&self) -> usize {
        let attached = self.tallies.values();
        attached.map(|tally| tally.attached.number()).sum()
    }

    /// Largest batch in tokens. A share's burst is never below it; of bytes nothing is declared.
    #[must_use]
    pub fn largest_batch_tokens(&self, unit: Option<Unit>) -> f64 {
        match unit {
            Some(Unit::Messages) => f64::from(self.batches.largest().unwrap_or(1)),
            _ => 1.0,
        }
    }

    /// Messages that are sent at once as declared: by a publisher, or by a correlation group.
    #[must_use]
    pub fn largest_burst(&self) -> u64 {
        self.bursts.largest().unwrap_or(0)
    }

    /// Declared rate of all, messages per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.declared.rate()
    }
}
