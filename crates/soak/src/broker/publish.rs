//! Publish commands into topics (`broker/reactor/{publish,held}.rs`).

use std::time::Duration;

use link::Durability;
use topics::{Arrival, Published, Source, TopicKey, WaitingPublisher};
use wire::ProtocolError;

use super::ground::Ground;
use super::session::Sessions;
use super::waiters::{Waiter, Who};
use crate::event::StreamId;
use crate::laws::delivery::Key;
use crate::outside::Outside;

/// Waits shorter than this are not worth a frame.
const THROTTLED_MIN: Duration = Duration::from_millis(10);

impl Sessions {
    /// Whether the command is done; otherwise its connection is held at the topic.
    pub(super) fn publish<'a>(
        &mut self,
        stream: StreamId,
        topic: &str,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        ground: &mut Ground,
        out: &mut Outside,
    ) -> bool {
        let now = ground.local(out.net.now);
        let arrival = Arrival {
            at: now,
            wall_ns: out.net.now.as_nanos().cast_signed(),
            read: now,
            half_rtt_us: 0,
            flow: stream.0 as u32 | 1,
        };
        let Ok(key) = ground.table.find_or_create(topic) else {
            self.refuse(stream, "no room for the topic");
            return true;
        };
        if ground.table.has_waiting(key) && !self.is_resuming {
            self.hold(stream, key, ground);
            return false;
        }
        let mut outcome = ground
            .table
            .publish(key, bodies.clone(), arrival, Duration::ZERO);
        if outcome == Published::Full {
            self.serve(key, super::TURN_MESSAGES_MAX, ground, out);
            outcome = ground
                .table
                .publish(key, bodies.clone(), arrival, Duration::ZERO);
        }
        match outcome {
            Published::Accepted => {
                self.take_note(stream, (key, topic), bodies.clone(), &arrival, ground, out);
                self.accept(stream, bodies.count() as u32);
                true
            }
            Published::Logged(number) => {
                self.take_note(stream, (key, topic), bodies.clone(), &arrival, ground, out);
                let waiter = Waiter {
                    who: Who::Publisher(stream, bodies.clone().count() as u32),
                    keys: bodies.filter_map(Key::of).collect(),
                    is_synced: ground.durability(key) == Durability::Fsync,
                };
                ground.waiters.push(key, number, waiter);
                true
            }
            Published::Full => {
                self.hold(stream, key, ground);
                false
            }
            Published::Refused(reason) => {
                self.refuse(stream, &reason);
                true
            }
            Published::Gone => {
                self.refuse(stream, "exiting");
                true
            }
        }
    }

    /// A topic has taken what a connection published.
    fn take_note<'a>(
        &mut self,
        stream: StreamId,
        (key, topic): (TopicKey, &str),
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        arrival: &Arrival,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        let messages = bodies.clone().count() as u32;
        let Some(session) = self.all.get_mut(&stream) else {
            return;
        };
        let name = session.name.clone();
        let is_declared = name
            .as_ref()
            .is_some_and(|name| name.topic.as_str() == topic);
        let source = Source {
            reactor: 0,
            connection: stream.0,
            is_declared,
        };
        let id = || {
            name.as_ref()
                .map_or_else(String::new, |name| name.id.clone())
        };
        ground.table.note_source(key, source, messages, arrival, id);
        let wait = ground.table.expected_wait(key, arrival.read);
        if is_declared && wait >= THROTTLED_MIN {
            let wait_us = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
            wire::put_throttled(&mut session.output, topic, wait_us);
        }
        for body in bodies {
            if let Some(message) = Key::of(body) {
                let memory = ground.memory();
                let accepted = out.books.deliveries.accepted(message, memory);
                out.books.check("deliveries", accepted);
            }
        }
    }

    /// So many messages of a publisher are as safe as they are to be.
    pub(super) fn accept(&mut self, stream: StreamId, messages: u32) {
        let Some(session) = self.all.get_mut(&stream) else {
            return;
        };
        match session.terms.acks {
            None => session.output.extend(wire::OK_FRAME),
            Some(_) => session.accepted += u64::from(messages),
        }
    }

    fn hold(&mut self, stream: StreamId, key: TopicKey, ground: &mut Ground) {
        if let Some(session) = self.all.get_mut(&stream) {
            session.is_held = true;
            ground
                .table
                .hold(key, WaitingPublisher(stream.0), self.is_resuming);
        }
    }

    fn refuse(&mut self, stream: StreamId, reason: &str) {
        if let Some(session) = self.all.get_mut(&stream) {
            wire::put_error(&mut session.output, &ProtocolError::pub_failed(reason));
        }
    }

    /// Lets publishers go on that were held at topics with room again.
    pub(super) fn resume_held(&mut self, ground: &mut Ground, out: &mut Outside) {
        for key in std::mem::take(&mut ground.table.effects.roomy) {
            self.is_resuming = true;
            while let Some(WaitingPublisher(bits)) = ground.table.pop_waiting(key) {
                let stream = StreamId(bits);
                self.let_go_on(stream, ground, out);
                let session = self.all.get(&stream);
                if session.is_some_and(|session| session.is_held) {
                    break;
                }
            }
            self.is_resuming = false;
        }
    }

    /// A publisher may be read from again.
    pub(super) fn let_go_on(&mut self, stream: StreamId, ground: &mut Ground, out: &mut Outside) {
        if let Some(session) = self.all.get_mut(&stream) {
            session.is_held = false;
            self.read(stream, ground, out);
        }
    }
}
