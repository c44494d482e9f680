//! Names that something is to be done about, taken in turns: so many at once, and nobody twice before everybody was there.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

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

    /// Who is next, so many at most; all of them keep waiting.
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
