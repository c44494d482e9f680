//! Publishers that wait for room in a topic's queue, in their order of arrival.

use std::collections::VecDeque;

/// Somebody whose publish did not fit, by the number that the shell knows it as. What is not taken with
/// [`TopicTable::pop_held`](super::TopicTable::pop_held) comes back in [`Effects::orphans`](super::Effects::orphans), so the shell
/// keeps what the number stands for until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held(pub u64);

/// Publishers of a topic that wait for room.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    /// In their order.
    pub(super) held: VecDeque<Held>,
    /// The memory that a waiting publish needs, in bytes.
    pub(super) memory_wanted: Option<u64>,
}

impl Publishers {
    /// Puts one at the end, or (`first`) back at the head.
    pub(super) fn hold(&mut self, held: Held, first: bool) {
        match first {
            true => self.held.push_front(held),
            false => self.held.push_back(held),
        }
    }
}
