//! Bytes in: one receive per readiness, then every command that is complete.
//!
//! Whole commands are parsed where they were received, in one buffer that all connections of the
//! reactor share. Only a command cut in two is copied, into a buffer lent to its connection.

use std::io;

use wire::identify::ServerLimits;

use super::execute::Executed;
use super::hall::Hall;
use super::layers;
use super::relay::Relay;
use super::schedule::Readiness;
use super::strangers::{self, STRANGER_INPUT_BYTES};
use crate::auth::AuthTerms;
use crate::config::{ArrivalClock, Config};
use crate::connection::{ConnectionKey, Pause};
use crate::session::LayersWanted;
use crate::transport::Received;

/// The most that one receive takes, in bytes; the rest comes with the next turn.
const READ_BYTES: usize = 64 * 1024;

/// The most that one receive takes while topics compete, in bytes.
const READ_SHARED_BYTES: usize = 4 * 1024;

/// An input buffer beyond this is given back when what it was for is over.
const LARGE_INPUT_BYTES: usize = 64 * 1024;

/// The means by which all connections of a reactor are read.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) limits: wire::Limits,
    pub(super) server: ServerLimits,
    /// By what NSQ's clients are let in; `None`: everybody is.
    pub(super) auth: Option<AuthTerms>,
    /// What a receive puts its bytes into.
    buffer: Vec<u8>,
    /// The layers that the connection whose command is executed is to get.
    pub(super) upgrading: Option<LayersWanted>,
}

/// Reads from connections and executes what they say (`execute.rs`).
pub(super) struct Reader<'a> {
    pub(super) relay: Relay<'a>,
    pub(super) intake: &'a mut Intake,
}

impl Intake {
    /// As `config` says what peers may send.
    pub(super) fn new(config: &Config) -> Intake {
        Intake {
            limits: config.wire_limits(),
            server: config.server_limits(),
            auth: config.auth_terms(),
            buffer: vec![0; READ_BYTES],
            upgrading: None,
        }
    }
}

/// The most that one receive takes: while topics compete, as much as is executed in about the time
/// of a slice.
pub(super) fn read_bytes_max(hall: &Hall) -> usize {
    // What is cut off at its end is kept: little, where there is hardly memory.
    match hall.topics.schedule.is_shared(hall.time.now) || hall.peers.is_input_tight() {
        true => READ_SHARED_BYTES,
        false => READ_BYTES,
    }
}

impl Reader<'_> {
    /// Reads once, and executes what is complete.
    pub(super) fn read(&mut self, key: ConnectionKey) {
        let Some(connection) = self.relay.hall.peers.connections.get_mut(key) else {
            return;
        };
        if connection.pause != Pause::No {
            // Not watched for reading, so this is the peer's reset.
            self.relay
                .hall
                .close(key, "the peer reset it while it was held back");
            return;
        }
        let (needed, is_stranger) = (connection.needed, connection.is_stranger);
        if connection.input.is_empty() {
            let most = read_bytes_max(self.relay.hall);
            let most = match is_stranger {
                true => most.min(STRANGER_INPUT_BYTES),
                false => most,
            };
            return self.read_in_place(key, most);
        }
        let hall = &mut *self.relay.hall;
        let may_read = match is_stranger {
            true => strangers::may_read_behind(hall, key, needed),
            false => hall.peers.may_read_behind(key, needed),
        };
        if may_read {
            self.read_behind(key, needed);
        }
    }

    /// Executes what `input` holds already, for a connection that has been let go on.
    pub(super) fn reconsider(&mut self, key: ConnectionKey) {
        let Some(connection) = self.relay.hall.peers.connections.get_mut(key) else {
            return;
        };
        let input = std::mem::take(&mut connection.input);
        if input.is_empty() {
            self.relay.hall.peers.return_input(input);
            self.relay.hall.peers.charge_input(key, 0);
        } else {
            self.execute_and_keep(key, input, 0);
        }
    }

    fn read_in_place(&mut self, key: ConnectionKey, most: usize) {
        let mut buffer = std::mem::take(&mut self.intake.buffer);
        if let Some(count) = receive(self.relay.hall, key, &mut buffer[..most]) {
            let executed = self.execute_all(key, &buffer[..count]);
            let rest = &buffer[executed.bytes..count];
            if rest.is_empty() {
                keep(self.relay.hall, key, count, executed, Vec::new());
            } else {
                let mut input = self.relay.hall.peers.lend_input();
                input.extend_from_slice(rest);
                keep(self.relay.hall, key, count, executed, input);
            }
        }
        self.intake.buffer = buffer;
    }

    fn read_behind(&mut self, key: ConnectionKey, needed: usize) {
        let Some(connection) = self.relay.hall.peers.connections.get_mut(key) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        let held = input.len();
        // Room for the rest of a large command at once, yet never more than one read's worth
        // beyond it: the decoder has checked `needed` against the size limits.
        let room = needed
            .saturating_sub(held)
            .clamp(read_bytes_max(self.relay.hall) / 4, 16 * READ_BYTES);
        input.reserve_exact(needed.saturating_sub(held).max(room));
        input.resize(held + room, 0);
        match receive(self.relay.hall, key, &mut input[held..]) {
            Some(count) => {
                input.truncate(held + count);
                self.execute_and_keep(key, input, count);
            }
            None => {
                input.truncate(held);
                if let Some(connection) = self.relay.hall.peers.connections.get_mut(key) {
                    connection.input = input;
                }
                self.relay.hall.peers.charge_input(key, 0);
            }
        }
    }

    fn execute_and_keep(&mut self, key: ConnectionKey, mut input: Vec<u8>, came: usize) {
        let executed = self.execute_all(key, &input);
        input.drain(..executed.bytes);
        keep(self.relay.hall, key, came, executed, input);
    }
}

/// Puts what is left of the input back to its connection, if that is still here, after `came` bytes were read and some
/// executed.
fn keep(hall: &mut Hall, key: ConnectionKey, came: usize, executed: Executed, mut input: Vec<u8>) {
    let used = executed.bytes;
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        hall.peers.return_input(input);
        return;
    };
    if connection.is_lingering {
        hall.peers.return_input(input);
        hall.peers.charge_input(key, used);
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
        hall.peers.return_input(input);
    } else {
        connection.input = input;
        connection.note_arriving(came, used, hall.time.now);
    }
    hall.peers.charge_input(key, used);
    if let Some(home) = executed.moves_to {
        hall.hand_over(key, home);
    }
}

/// One receive. `None` where nothing came or the connection is gone.
fn receive(hall: &mut Hall, key: ConnectionKey, buffer: &mut [u8]) -> Option<usize> {
    let connection = hall.peers.connections.get_mut(key)?;
    let stamped = hall.shared.config.arrival_clock == ArrivalClock::Kernel
        && connection.subscriptions.is_empty();
    let received = connection.transport.receive(buffer, stamped);
    let is_ending = connection.is_ending;
    if connection.transport.wants_to_send() {
        hall.peers.mark_dirty(key);
    }
    match received {
        Ok(Received { bytes: 0, .. }) => {
            hall.close(key, "the peer closed it");
            None
        }
        Ok(received) => {
            if received.is_more || is_ending {
                hall.topics.schedule.notice(key, Readiness::READABLE);
            }
            hall.time.resting.received(received.bytes);
            stamp(hall, key, received);
            Some(received.bytes)
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            layers::receive_later(hall, key, error.kind());
            None
        }
        Err(error) => {
            hall.close(key, &error.to_string());
            None
        }
    }
}

/// Notes when the bytes of a receive arrived.
fn stamp(hall: &mut Hall, key: ConnectionKey, received: Received) {
    hall.time.receive(received.stamp);
    let Some(connection) = hall.peers.connections.get_mut(key) else {
        return;
    };
    let stamp = hall
        .time
        .arrival_of(received.stamp, connection.last_arrival);
    connection.last_arrival = stamp.at;
    connection.last_read = hall.time.now;
    connection.arrivals.push(received.bytes, stamp);
}
