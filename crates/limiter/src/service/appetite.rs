//! How many packets a device is asked for at once.
//!
//! Asking for what is not there costs a little each time, asking too often costs a system call each time. So one more is
//! asked for than came last time, which also tells whether that was all, and twice as many as long as all of them come.
//! What a burst left behind is halved from turn to turn.

/// Packets that are asked for at once at most.
pub(super) const APPETITE_MAX: usize = 32;

/// See the module; it lasts for a device's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Appetite(usize);

impl Appetite {
    /// Packets to ask for at the beginning of a turn.
    pub(super) const fn first(self) -> usize {
        self.0
    }

    /// Packets to ask for after all of `asked` came.
    pub(super) fn more(asked: usize) -> usize {
        (2 * asked).min(APPETITE_MAX)
    }

    /// Ends a turn in which `came` packets came.
    pub(super) fn end(&mut self, came: usize) {
        self.0 = (came + 1).max(self.0 / 2).min(APPETITE_MAX);
    }
}

impl Default for Appetite {
    fn default() -> Self {
        Appetite(2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Has turns with `waiting` packets each; what was asked for in vain, and how often was asked.
    fn turns(appetite: &mut Appetite, waiting: &[usize]) -> (usize, usize) {
        let (mut vain, mut times) = (0, 0);
        for waiting in waiting {
            let (mut left, mut ask) = (*waiting, appetite.first());
            loop {
                times += 1;
                let came = left.min(ask);
                left -= came;
                vain += ask - came;
                if came < ask {
                    break;
                }
                ask = Appetite::more(ask);
            }
            appetite.end(*waiting);
        }
        (vain, times)
    }

    #[test]
    fn a_steady_trickle_is_asked_for_once_per_turn_and_one_in_vain() {
        for waiting in [1, 5, 31] {
            let mut appetite = Appetite::default();
            turns(&mut appetite, &[waiting; 3]);
            assert_eq!(turns(&mut appetite, &[waiting; 10]), (10, 10), "{waiting}");
        }
    }

    #[test]
    fn what_a_burst_leaves_behind_fades() {
        let mut appetite = Appetite::default();
        turns(&mut appetite, &[1000]);
        assert_eq!(appetite.first(), APPETITE_MAX);
        let (vain, _) = turns(&mut appetite, &[1; 20]);
        assert!(vain <= 2 * APPETITE_MAX + 20, "{vain}");
        assert_eq!(appetite.first(), 2);
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_vain_asking_is_paid_for_by_packets(
            waiting in proptest::collection::vec(0usize..200, 1..50)
        ) {
            let mut appetite = Appetite::default();
            let (vain, times) = turns(&mut appetite, &waiting);
            prop_assert!((1..=APPETITE_MAX).contains(&appetite.first()));
            let packets: usize = waiting.iter().sum();
            prop_assert!(vain <= 4 * packets + 2 * waiting.len());
            // Six times double it from 1 to the most.
            prop_assert!(times <= 6 * waiting.len() + packets / APPETITE_MAX);
        }
    }
}
