//! Topics as tasks of a schedule: which have work, and what they are entitled to.

use kernel::{Share, TaskId};

use super::table::{TopicKey, TopicTable};

impl TopicTable {
    /// Takes a topic that something happened to and that has not been run since.
    pub fn pop_dirty(&mut self) -> Option<TopicKey> {
        self.dirty.pop()
    }

    /// Notes under which task a topic is served.
    pub fn set_task(&mut self, key: TopicKey, task: TaskId) {
        if let Some(topic) = self.topics.get_mut(key) {
            topic.task = Some(task);
        }
    }

    /// Notes what a topic declares to be entitled to.
    pub fn set_cpu_share(&mut self, key: TopicKey, share: Option<Share>) {
        if let Some(topic) = self.topics.get_mut(key)
            && topic.declared.cpu_share != share
        {
            topic.declared.cpu_share = share;
            self.effects.catalog_changed = true;
        }
    }
}
