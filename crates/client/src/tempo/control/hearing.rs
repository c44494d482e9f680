//! Announcements of others: from the datagram to the changes that follow.

use std::io;

use announce::{Change, HEARD_BEFORE_FORGETTING, Heard};
use clock::Instant;
use wire::TopicName;
use wire::announce::{Announcement, MAX_DATAGRAM_BYTES, TopicId};
use wire::tempo::decode_datagram;

use super::{State, TAKEN_PER_TURN, WAYS};
use crate::tempo::subscription;

/// Longest datagram there is.
const DATAGRAM_BYTES: usize = 65_536;

impl State {
    /// Takes announcements from one of the channel's sockets.
    pub(super) fn hear(&mut self, key: u32, now: Instant) {
        let way = (key - WAYS) as usize;
        let Some((watching, _)) = self.ways.get(way) else {
            return;
        };
        watching.look();
        if !self.hear_all(way, TAKEN_PER_TURN, now) {
            self.ways[way].0.tell_again();
        }
    }

    /// Forgets endpoints that have been silent for too long. Datagrams that have arrived but not
    /// been read are heard first: this task, or the whole process, may have been kept from running
    /// for longer than announcements hold.
    pub(super) fn forget(&mut self, now: Instant) {
        if self.directory.next_expiry().is_some_and(|at| at <= now) {
            for way in 0..self.ways.len() {
                // Where there is more, the socket's own event takes it.
                let _is_all = self.hear_all(way, HEARD_BEFORE_FORGETTING, now);
            }
        }
        let change = self.directory.expire(now);
        self.apply(&change, now);
    }

    /// Takes announcements that wait in a socket, at most `at_most`; returns whether those were
    /// all.
    fn hear_all(&mut self, way: usize, at_most: usize, now: Instant) -> bool {
        // One byte more than an announcement has: what fills it is none.
        let mut datagram = [0; MAX_DATAGRAM_BYTES + 1];
        for _ in 0..at_most {
            let (bytes, from) = match self.ways[way].1.socket.recv_from(&mut datagram) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // What was sent before found nobody.
                Err(_) => continue,
            };
            match Announcement::decode(&datagram[..bytes], self.options.key.as_ref()) {
                Ok(announcement) => {
                    if let Ok(change) = self.directory.hear(&announcement, from, now) {
                        self.name(&announcement, now);
                        self.apply(&change, now);
                    }
                }
                Err(error) => self.directory.note_undecodable(&error),
            }
        }
        false
    }

    /// Takes note of the identifiers that others use.
    fn name(&mut self, announcement: &Announcement, now: Instant) {
        if announcement.is_leaving {
            return;
        }
        for entry in &announcement.entries {
            match self.names.hear(&entry.topic, entry.id) {
                Heard::Behind | Heard::Collision { .. } => self.announcer.answer(1, now),
                Heard::Known | Heard::Learnt | Heard::Foreign | Heard::Full => {}
            }
        }
        self.renumber(now);
    }

    /// Follows where identifiers have changed.
    fn renumber(&mut self, now: Instant) {
        if self.names.generation() != self.generation {
            self.generation = self.names.generation();
            self.identify_all();
            self.refresh_entries(now);
        }
    }

    /// Does what follows from what was heard or forgotten.
    pub(super) fn apply(&mut self, change: &Change, now: Instant) {
        if change.is_empty() {
            return;
        }
        if change.is_new {
            self.announcer.answer(self.directory.instances(), now);
        }
        for topic in change.subscribers.union(&change.publishers) {
            self.route_anew(topic, now);
            self.forget_unless_used(topic);
        }
    }

    /// Takes an identifier that the name service gave out.
    pub(in crate::tempo) fn assign(&mut self, topic: &TopicName, id: TopicId, now: Instant) {
        if self.names.assign(topic, id).is_err() {
            self.counts.assignments_refused += 1;
        }
        self.renumber(now);
        self.forget_unless_used(topic);
    }

    /// Takes messages that come as datagrams to their subscriptions.
    pub(super) fn take_datagrams(&mut self) {
        let Some((watching, socket)) = &self.datagrams else {
            return;
        };
        watching.look();
        let mut datagram = vec![0; DATAGRAM_BYTES];
        for _ in 0..TAKEN_PER_TURN {
            let bytes = match socket.recv_from(&mut datagram) {
                Ok((bytes, _)) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let member = decode_datagram(&datagram[..bytes], self.options.body_bytes_max)
                .ok()
                .and_then(|(id, body)| Some((self.listening.get(&id)?, body)))
                .and_then(|(topic, body)| Some((self.subscriptions.get(topic)?, body)));
            let Some((member, body)) = member else {
                self.counts.unknown += 1;
                continue;
            };
            if member.tally.may_queue() {
                member.inbox.put(subscription::Event::Datagram(body.into()));
            } else {
                self.counts.datagrams_dropped += 1;
                member.inbox.note_full();
            }
        }
        watching.tell_again();
    }
}
