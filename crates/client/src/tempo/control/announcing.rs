//! This endpoint's announcements: what, when, and to whom.

use clock::Instant;
use wire::announce::{Announcement, Entry, Role};

use super::State;

impl State {
    /// Says what is due, with each publication's present part of its limit.
    pub(super) fn announce(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_stale) {
            self.refresh_entries(now);
        }
        if self.announcer.next_due() > now {
            return;
        }
        self.reckon_all(now);
        for member in self.publications.values() {
            member.outbox.with_part(|part| part.announced(now));
        }
        self.is_stale = false;
        self.refresh_entries(now);
        if let Some(said) = self.announcer.due(now) {
            self.send(&said);
        }
    }

    /// Leaves: announces it, and gives everything up.
    pub(in crate::tempo) fn leave(&mut self) {
        if self.has_left {
            return;
        }
        let said = self.announcer.leave();
        self.send(&said);
        self.has_left = true;
        if let Some((_, alarm)) = self.alarm.take() {
            self.poller.call_off(alarm);
        }
    }

    /// Makes the entries anew; where they differ they are announced soon.
    pub(super) fn refresh_entries(&mut self, now: Instant) {
        let mut entries = Vec::with_capacity(self.publications.len() + self.subscriptions.len());
        for (topic, member) in &self.publications {
            entries.push(Entry {
                role: Role::Publisher,
                id: self.names.id_of(topic),
                topic: topic.clone(),
                held: member.outbox.with_part(|part| part.held(now)),
            });
        }
        for topic in self.subscriptions.keys() {
            entries.push(Entry {
                role: Role::Subscriber,
                id: self.names.id_of(topic),
                topic: topic.clone(),
                held: None,
            });
        }
        self.announcer.set_entries(entries, now);
    }

    /// Has the task called when something is due next.
    pub(super) fn set_alarm(&mut self, now: Instant) {
        let mut due = self.announcer.next_due();
        if let Some(expiry) = self.directory.next_expiry() {
            due = due.min(expiry);
        }
        for member in self.publications.values() {
            let next = member.outbox.with_part(|part| part.next_change(now));
            due = due.min(next.flatten().unwrap_or(due));
        }
        match self.alarm {
            Some((set_for, _)) if set_for == due && due > now => return,
            Some((_, alarm)) => self.poller.call_off(alarm),
            None => {}
        }
        let target = std::sync::Arc::clone(&self.inbox);
        self.alarm = Some((due, self.poller.set_alarm(due, target, 0)));
    }

    fn send(&mut self, said: &[Announcement]) {
        let mut datagram = Vec::new();
        for announcement in said {
            datagram.clear();
            announcement.encode(self.options.key.as_ref(), &mut datagram);
            for (_, way) in &self.ways {
                // It is said again in an interval; until then it counts as lost.
                if way.socket.send_to(&datagram, way.towards).is_err() {
                    self.counts.unsent += 1;
                }
            }
        }
    }
}
