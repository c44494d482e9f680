//! What becomes of topics and channels here, for whoever is to be told at once.

use link::TopicChange;
use wire::TopicName;

use super::awaited::Teller;
use super::table::{TopicKey, TopicTable};

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Something became of a topic.
    Changed(TopicName, TopicChange),
    /// A topic is held until somebody says which channels it has.
    Asked(TopicName),
}

impl TopicTable {
    /// What happens until [`TopicTable::end_order`] was ordered by the one who would be told of it.
    pub fn begin_order(&mut self) {
        self.telling.is_ordered = true;
    }

    /// From here on changes are news again.
    pub fn end_order(&mut self) {
        self.telling.is_ordered = false;
    }

    /// Something became of a topic that is there.
    pub(super) fn tell(&mut self, key: TopicKey, change: TopicChange) {
        if !self.telling.is_ordered {
            self.tell_anyway(key, change);
        }
    }

    /// The same, even if it follows from an order.
    pub(super) fn tell_anyway(&mut self, key: TopicKey, change: TopicChange) {
        if self.telling.teller == Teller::Nobody {
            return;
        }
        if let Some(topic) = self.topics.get(key) {
            self.effects
                .told
                .push(Told::Changed(topic.name.clone(), change));
        }
    }
}
