//! What is said to peers: frames are gathered, and written when the turn ends.

use std::time::Duration;

use clock::Instant;
use wire::{OK_FRAME, ProtocolError};

use super::Peers;
use crate::connection::{ConnectionKey, Progress};

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

    /// Queues a response frame.
    pub(in crate::reactor) fn respond(&mut self, key: ConnectionKey, body: &[u8], now: Instant) {
        self.owe_nothing(key, now);
        if let Some(connection) = self.connections.get_mut(key) {
            wire::put_response(connection.output.bytes(), body);
            self.mark_dirty(key);
        }
    }

    /// Queues an error frame.
    pub(in crate::reactor) fn send_error(
        &mut self,
        key: ConnectionKey,
        error: &ProtocolError,
        now: Instant,
    ) {
        self.owe_nothing(key, now);
        if let Some(connection) = self.connections.get_mut(key) {
            tracing::debug!("{}: {error}", connection.peer);
            wire::put_error(connection.output.bytes(), error);
            self.mark_dirty(key);
        }
    }

    /// Counts accepted messages of a connection: an OK is owed, or a cumulative ack.
    pub(in crate::reactor) fn acknowledge(
        &mut self,
        key: ConnectionKey,
        messages: u32,
        now: Instant,
    ) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        match &mut connection.ack {
            None if connection.progress == Progress::Tempo => {}
            None => {
                connection.oks += 1;
                self.mark_dirty(key);
            }
            Some(ack) => {
                ack.accept(messages);
                if ack.is_due(now) {
                    self.mark_dirty(key);
                } else if let Some(due) = ack.begin_waiting(now) {
                    self.push_due(due, key);
                }
            }
        }
    }

    /// Makes a cumulative ack due now, because the connection or the broker comes to its end.
    pub(in crate::reactor) fn hasten_ack(&mut self, key: ConnectionKey, now: Instant) {
        if let Some(ack) = self
            .connections
            .get_mut(key)
            .and_then(|connection| connection.ack.as_mut())
        {
            ack.hasten(now);
            self.mark_dirty(key);
        }
    }

    /// Turns owed OKs and a due cumulative ack into frames, so that what follows comes after them.
    pub(in crate::reactor) fn owe_nothing(&mut self, key: ConnectionKey, now: Instant) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        for _ in 0..std::mem::take(&mut connection.oks) {
            connection.output.bytes().extend_from_slice(&OK_FRAME);
        }
        if let Some(number) = connection.ack.as_mut().and_then(|ack| ack.take(now)) {
            wire::put_ack(connection.output.bytes(), number);
        }
    }

    /// Queues a throttled frame, unless the publisher was told within the last second.
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
        let Some(announced) = connection.announced.as_mut().filter(|_| !is_full) else {
            return;
        };
        if !announced.may_be_told(now) {
            return;
        }
        let topic = announced.topic.clone();
        self.owe_nothing(key, now);
        if let Some(connection) = self.connections.get_mut(key) {
            let retry_after_us = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
            wire::put_throttled(connection.output.bytes(), topic.as_str(), retry_after_us);
            self.counters.throttled_sent += 1;
            self.mark_dirty(key);
        }
    }
}
