//! Bytes out: whatever has gathered for a peer leaves in one send.

use std::io;
use std::os::fd::AsFd;

use topics::{Delivery, Outlet, Probe, Stored};
use wire::announce::TopicId;
use wire::tempo;
use wire::{HEARTBEAT_FRAME, MESSAGE_HEADER_BYTES, MessageId, OK_FRAME};

use super::Reactor;
use super::peers::Peers;
use super::read::Flow;
use super::readiness::Readiness;
use crate::connection::{Connection, ConnectionKey, Pace, Pause, Probes, Progress};
use crate::sys::{self, Interest};

/// Large output buffers kept for the next consumer that needs one. Idle consumers hold none.
const SPARE_OUTPUTS: usize = 32;

/// OKs enough for most turns, ready to be sent.
static OK_FRAMES: [u8; OK_FRAME.len() * 64] = {
    let mut frames = [0; OK_FRAME.len() * 64];
    let mut at = 0;
    while at < frames.len() {
        frames[at] = OK_FRAME[at % OK_FRAME.len()];
        at += 1;
    }
    frames
};

/// The reactor's connections as the topics see them.
pub(super) struct Outputs<'a> {
    pub(super) peers: &'a mut Peers,
    pub(super) with_arrivals: bool,
    pub(super) now: clock::Instant,
}

impl Outlet for Outputs<'_> {
    fn deliver(&mut self, connection: u64, delivery: Delivery<'_>) -> bool {
        let key = ConnectionKey::from_bits(connection);
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return false;
        };
        if connection.output.wants_buffer()
            && let Some(buffer) = self.peers.spare_outputs.pop()
        {
            connection.output.lend(buffer);
        }
        let body = &delivery.message.body;
        match &connection.tempo {
            None => {
                let header = nsq_header(delivery.message, delivery.attempts);
                connection.output.push_message(&header, body, self.now);
            }
            Some(subscriber) => {
                let header = tempo_header(subscriber.id, body);
                connection.output.push_message(&header, body, self.now);
            }
        }
        if !connection.dirty {
            connection.dirty = true;
            self.peers.dirty_consumers.push(key);
        }
        let has_room = !connection
            .output
            .is_full(self.peers.memory.output_full_bytes);
        connection.output.is_refusing |= !has_room;
        has_room
    }

    fn draw(&mut self, bound: u8) -> u8 {
        clock::below(&mut self.peers.random, u32::from(bound)) as u8
    }

    fn follow(&mut self, connection: u64, probe: Probe) {
        let key = ConnectionKey::from_bits(connection);
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let Connection {
            stream,
            output,
            probes,
            ..
        } = connection;
        let probes = probes.get_or_insert_with(|| {
            let enabled = sys::enable_ack_stamps(stream, self.with_arrivals);
            if let Err(error) = &enabled {
                tracing::warn!("end-to-end latency is not measured: {error}");
            }
            Box::new(Probes::new(enabled.is_err()))
        });
        if probes.next_end().is_none() && !self.peers.probe_budget.take(self.now) {
            return;
        }
        let random = &mut self.peers.random;
        probes.follow(probe, output.unsent().len(), |bound| {
            clock::below(random, bound)
        });
    }
}

impl Reactor {
    /// Queues a heartbeat, which is written in the turn of the connection's task.
    pub(super) fn send_heartbeat(&mut self, key: ConnectionKey) {
        self.peers.owe_nothing(key, self.time.now);
        if let Some(connection) = self.peers.connections.get_mut(key) {
            connection
                .output
                .bytes()
                .extend_from_slice(&HEARTBEAT_FRAME);
            self.topics.schedule.notice(key, Readiness::DUE);
        }
    }

    /// Writes what consumers were given.
    pub(super) fn flush_consumers(&mut self) {
        let mut dirty = std::mem::take(&mut self.peers.dirty_consumers);
        for key in dirty.drain(..) {
            self.flush_connection(key);
        }
        self.peers.dirty_consumers = dirty;
    }

    /// Writes everything that gathered in this turn.
    pub(super) fn flush(&mut self) {
        if self.peers.dirty.is_empty() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.peers.dirty);
        for key in dirty.drain(..) {
            self.flush_connection(key);
        }
        self.peers.dirty = dirty;
    }

    /// Writes what has gathered for one peer, unless that has been done already.
    pub(super) fn flush_connection(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get_mut(key).filter(|c| c.dirty) else {
            return;
        };
        connection.dirty = false;
        if let Some(collecting) = connection.collecting.as_deref()
            && connection.oks == 0
            && connection.output.unsent().len() < collecting.bytes
        {
            let timeout = collecting.timeout;
            let since = *connection.output.waiting_since.get_or_insert(self.time.now);
            if self.time.now - since < timeout {
                if since == self.time.now {
                    self.peers.push_due(since + timeout, key);
                }
                return;
            }
        }
        connection.output.waiting_since = None;
        if connection.ack.is_none() && connection.output.unsent().is_empty() {
            return self.write_oks(key);
        }
        self.peers.owe_nothing(key, self.time.now);
        self.write(key);
    }

    /// Sends owed OKs from where they stand, for the many peers that are owed nothing else.
    fn write_oks(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let owed = connection.oks as usize * OK_FRAME.len();
        let Some(frames) = OK_FRAMES.get(..owed).filter(|frames| !frames.is_empty()) else {
            self.peers.owe_nothing(key, self.time.now);
            return self.write(key);
        };
        let sent = sys::send(&connection.stream, frames).unwrap_or(0);
        if let Some(probes) = &mut connection.probes {
            probes.count(sent);
        }
        connection.oks = 0;
        if sent < owed {
            // Whatever kept the socket from taking them, `write` meets it again and deals with it.
            connection.output.bytes().extend_from_slice(&frames[sent..]);
            self.write(key);
        }
    }

    /// Sends until the socket takes no more or nothing is left.
    pub(super) fn write(&mut self, key: ConnectionKey) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let mut has_probe = false;
        while !connection.output.unsent().is_empty() {
            match send(connection) {
                Ok(count) => {
                    connection.output.advance(count);
                    if let Some(probes) = &mut connection.probes {
                        has_probe |= probes.count(count);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.output.note_refused(self.time.now);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.close(key, &error.to_string());
                    return;
                }
            }
        }
        if has_probe {
            self.await_ack(key);
        }
        self.after_write(key);
    }

    fn after_write(&mut self, key: ConnectionKey) {
        let full_bytes = self.peers.memory.output_full_bytes;
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let consumer = connection.consumer;
        if let Some(consumer) = consumer {
            let written = sys::monotonic_now();
            while let Some(mark) = connection.output.pop_sent() {
                self.topics
                    .table
                    .record_write(consumer, written - mark.copied, mark.messages);
            }
        }
        connection.output.settle();
        if let Some(buffer) = connection.output.take_spare()
            && self.peers.spare_outputs.len() < SPARE_OUTPUTS
        {
            self.peers.spare_outputs.push(buffer);
        }
        let memory = connection.output.memory();
        let charged = std::mem::replace(&mut connection.output.charged, memory);
        self.peers.memory.output.change(charged, memory);
        let is_empty = connection.output.unsent().is_empty();
        let may_go_on = connection.pause == Pause::Unread && !connection.output.is_full(full_bytes);
        if connection.output.is_refusing
            && !connection.output.is_full(full_bytes)
            && let Some(consumer) = consumer
        {
            connection.output.is_refusing = false;
            self.topics.table.set_writable(consumer, true);
        }
        if connection.progress == Progress::Lingering && is_empty {
            sys::shutdown_write(&connection.stream);
        }
        let interest = Interest {
            write: !is_empty,
            ..connection.interest
        };
        self.watch(key, interest);
        if may_go_on {
            self.let_go_on(key);
        }
    }

    /// Makes room in an output that holds more than it should; where its socket takes nothing, the connection is not read from
    /// until it does.
    pub(super) fn relieve(&mut self, key: ConnectionKey) -> Flow {
        self.peers.owe_nothing(key, self.time.now);
        self.write(key);
        let Some(connection) = self.peers.connections.get(key) else {
            return Flow::End;
        };
        if !connection.is_over_full(self.peers.memory.output_full_bytes) {
            return Flow::Next;
        }
        self.peers.counters.unread_pauses += 1;
        self.pause(key, Pause::Unread);
        Flow::Wait
    }

    /// Stops reading from a connection, for the reason given.
    pub(super) fn pause(&mut self, key: ConnectionKey, reason: Pause) {
        if let Some(connection) = self.peers.connections.get_mut(key) {
            connection.pause = reason;
            let interest = Interest {
                read: false,
                ..connection.interest
            };
            self.watch(key, interest);
        }
    }

    /// Reads from a connection again.
    pub(super) fn unpause(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.peers.connections.get_mut(key) {
            connection.pause = Pause::No;
            connection.last_read = self.time.now;
            let cut = connection.arriving.is_some();
            connection.arriving = cut.then(|| Pace::new(self.time.now, connection.needed));
            let interest = Interest {
                read: true,
                ..connection.interest
            };
            self.watch(key, interest);
        }
    }

    /// Reads no more from a publisher, because the broker stops. Consumers may still finish messages.
    pub(super) fn stop_publishing(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.peers.connections.get(key)
            && connection.consumer.is_none()
        {
            let interest = Interest {
                read: false,
                ..connection.interest
            };
            self.watch(key, interest);
        }
    }

    fn watch(&mut self, key: ConnectionKey, interest: Interest) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        if connection.interest == interest {
            return;
        }
        connection.interest = interest;
        if let Err(error) =
            self.peers
                .epoll
                .modify(connection.stream.as_fd(), key.to_bits(), interest)
        {
            self.close(key, &format!("it cannot be watched: {error}"));
        }
    }
}

/// One send of what a connection has to say, up to the end of a message that is followed.
fn send(connection: &Connection) -> io::Result<usize> {
    let unsent = connection.output.unsent();
    let next_end = connection
        .probes
        .as_ref()
        .and_then(|probes| probes.next_end());
    match next_end.and_then(|end| unsent.get(..end)) {
        Some(followed) => {
            let is_more = followed.len() < unsent.len();
            sys::send_followed(&connection.stream, followed, is_more)
        }
        None => sys::send(&connection.stream, unsent),
    }
}

#[inline]
fn nsq_header(message: &Stored, attempts: u16) -> [u8; MESSAGE_HEADER_BYTES] {
    let mut header = [0; MESSAGE_HEADER_BYTES];
    let (bytes, id) = (message.body.len(), MessageId::from_u64(message.id));
    wire::put_message_header(&mut header, bytes, message.arrival.wall_ns, attempts, id);
    header
}

fn tempo_header(id: TopicId, body: &[u8]) -> [u8; tempo::MESSAGE_HEADER_BYTES] {
    // A body is at most as long as `max_msg_size`, a u32.
    tempo::message_header(id, body.len() as u32)
}
