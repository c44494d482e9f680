//! How far the disk is behind with what consumers have finished: a kill of the broker has so much delivered again.

use std::collections::VecDeque;

/// Messages of a topic that consumers may have finished before its log says so. With as many, nothing more of it is delivered; what is in
/// flight may be finished all the same.
pub const FINISHED_WAITING_MAX: usize = 2048;

/// With as many the shell is asked to say how far it is.
const FINISHED_TOLD_FROM: usize = FINISHED_WAITING_MAX / 2;

/// Messages that are finished where the shell has not said that their log knows.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// Of the open batch.
    open: usize,
    /// Of batches that are closed, by their numbers.
    closed: VecDeque<(u64, usize)>,
    /// All of them.
    waiting: usize,
    /// Something was not delivered because of them.
    holds_back: bool,
}

impl Lag {
    /// A consumer has finished one.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.open += 1;
        self.waiting += 1;
    }

    /// The open batch is closed; whether the shell is to say when it is written.
    pub(super) fn close(&mut self, number: u64) -> bool {
        let finished = std::mem::take(&mut self.open);
        if finished > 0 {
            self.closed.push_back((number, finished));
        }
        self.waiting >= FINISHED_TOLD_FROM
    }

    /// Whether what is to be delivered has to wait; then [hearing](Lag::hear) says when it may go on.
    #[inline]
    pub(super) fn hold(&mut self) -> bool {
        let is_full = self.waiting >= FINISHED_WAITING_MAX;
        self.holds_back |= is_full;
        is_full
    }

    /// The shell is as far as that batch. Whether what was held back may go on.
    pub(super) fn hear(&mut self, number: u64) -> bool {
        while let Some((_, finished)) = self.closed.pop_front_if(|(closed, _)| *closed <= number) {
            self.waiting -= finished;
        }
        let has_room = self.waiting < FINISHED_WAITING_MAX;
        has_room && std::mem::take(&mut self.holds_back)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whoever is held back goes on once the shell is as far as it was asked to say.
        #[test]
        fn what_is_held_back_goes_on(turns in prop::collection::vec((0..900usize, any::<bool>()), 1..60)) {
            let mut lag = Lag::default();
            let (mut number, mut wanted, mut waiting) = (0, None, Vec::new());
            for (finished, is_told) in turns {
                number += 1;
                let held = lag.hold();
                let sum: usize = waiting.iter().map(|(_, finished)| finished).sum();
                prop_assert_eq!(held, sum >= FINISHED_WAITING_MAX);
                let finished = if held { 0 } else { finished };
                (0..finished).for_each(|_| lag.finish());
                waiting.push((number, finished));
                if lag.close(number) {
                    wanted = Some(number);
                }
                prop_assert!(!lag.hold() || wanted.is_some(), "somebody will say something");
                if is_told && let Some(told) = wanted.take() {
                    let was_held = lag.hold();
                    waiting.retain(|(number, _)| *number > told);
                    prop_assert_eq!(lag.hear(told), was_held);
                    prop_assert!(!lag.hold());
                }
            }
        }
    }
}
