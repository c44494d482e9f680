//! Message ids: unique over brokers and restarts, without coordination.
//!
//! Ten bits of node number, then a counter that begins at the wall clock in units of 256 ns. A
//! restarted broker can only repeat its former ids if it had handed out more than 3.9 million a
//! second all its life. Reactors of one broker count in steps, each from its own offset.

use clock::WallTime;

const COUNTER_BITS: u32 = 54;

/// Gives one reactor's message ids.
#[derive(Debug)]
pub struct MessageIds {
    node: u64,
    counter: u64,
    step: u64,
}

impl MessageIds {
    /// Ids for reactor number `lane` of `lanes` on node `node_id`.
    #[must_use]
    pub fn new(node_id: u16, lane: usize, lanes: usize, start: WallTime) -> MessageIds {
        let (lane, step) = (lane as u64, lanes as u64);
        let first = (start.as_nanos() >> 8) / step * step + lane;
        MessageIds {
            node: u64::from(node_id) << COUNTER_BITS,
            counter: first,
            step,
        }
    }

    /// The same with ids above one that was given before, as far as there are such: a clock that was put back repeats none.
    #[must_use]
    pub fn above(mut self, id: u64) -> MessageIds {
        let mask = (1 << COUNTER_BITS) - 1;
        let (given, lane) = (id & mask, self.counter % self.step);
        if id & !mask == self.node && given > self.counter & mask {
            self.counter = given / self.step * self.step + self.step + lane;
        }
        self
    }

    /// The next id.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.counter += self.step;
        self.node | (self.counter & ((1 << COUNTER_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_over_nodes_lanes_and_restarts() {
        let mut seen = HashSet::new();
        let second = 1_000_000_000;
        for (node, lane, start) in [
            (0, 0, 0),
            (0, 1, 0),
            (1, 0, 0),
            (1023, 1, 0),
            (0, 0, second),
            (0, 1, second),
        ] {
            let mut ids = MessageIds::new(
                node,
                lane,
                2,
                WallTime::from_nanos(1_700_000_000 * second + start),
            );
            for _ in 0..1000 {
                assert!(
                    seen.insert(ids.next()),
                    "node {node}, lane {lane}, start {start}"
                );
            }
        }
    }
}
