//! Taking an announcement: whether it is new, whether there is room, and its content.

use core::net::SocketAddr;

use clock::Instant;
use wire::announce::{Announcement, Entry, InstanceId};

use super::instance::{Instance, Line};
use super::{Change, Directory};
use crate::Refused;

impl Directory {
    pub(super) fn refuse_replayed(&mut self, announcement: &Announcement) -> Result<(), Refused> {
        let latest = match self.instances.get(&announcement.instance) {
            Some(instance) => Some(instance.sequence),
            None => self.departed.of(announcement.instance),
        };
        match latest {
            Some(latest) if !is_newer(announcement.sequence, latest) => {
                self.counters.replayed += 1;
                Err(Refused::Replayed {
                    instance: announcement.instance,
                    sequence: announcement.sequence,
                    latest,
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn make_room(&mut self, instance: InstanceId, now: Instant) -> Result<(), Refused> {
        let instances_max = self.config.instances_max;
        if self.instances.len() < instances_max || self.instances.contains_key(&instance) {
            return Ok(());
        }
        let expired = self.expire(now);
        self.untold.merge(expired);
        if self.instances.len() < instances_max {
            return Ok(());
        }
        self.counters.refused_full += 1;
        Err(Refused::Full { instances_max })
    }

    pub(super) fn refresh(
        &mut self,
        announcement: &Announcement,
        from: SocketAddr,
        now: Instant,
        change: &mut Change,
    ) {
        let data = resolved(announcement.data, from);
        self.replace_former(announcement.instance, data, change);
        let (mut instance, is_new) = match self.instances.remove(&announcement.instance) {
            Some(instance) => (instance, false),
            None => (Instance::new(announcement, data, from), true),
        };
        change.is_new |= is_new;
        if !is_new {
            self.deadlines
                .remove(&(instance.deadline, announcement.instance));
            if instance.data != data
                && self.by_data.get(&instance.data) == Some(&announcement.instance)
            {
                self.by_data.remove(&instance.data);
            }
            if instance.speaks_otherwise(announcement, data, from) {
                instance
                    .topics()
                    .for_each(|(role, topic)| change.note(role, topic));
            }
        }
        if data.port() != 0 {
            self.by_data.insert(data, announcement.instance);
        }
        let expires_at = instance.hear(announcement, data, from, now);
        for entry in &announcement.entries {
            self.hear_entry(
                &mut instance,
                announcement.instance,
                entry,
                expires_at,
                change,
            );
        }
        instance.deadline = instance.next_expiry();
        self.deadlines
            .insert((instance.deadline, announcement.instance));
        self.instances.insert(announcement.instance, instance);
    }

    fn hear_entry(
        &mut self,
        instance: &mut Instance,
        id: InstanceId,
        entry: &Entry,
        expires_at: Instant,
        change: &mut Change,
    ) {
        let line = Line {
            id: entry.id,
            held: entry.held,
            expires_at,
        };
        if let Some(present) = instance.lines.of_mut(entry.role).get_mut(&entry.topic) {
            if (present.id, present.held) != (line.id, line.held) {
                change.note(entry.role, &entry.topic);
            }
            *present = line;
            return;
        }
        let is_full = self.entries >= self.config.entries_max
            || instance.entries() >= self.config.entries_per_instance_max;
        if is_full {
            self.counters.entries_refused += 1;
            return;
        }
        self.entries += 1;
        let lines = instance.lines.of_mut(entry.role);
        lines.insert(entry.topic.clone(), line);
        let users = self.by_topic.entry(entry.topic.clone()).or_default();
        users.of_mut(entry.role).insert(id);
        change.note(entry.role, &entry.topic);
    }

    /// Removes the instance that had the address of `instance` before: two cannot listen at one address, and the one heard later
    /// is alive.
    fn replace_former(&mut self, instance: InstanceId, data: SocketAddr, change: &mut Change) {
        if let Some(&former) = self.by_data.get(&data)
            && former != instance
        {
            self.remove(former, change);
            self.counters.replaced += 1;
        }
    }
}

/// Whether `sequence` is newer than `than`. Numbers wrap around: a newer one is less than half of all numbers ahead (RFC 1982).
fn is_newer(sequence: u32, than: u32) -> bool {
    sequence.wrapping_sub(than).cast_signed() > 0
}

fn resolved(data: SocketAddr, from: SocketAddr) -> SocketAddr {
    if data.ip().is_unspecified() {
        SocketAddr::new(from.ip(), data.port())
    } else {
        data
    }
}
