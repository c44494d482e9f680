//! Answers and notices to peers: sessions encode them, and they are written when the turn ends.

use std::time::Duration;

use clock::Instant;

use super::Peers;
use crate::connection::{Connection, ConnectionKey, SubscriptionNumber};
use crate::session::{Acknowledged, Aftermath, Failure, Message};

impl Peers {
    /// Puts a connection among those that are flushed when the turn ends.
    pub(in crate::reactor) fn mark_dirty(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get_mut(key)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Has the session of a connection say something, behind what it owes.
    pub(in crate::reactor) fn say<T>(
        &mut self,
        key: ConnectionKey,
        now: Instant,
        say: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        self.owe_nothing(key, now);
        let said = self.connections.get_mut(key).map(say)?;
        self.mark_dirty(key);
        Some(said)
    }

    /// Has the session of a connection put a message into its output; says whether there is room for another.
    #[inline(always)]
    pub(in crate::reactor) fn deliver(
        &mut self,
        key: ConnectionKey,
        message: Message<'_>,
        now: Instant,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        if connection.output.wants_buffer()
            && let Some(buffer) = self.spare_outputs.pop()
        {
            connection.output.lend(buffer);
        }
        let Connection {
            session, output, ..
        } = connection;
        session.deliver(message, output, now);
        if !connection.dirty {
            connection.dirty = true;
            self.dirty_consumers.push(key);
        }
        let has_room = !connection.output.is_full(self.memory.output_full_bytes);
        connection.output.is_refusing |= !has_room;
        has_room
    }

    /// Tells a peer that a subscription of its has begun.
    pub(in crate::reactor) fn tell_subscribed(
        &mut self,
        key: ConnectionKey,
        number: SubscriptionNumber,
        now: Instant,
    ) {
        self.say(key, now, |connection| {
            let output = &mut connection.output;
            connection.session.tell_subscribed(number, output);
        });
    }

    /// Puts a heartbeat into an output, to be written in the turn of the connection's task.
    pub(in crate::reactor) fn put_heartbeat(&mut self, key: ConnectionKey, now: Instant) {
        self.owe_nothing(key, now);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.session.put_heartbeat(&mut connection.output);
        }
    }

    /// Tells a peer what went wrong; returns the fate of its connection, `None` where that is gone.
    pub(in crate::reactor) fn tell_failure(
        &mut self,
        key: ConnectionKey,
        failure: &Failure,
        now: Instant,
    ) -> Option<Aftermath> {
        self.say(key, now, |connection| {
            tracing::debug!("{}: {failure}", connection.peer);
            let output = &mut connection.output;
            connection.session.tell_failure(failure, output)
        })
    }

    /// Counts accepted messages of a connection: what is owed for them its session knows.
    pub(in crate::reactor) fn acknowledge(
        &mut self,
        key: ConnectionKey,
        messages: u32,
        now: Instant,
    ) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        match connection.session.accept(messages, now) {
            Acknowledged::Now => self.mark_dirty(key),
            Acknowledged::At(due) => self.push_due(due, key),
            Acknowledged::Later | Acknowledged::Never => {}
        }
    }

    /// Makes an acknowledgement due now, because the connection or the broker comes to its end.
    pub(in crate::reactor) fn hasten_ack(&mut self, key: ConnectionKey, now: Instant) {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.session.hasten(now)
        {
            self.mark_dirty(key);
        }
    }

    /// Puts what is owed into the output, so that what follows comes after it.
    pub(in crate::reactor) fn owe_nothing(&mut self, key: ConnectionKey, now: Instant) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.session.settle(&mut connection.output, now);
        }
    }

    /// Tells a publisher that its messages wait, unless it was told within the last second.
    pub(in crate::reactor) fn send_throttled(
        &mut self,
        key: ConnectionKey,
        wait: Duration,
        now: Instant,
    ) {
        let full_bytes = self.memory.output_full_bytes;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let is_full = connection.output.is_full(full_bytes);
        let Some(declared) = connection.declared.as_mut().filter(|_| !is_full) else {
            return;
        };
        if !declared.may_be_told(now) {
            return;
        }
        let topic = declared.topic.clone();
        let wait_us = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
        let said = self.say(key, now, |connection| {
            let output = &mut connection.output;
            connection.session.tell_throttled(&topic, wait_us, output)
        });
        self.counters.throttled_sent += u64::from(said == Some(true));
    }
}
