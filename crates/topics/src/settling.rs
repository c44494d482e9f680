//! A pass through all topics, one after the other, on which each hears what was announced once for
//! all ([`super::words`], [`super::awaited`]).
//!
//! A topic hears it anyway before it is looked at. The pass only makes sure that messages waiting
//! in a topic go on, and that no announcement is forgotten before all topics have heard it.

/// Where the way stands.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The slot that is next.
    slot: usize,
    /// Slots that are gone round.
    slots: usize,
    /// So many are left.
    left: usize,
}

impl Settling {
    /// Something was announced while there were `slots` slots: each has to be passed from now on.
    /// Topics that are created later have heard it.
    pub(super) fn begin(&mut self, slots: usize) {
        *self = Settling {
            slot: if self.slot < slots { self.slot } else { 0 },
            slots,
            left: slots,
        };
    }

    /// The slot to be passed now; none where all have been.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.slot;
        self.slot = if slot + 1 < self.slots { slot + 1 } else { 0 };
        Some(slot)
    }

    /// Whether some are left.
    pub(super) fn is_under_way(&self) -> bool {
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_passed_after_the_last_word_however_often_there_is_one() {
        let mut settling = Settling::default();
        assert_eq!(settling.next(), None);
        for (slots, steps) in [(5, 3), (7, 6), (7, 2), (9, 0), (9, 9)] {
            settling.begin(slots);
            let mut passed: Vec<usize> = (0..steps).filter_map(|_| settling.next()).collect();
            if steps == slots {
                passed.sort_unstable();
                assert_eq!(passed, (0..slots).collect::<Vec<_>>());
            }
            assert_eq!(settling.is_under_way(), steps < slots);
        }
    }
}
