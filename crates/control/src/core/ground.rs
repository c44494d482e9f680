//! The common ground of decisions about topics: the parts that each of them borrows.

use super::due::Due;
use super::outbox::Outbox;
use super::registry::Brokers;
use super::rounds::Rounds;
use super::settings::Rules;
use super::topics::Topics;

/// Parts of the core, borrowed for one decision; brokers are only looked at.
pub(super) struct Ground<'a> {
    pub(super) rules: &'a Rules,
    pub(super) brokers: &'a Brokers,
    pub(super) topics: &'a mut Topics,
    pub(super) rounds: &'a Rounds,
    pub(super) due: &'a mut Due,
    pub(super) out: &'a mut Outbox,
}

impl Ground<'_> {
    /// The same parts, lent on.
    pub(super) fn lend(&mut self) -> Ground<'_> {
        Ground {
            rules: self.rules,
            brokers: self.brokers,
            topics: self.topics,
            rounds: self.rounds,
            due: self.due,
            out: self.out,
        }
    }
}
