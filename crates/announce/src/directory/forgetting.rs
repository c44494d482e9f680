//! Forgetting: what expired, what left, and what was taken over.

use clock::Instant;
use wire::TopicName;
use wire::announce::{Announcement, InstanceId, Role};

use super::{Change, Directory};

impl Directory {
    pub(super) fn let_leave(&mut self, announcement: &Announcement, change: &mut Change) {
        if announcement.entries.is_empty() {
            self.remove(announcement.instance, change);
            self.departed
                .put(announcement.instance, announcement.sequence);
            self.counters.left += 1;
            return;
        }
        let Some(mut instance) = self.instances.remove(&announcement.instance) else {
            self.departed
                .put(announcement.instance, announcement.sequence);
            return;
        };
        instance.sequence = announcement.sequence;
        for entry in &announcement.entries {
            let gone = instance.lines.of_mut(entry.role).remove(&entry.topic);
            if gone.is_some() {
                self.unlist(announcement.instance, entry.role, &entry.topic, change);
            }
        }
        self.instances.insert(announcement.instance, instance);
    }

    pub(super) fn expire_of(&mut self, id: InstanceId, now: Instant, change: &mut Change) {
        let Some(mut instance) = self.instances.remove(&id) else {
            self.deadlines.retain(|&(_, of)| of != id);
            return;
        };
        if instance.expires_at <= now {
            self.instances.insert(id, instance);
            self.remove(id, change);
            self.counters.expired += 1;
            return;
        }
        for (role, topic) in instance.take_expired(now) {
            self.unlist(id, role, &topic, change);
        }
        self.deadlines.remove(&(instance.deadline, id));
        instance.deadline = instance.next_expiry();
        self.deadlines.insert((instance.deadline, id));
        self.instances.insert(id, instance);
    }

    /// Forgets an instance but for its last words.
    pub(super) fn remove(&mut self, id: InstanceId, change: &mut Change) {
        let Some(instance) = self.instances.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(instance.deadline, id));
        if self.by_data.get(&instance.data) == Some(&id) {
            self.by_data.remove(&instance.data);
        }
        for (role, topic) in instance.topics() {
            self.unlist(id, role, topic, change);
        }
        self.departed.put(id, instance.sequence);
        change.gone.push(id);
    }

    pub(super) fn unlist(
        &mut self,
        id: InstanceId,
        role: Role,
        topic: &TopicName,
        change: &mut Change,
    ) {
        self.entries -= 1;
        change.note(role, topic);
        if let Some(users) = self.by_topic.get_mut(topic) {
            users.of_mut(role).remove(&id);
            if users.publishers.is_empty() && users.subscribers.is_empty() {
                self.by_topic.remove(topic);
            }
        }
    }
}
