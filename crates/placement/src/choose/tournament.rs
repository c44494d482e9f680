//! The broker with the greatest key, kept while keys change: a tournament of which only one path is
//! played again after a change.

/// A count of elementary steps, so that a test can assert the order of growth without a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) steps: u64,
}

/// Keys by index with the greatest at hand. Equal keys: the lower index.
pub(crate) struct Tournament {
    keys: Vec<f64>,
    /// `winners[1]` is the winner of all; the players of `winners[i]` are at `2i` and `2i + 1`.
    winners: Vec<u32>,
    leaves: usize,
}

impl Tournament {
    pub(crate) fn new(keys: Vec<f64>) -> Self {
        let leaves = keys.len().next_power_of_two();
        let mut tournament = Tournament {
            winners: vec![u32::MAX; 2 * leaves],
            keys,
            leaves,
        };
        for at in 0..tournament.keys.len() {
            tournament.winners[leaves + at] = at as u32;
        }
        for node in (1..leaves).rev() {
            tournament.play(node);
        }
        tournament
    }

    /// The greatest key and its index, unless all are −∞.
    pub(crate) fn best(&self) -> Option<(usize, f64)> {
        let at = self.winners[1] as usize;
        let key = *self.keys.get(at)?;
        (key > f64::NEG_INFINITY).then_some((at, key))
    }

    /// The lowest index whose key is at least `least`.
    pub(crate) fn first_of_at_least(&self, least: f64, work: &mut Work) -> Option<usize> {
        let mut node = 1;
        if self.key(self.winners[node]) < least {
            return None;
        }
        while node < self.leaves {
            let left = 2 * node;
            node = left + usize::from(self.key(self.winners[left]) < least);
            work.steps += 1;
        }
        Some(self.winners[node] as usize)
    }

    /// Gives `at` another key; −∞ takes it out.
    pub(crate) fn set(&mut self, at: usize, key: f64, work: &mut Work) {
        self.keys[at] = key;
        let mut node = (self.leaves + at) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
            work.steps += 1;
        }
    }

    fn play(&mut self, node: usize) {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        let right_wins = self.key(right) > self.key(left) || left == u32::MAX;
        self.winners[node] = if right_wins { right } else { left };
    }

    fn key(&self, player: u32) -> f64 {
        let key = self.keys.get(player as usize);
        key.copied().unwrap_or(f64::NEG_INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_is_the_maximum_after_every_change(
            count in 1usize..20,
            changes in prop::collection::vec((0usize..20, -5i8..5), 0..60),
        ) {
            let mut keys = vec![0.0; count];
            let mut tournament = Tournament::new(keys.clone());
            let mut work = Work::default();
            for (at, key) in changes {
                let at = at % count;
                keys[at] = if key == -5 { f64::NEG_INFINITY } else { f64::from(key) };
                tournament.set(at, keys[at], &mut work);
                let greatest = keys.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let first = keys.iter().position(|&key| key == greatest).unwrap();
                let expected = (greatest > f64::NEG_INFINITY).then_some((first, greatest));
                prop_assert_eq!(tournament.best(), expected);
            }
        }
    }

    #[test]
    fn of_nobody_there_is_no_best() {
        assert_eq!(Tournament::new(Vec::new()).best(), None);
    }
}
