//! How many packets a device is asked for at once.
//!
//! Asking for packets that are not there costs a little each time, asking too often costs a system
//! call each time. So one more is asked for than came last time, which also shows whether that was
//! all, and twice as many as long as all of them come. After a burst the number is halved from turn
//! to turn.

/// The most packets that are asked for at once.
pub(super) const BATCH_PACKETS_MAX: usize = 32;

/// How many packets one device is asked for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchSize(usize);

impl BatchSize {
    /// Packets to ask for at the beginning of a turn.
    pub(super) const fn first(self) -> usize {
        self.0
    }

    /// Packets to ask for after all of `asked` came.
    pub(super) fn more(asked: usize) -> usize {
        (2 * asked).min(BATCH_PACKETS_MAX)
    }

    /// Ends a turn in which `came` packets came.
    pub(super) fn end(&mut self, came: usize) {
        self.0 = (came + 1).max(self.0 / 2).min(BATCH_PACKETS_MAX);
    }
}

impl Default for BatchSize {
    fn default() -> Self {
        BatchSize(2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Has turns with `waiting` packets each; what was asked for in vain, and how often was asked.
    fn turns(batch_size: &mut BatchSize, waiting: &[usize]) -> (usize, usize) {
        let (mut vain, mut times) = (0, 0);
        for waiting in waiting {
            let (mut left, mut ask) = (*waiting, batch_size.first());
            loop {
                times += 1;
                let came = left.min(ask);
                left -= came;
                vain += ask - came;
                if came < ask {
                    break;
                }
                ask = BatchSize::more(ask);
            }
            batch_size.end(*waiting);
        }
        (vain, times)
    }

    #[test]
    fn a_steady_trickle_is_asked_for_once_per_turn_and_one_in_vain() {
        for waiting in [1, 5, 31] {
            let mut batch_size = BatchSize::default();
            turns(&mut batch_size, &[waiting; 3]);
            assert_eq!(
                turns(&mut batch_size, &[waiting; 10]),
                (10, 10),
                "{waiting}"
            );
        }
    }

    #[test]
    fn what_a_burst_leaves_behind_fades() {
        let mut batch_size = BatchSize::default();
        turns(&mut batch_size, &[1000]);
        assert_eq!(batch_size.first(), BATCH_PACKETS_MAX);
        let (vain, _) = turns(&mut batch_size, &[1; 20]);
        assert!(vain <= 2 * BATCH_PACKETS_MAX + 20, "{vain}");
        assert_eq!(batch_size.first(), 2);
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_vain_asking_is_paid_for_by_packets(
            waiting in proptest::collection::vec(0usize..200, 1..50)
        ) {
            let mut batch_size = BatchSize::default();
            let (vain, times) = turns(&mut batch_size, &waiting);
            prop_assert!((1..=BATCH_PACKETS_MAX).contains(&batch_size.first()));
            let packets: usize = waiting.iter().sum();
            prop_assert!(vain <= 4 * packets + 2 * waiting.len());
            // Six times double it from 1 to the most.
            prop_assert!(times <= 6 * waiting.len() + packets / BATCH_PACKETS_MAX);
        }
    }
}
