//! Bytes in: one receive per readiness, then every command that is complete.
//!
//! Whole commands are parsed where they were received, in one buffer that all connections of the
//! reactor share. Only a command cut in two is copied, into a buffer lent to its connection.

use std::io;
use std::sync::Arc;

use super::schedule::Readiness;
use super::{READ_BYTES, Reactor};
use crate::config::ArrivalClock;
use crate::connection::{Connection, ConnectionKey, Pause};
use crate::session::{Next, Reading};
use crate::transport::Received;

/// The most that one receive takes while topics compete, in bytes.
const READ_SHARED_BYTES: usize = 4 * 1024;

/// An input buffer beyond this is given back when what it was for is over.
const LARGE_INPUT_BYTES: usize = 64 * 1024;

/// What follows from a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Go on with the next one.
    Next,
    /// It is being executed elsewhere: read no further until it is.
    Pause,
    /// This one cannot be executed now: keep it, read no further.
    Wait,
    /// The connection lingers, is closed, or has moved: its bytes are of no more use.
    End,
    /// Move the connection with this command to another reactor.
    HandOver(usize),
}

impl Reactor {
    pub(super) fn read(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        if connection.pause != Pause::No {
            // Not watched for reading, so this is the peer's reset.
            self.hall()
                .close(key, "the peer reset it while it was held back");
            return;
        }
        if connection.input.is_empty() {
            self.read_in_place(key);
        } else {
            let needed = connection.needed;
            if self.peers.may_read_behind(key, needed) {
                self.read_behind(key, needed);
            }
        }
    }

    /// Executes what `input` holds already, for a connection that has been let go on.
    pub(super) fn reconsider(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let input = std::mem::take(&mut connection.input);
        if input.is_empty() {
            self.peers.return_input(input);
            self.peers.charge_input(key, 0);
        } else {
            self.execute_and_keep(key, input, 0);
        }
    }

    fn read_in_place(&mut self, key: ConnectionKey) {
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let most = self.read_bytes_max();
        if let Some(count) = self.receive(key, &mut buffer[..most]) {
            let used = self.execute_all(key, &buffer[..count]);
            if used < count {
                let mut input = self.peers.lend_input();
                input.extend_from_slice(&buffer[used..count]);
                self.keep(key, count, used, input);
            } else {
                self.keep(key, count, used, Vec::new());
            }
        }
        self.read_buffer = buffer;
    }

    fn read_behind(&mut self, key: ConnectionKey, needed: usize) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        let held = input.len();
        // Room for the rest of a large command at once, yet never more than one read's worth
        // beyond it: the decoder has checked `needed` against the size limits.
        let room = needed
            .saturating_sub(held)
            .clamp(self.read_bytes_max() / 4, 16 * READ_BYTES);
        input.reserve_exact(needed.saturating_sub(held).max(room));
        input.resize(held + room, 0);
        match self.receive(key, &mut input[held..]) {
            Some(count) => {
                input.truncate(held + count);
                self.execute_and_keep(key, input, count);
            }
            None => {
                input.truncate(held);
                if let Some(connection) = self.peers.connections.get_mut(key) {
                    connection.input = input;
                }
                self.peers.charge_input(key, 0);
            }
        }
    }

    fn execute_and_keep(&mut self, key: ConnectionKey, mut input: Vec<u8>, came: usize) {
        let used = self.execute_all(key, &input);
        input.drain(..used);
        self.keep(key, came, used, input);
    }

    /// Puts what is left of the input back to its connection, if that is still here, after `came` bytes were read and `used`
    /// executed.
    fn keep(&mut self, key: ConnectionKey, came: usize, used: usize, mut input: Vec<u8>) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            self.peers.return_input(input);
            return;
        };
        if connection.is_lingering {
            self.peers.return_input(input);
            self.peers.charge_input(key, used);
            return;
        }
        connection.arrivals.consume(used);
        let needed = input.len().max(connection.needed);
        if input.capacity() > LARGE_INPUT_BYTES && needed < input.capacity() / 4 {
            // A large command is over; what begins behind it needs no such room.
            input.shrink_to(needed);
        }
        if input.is_empty() {
            if connection.has_cut_input {
                connection.arriving = None;
            }
            self.peers.return_input(input);
        } else {
            connection.input = input;
            connection.note_arriving(came, used, self.time.now);
        }
        self.peers.charge_input(key, used);
        if let Some(home) = self.moving.take() {
            self.hall().hand_over(key, home);
        }
    }

    /// What one receive takes at most: while topics compete, what is executed in about the time of a slice.
    pub(super) fn read_bytes_max(&self) -> usize {
        // What is cut off at its end is kept: little, where there is hardly memory.
        match self.topics.schedule.is_shared(self.time.now) || self.peers.is_input_tight() {
            true => READ_SHARED_BYTES,
            false => READ_BYTES,
        }
    }

    /// One receive. `None` where nothing came or the connection is gone.
    fn receive(&mut self, key: ConnectionKey, buffer: &mut [u8]) -> Option<usize> {
        let connection = self.peers.connections.get_mut(key)?;
        let stamped = self.shared.config.arrival_clock == ArrivalClock::Kernel
            && connection.subscriptions.is_empty();
        let received = connection.transport.receive(buffer, stamped);
        if connection.transport.wants_to_send() {
            self.peers.mark_dirty(key);
        }
        match received {
            Ok(Received { bytes: 0, .. }) => {
                self.hall().close(key, "the peer closed it");
                None
            }
            Ok(received) => {
                if received.is_more {
                    self.topics.schedule.notice(key, Readiness::READABLE);
                }
                self.time.resting.received(received.bytes);
                self.stamp(key, received);
                Some(received.bytes)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                None
            }
            Err(error) => {
                self.hall().close(key, &error.to_string());
                None
            }
        }
    }

    /// Notes when the bytes of a receive arrived.
    fn stamp(&mut self, key: ConnectionKey, received: Received) {
        self.time.receive();
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let stamp = self
            .time
            .arrival_of(received.stamp, connection.last_arrival);
        connection.last_arrival = stamp.at;
        connection.last_read = self.time.now;
        connection.arrivals.push(received.bytes, stamp);
    }

    /// Executes every complete command of `bytes`; gives how many bytes they took.
    fn execute_all(&mut self, key: ConnectionKey, bytes: &[u8]) -> usize {
        let (mut used, mut identifiers) = (0, None);
        while used < bytes.len() {
            let Some(connection) = self.peers.connections.get_mut(key) else {
                return bytes.len();
            };
            if connection.is_lingering {
                return bytes.len();
            }
            if connection.is_over_full(self.peers.memory.output_full_bytes) {
                match self.hall().write(|writer| writer.relieve(key)) {
                    // It may be gone.
                    true => continue,
                    false => return used,
                }
            }
            let Connection {
                session, output, ..
            } = connection;
            if identifiers.is_none() && session.uses_identifiers() {
                identifiers = Some(Arc::clone(&self.topics.identifiers));
            }
            let reading = Reading {
                limits: &self.limits,
                server: &self.server,
                identifiers: identifiers.as_deref(),
                now: self.time.now,
            };
            match session.next(&bytes[used..], output, &reading) {
                Ok(Next::Act { act, used: length }) => {
                    let stamp = connection.arrivals.stamp(used + length);
                    match self.execute(key, act, stamp) {
                        Flow::Next => used += length,
                        Flow::Pause => return used + length,
                        Flow::Wait => return used,
                        Flow::End => return bytes.len(),
                        Flow::HandOver(home) => {
                            self.moving = Some(home);
                            return used;
                        }
                    }
                }
                Ok(Next::Incomplete { needed }) => {
                    connection.needed = needed;
                    return used;
                }
                Ok(Next::Greeting) => match self.hall().greet(key, &bytes[used..]) {
                    Ok(0) => return used,
                    Ok(magic) => used += magic,
                    Err(()) => return bytes.len(),
                },
                Err(failure) => {
                    self.hall().fail(key, &failure);
                    return bytes.len();
                }
            }
        }
        used
    }
}
