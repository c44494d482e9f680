//! Publishers that wait for room in a topic's queue, in their order of arrival.

use std::collections::VecDeque;

/// Somebody whose publish did not fit, by the number that the shell knows it as. What is not taken with
/// [`TopicTable::pop_waiting`](super::TopicTable::pop_waiting) comes back in [`Effects::without_topic`](super::Effects::without_topic), so the shell
/// keeps what the number stands for until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingPublisher(pub u64);

/// Publishers of a topic that wait for room.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    /// In their order.
    pub(super) waiting: VecDeque<WaitingPublisher>,
    /// The memory that a waiting publish needs, in bytes.
    pub(super) memory_wanted: Option<u64>,
}

impl Publishers {
    /// Puts one at the end, or (`first`) back at the head.
    pub(super) fn hold(&mut self, publisher: WaitingPublisher, first: bool) {
        match first {
            true => self.waiting.push_front(publisher),
            false => self.waiting.push_back(publisher),
        }
    }
}
