//! A queue of things that wait for their time, in order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use clock::Instant;

/// A bounded number of things, each with the instant that it waits for. Equal instants keep the order of their coming.
#[derive(Debug)]
pub(crate) struct DelayQueue<T> {
    heap: BinaryHeap<Held<T>>,
    most: usize,
    next: u64,
}

#[derive(Debug)]
struct Held<T> {
    due: Instant,
    number: u64,
    thing: T,
}

impl<T> DelayQueue<T> {
    /// An empty queue with room for `most` things.
    pub(crate) fn new(most: usize) -> DelayQueue<T> {
        DelayQueue {
            heap: BinaryHeap::new(),
            most,
            next: 0,
        }
    }

    /// Holds `thing` back until `due`, or gives it back for want of room.
    pub(crate) fn push(&mut self, due: Instant, thing: T) -> Result<(), T> {
        if self.heap.len() >= self.most {
            return Err(thing);
        }
        let number = self.next;
        self.next += 1;
        self.heap.push(Held { due, number, thing });
        Ok(())
    }

    /// Takes the next thing that is due at `now`; gives when it was due, too.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.due()? > now {
            return None;
        }
        self.heap.pop().map(|held| (held.due, held.thing))
    }

    /// When the next thing is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.heap.peek().map(|held| held.due)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    /// Reversed: the heap has its greatest on top, and the first due is to be there.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_the_order_of_their_time_and_then_of_their_coming() {
        let mut queue = DelayQueue::new(4);
        for (due, thing) in [(3, 'c'), (1, 'a'), (3, 'd'), (1, 'b')] {
            assert_eq!(queue.push(Instant::from_nanos(due), thing), Ok(()));
        }
        assert_eq!(queue.push(Instant::ZERO, 'e'), Err('e'), "bounded");
        assert_eq!(queue.pop_due(Instant::ZERO), None);
        let now = Instant::from_nanos(9);
        let order: String = std::iter::from_fn(|| queue.pop_due(now))
            .map(|(_, thing)| thing)
            .collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.due(), None);
    }
}
