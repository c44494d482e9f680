//! What hearing or forgetting changed, so that its user looks again at those topics only.

use std::collections::BTreeSet;

use wire::TopicName;
use wire::announce::{InstanceId, Role};

/// What changed in the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// An instance was heard for the first time: answer soon, so that it need not wait for an interval.
    pub is_new: bool,
    /// Topics whose subscribers appeared, vanished or speak otherwise.
    pub subscribers: BTreeSet<TopicName>,
    /// Topics whose publishers appeared, vanished, speak otherwise or hold another part of the limit.
    pub publishers: BTreeSet<TopicName>,
    /// Instances that were forgotten: expired, left or restarted.
    pub gone: Vec<InstanceId>,
}

impl Change {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.is_new
            && self.subscribers.is_empty()
            && self.publishers.is_empty()
            && self.gone.is_empty()
    }

    /// Adds further changes.
    pub fn merge(&mut self, other: Change) {
        self.is_new |= other.is_new;
        self.subscribers.extend(other.subscribers);
        self.publishers.extend(other.publishers);
        self.gone.extend(other.gone);
    }

    pub(super) fn note(&mut self, role: Role, topic: &TopicName) {
        let topics = match role {
            Role::Publisher => &mut self.publishers,
            Role::Subscriber => &mut self.subscribers,
        };
        if !topics.contains(topic) {
            topics.insert(topic.clone());
        }
    }
}
