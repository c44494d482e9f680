//! Names and brokers that need attention, taken in turns: so many at once, and nobody twice before
//! everybody was served.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::BrokerNumber;

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BTreeSet<Arc<str>>,
    last: Option<Arc<str>>,
}

impl Turns {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Somebody waits from now on.
    pub(super) fn insert(&mut self, name: &str) {
        if !self.waiting.contains(name) {
            self.waiting.insert(Arc::from(name));
        }
    }

    /// Somebody waits no more.
    pub(super) fn remove(&mut self, name: &str) {
        self.waiting.remove(name);
    }

    /// The next ones, at most this many; all of them keep waiting.
    pub(super) fn next(&mut self, at_most: usize) -> Vec<Arc<str>> {
        let begin = match &self.last {
            Some(last) => Bound::Excluded(Arc::clone(last)),
            None => Bound::Unbounded,
        };
        let all = self.waiting.len().min(at_most);
        let ahead = self.waiting.range((begin, Bound::Unbounded));
        let around = ahead.chain(&self.waiting).take(all);
        let next: Vec<Arc<str>> = around.cloned().collect();
        self.last = next.last().cloned();
        next
    }
}

/// Brokers that something is worked off of in parts, one after the other.
#[derive(Debug, Default)]
pub(super) struct BrokerTurns {
    waiting: BTreeSet<BrokerNumber>,
    last: BrokerNumber,
}

impl BrokerTurns {
    pub(super) fn insert(&mut self, number: BrokerNumber) {
        self.waiting.insert(number);
    }

    pub(super) fn remove(&mut self, number: BrokerNumber) {
        self.waiting.remove(&number);
    }

    pub(super) fn contains(&self, number: BrokerNumber) -> bool {
        self.waiting.contains(&number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whose turn it is; that broker keeps waiting.
    pub(super) fn next(&mut self) -> Option<BrokerNumber> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = self.waiting.range(after).next();
        self.last = *next.or_else(|| self.waiting.first())?;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_before_anybody_has_another() {
        let mut turns = Turns::default();
        assert!(turns.next(2).is_empty());
        for name in ["d", "a", "c", "b", "a"] {
            turns.insert(name);
        }
        let mut next = || turns.next(3).join("");
        assert_eq!(
            (next(), next(), next()),
            ("abc".into(), "dab".into(), "cda".into())
        );
        turns.remove("b");
        turns.remove("x");
        assert_eq!(turns.next(9).join(""), "cda");
    }
}
