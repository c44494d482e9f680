//! Which topics claim which identifiers.
//!
//! The lookup is per message that arrives, so an identifier that a single topic claims, as nearly
//! all are, is found in one step.

use rustc_hash::FxHashMap;
use wire::TopicName;
use wire::announce::TopicId;

#[derive(Clone, Debug, Default)]
pub(super) struct Claims(FxHashMap<TopicId, Claim>);

#[derive(Clone, Debug)]
enum Claim {
    Sole(TopicName),
    /// At least two.
    Contested(Vec<TopicName>),
}

impl Claims {
    /// The topic that alone claims `id`.
    #[inline]
    pub(super) fn sole(&self, id: TopicId) -> Option<&TopicName> {
        match self.0.get(&id)? {
            Claim::Sole(topic) => Some(topic),
            Claim::Contested(_) => None,
        }
    }

    pub(super) fn is_claimed(&self, id: TopicId) -> bool {
        self.0.contains_key(&id)
    }

    /// Says which others claim it too.
    pub(super) fn claim(&mut self, id: TopicId, topic: &TopicName) -> Vec<TopicName> {
        let mut topics = self.take(id);
        topics.retain(|other| other != topic);
        let others = topics.clone();
        topics.push(topic.clone());
        self.put(id, topics);
        others
    }

    pub(super) fn release(&mut self, id: TopicId, topic: &TopicName) {
        let mut topics = self.take(id);
        topics.retain(|other| other != topic);
        self.put(id, topics);
    }

    fn take(&mut self, id: TopicId) -> Vec<TopicName> {
        match self.0.remove(&id) {
            None => Vec::new(),
            Some(Claim::Sole(topic)) => vec![topic],
            Some(Claim::Contested(topics)) => topics,
        }
    }

    fn put(&mut self, id: TopicId, mut topics: Vec<TopicName>) {
        let claim = match topics.len() {
            0 => return,
            1 => Claim::Sole(topics.remove(0)),
            _ => Claim::Contested(topics),
        };
        self.0.insert(id, claim);
    }
}
