//! How a topic gets an identifier of its own.
//!
//! Attempts only grow, so this ends: at the latest when every name has used up its own.

use wire::TopicName;
use wire::announce::TopicId;

use super::{ATTEMPTS_MAX, Name, Names, Source};

impl Names {
    pub(super) fn put_service(&mut self, topic: &TopicName, id: TopicId, is_assigned: bool) {
        if self.by_topic.contains_key(topic) {
            self.leave_service(topic);
        } else {
            self.settle(topic, 0);
        }
        self.claims.claim(id, topic);
        let attempt = self.by_topic[topic].attempt;
        let name = Name {
            id,
            source: Source::Service,
            is_assigned,
            attempt,
        };
        self.put(topic, name);
    }

    /// Gives up an identifier of the service, if it has one.
    pub(super) fn leave_service(&mut self, topic: &TopicName) {
        let name = self.by_topic[topic];
        if name.source == Source::Hash {
            return;
        }
        self.claims.release(name.id, topic);
        let hashed = Name {
            id: TopicId::hashed(topic, name.attempt),
            source: Source::Hash,
            is_assigned: false,
            ..name
        };
        self.put(topic, hashed);
        self.settle(topic, name.attempt);
    }

    /// Brings `topic` to `attempt`, and it and every name that it meets on to one that nobody else claims. Says which it
    /// met first.
    pub(super) fn settle(&mut self, topic: &TopicName, attempt: u8) -> Option<TopicName> {
        let mut met = None;
        let mut unsettled = vec![(topic.clone(), attempt)];
        while let Some((topic, attempt)) = unsettled.pop() {
            for other in self.raise(&topic, attempt) {
                self.counts.collisions += 1;
                unsettled.push((other.clone(), self.by_topic[&other].attempt + 1));
                met.get_or_insert(other);
            }
            let name = self.by_topic[&topic];
            if name.source == Source::Service || self.claims.sole(name.id) == Some(&topic) {
                continue;
            }
            if name.attempt + 1 < ATTEMPTS_MAX {
                unsettled.push((topic, name.attempt + 1));
            } else {
                self.counts.exhausted += 1;
            }
        }
        met
    }

    /// Claims the hashed identifiers of `topic` up to that of `attempt`, and takes the last one unless a service gave it
    /// another. Says which other topics have one of them and must leave it.
    fn raise(&mut self, topic: &TopicName, attempt: u8) -> Vec<TopicName> {
        let attempt = attempt.min(ATTEMPTS_MAX - 1);
        let known = self.by_topic.get(topic).copied();
        let claimed = known.map_or(0, |name| name.attempt + 1);
        let attempt = attempt.max(claimed.saturating_sub(1));
        let mut met = Vec::new();
        for attempt in claimed..=attempt {
            let id = TopicId::hashed(topic, attempt);
            let others = self.claims.claim(id, topic);
            met.extend(
                others
                    .into_iter()
                    .filter(|other| self.by_topic[other].id == id),
            );
        }
        let hashed = Name {
            id: TopicId::hashed(topic, attempt),
            source: Source::Hash,
            is_assigned: false,
            attempt,
        };
        let name = match known {
            Some(name) if name.source == Source::Service => Name { attempt, ..name },
            _ => hashed,
        };
        self.put(topic, name);
        met
    }

    fn put(&mut self, topic: &TopicName, name: Name) {
        let before = self.by_topic.insert(topic.clone(), name);
        if before.is_some_and(|before| before.id != name.id) {
            self.generation += 1;
        }
    }
}
