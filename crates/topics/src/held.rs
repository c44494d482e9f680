//! Publishers that wait for room in a topic's queue, in their order of arrival.

use super::table::{TopicKey, TopicTable};

/// Somebody whose publish did not fit, by the number that the shell knows it as. What is not taken with
/// [`TopicTable::pop_held`] comes back in [`Effects::orphans`](super::effects::Effects::orphans), so the shell keeps what the number
/// stands for until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held(pub u64);

impl TopicTable {
    /// Takes the first publisher held at a topic.
    pub fn pop_held(&mut self, key: TopicKey) -> Option<Held> {
        let topic = self.topics.get_mut(key)?;
        topic.publishers.held.pop_front()
    }

    /// Puts a publisher at the end of those held, or (`first`) back at their head.
    pub fn hold(&mut self, key: TopicKey, held: Held, first: bool) {
        let Some(topic) = self.topics.get_mut(key) else {
            self.effects.orphans.push(held);
            return;
        };
        if first {
            topic.publishers.held.push_front(held);
        } else {
            topic.publishers.held.push_back(held);
        }
    }

    /// Whether somebody waits already, so that a newcomer must queue up behind.
    #[inline]
    #[must_use]
    pub fn has_held(&self, key: TopicKey) -> bool {
        self.topics
            .get(key)
            .is_some_and(|topic| !topic.publishers.held.is_empty())
    }
}
