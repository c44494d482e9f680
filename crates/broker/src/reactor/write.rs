//! Bytes out: whatever has gathered for a peer leaves in one send.

use std::io;

use topics::{Delivery, Outlet, Probe, TopicTable};

use super::guests::{Guests, Recipient};
use super::inbox::Mail;
use super::peers::Peers;
use super::post::Post;
use super::probes;
use super::schedule::Schedule;
use crate::connection::{Connection, ConnectionKey, Followed, Pause, Seat};
use crate::session::Message;
use crate::sys::{self, Interest};
use crate::transport::Taken;

/// Large output buffers kept for the next consumer that needs one. Idle consumers hold none.
const SPARE_OUTPUTS: usize = 32;

/// The reactor's connections as the topics see them.
pub(super) struct Outputs<'a> {
    pub(super) peers: &'a mut Peers,
    pub(super) guests: &'a mut Guests,
    /// The reactor's number.
    pub(super) home: usize,
    pub(super) with_arrivals: bool,
    pub(super) now: clock::Instant,
}

impl Outlet for Outputs<'_> {
    #[inline]
    fn deliver(&mut self, recipient: u64, delivery: Delivery<'_>) -> bool {
        let key = match Recipient::from_bits(recipient) {
            Recipient::Connection(key) => key,
            Recipient::Guest(key) => {
                let full_bytes = self.peers.memory.output_full_bytes;
                return self.guests.deliver(key, delivery, full_bytes);
            }
        };
        let stored = delivery.message;
        let message = Message {
            id: stored.id,
            body: &stored.body,
            wall_ns: stored.arrival.wall_ns,
            attempts: delivery.attempts,
            subscription: delivery.number,
        };
        self.peers.deliver(key, message, self.now)
    }

    fn draw(&mut self, bound: u8) -> u8 {
        clock::below(&mut self.peers.random, u32::from(bound)) as u8
    }

    fn follow(&mut self, recipient: u64, probe: Probe) {
        match Recipient::from_bits(recipient) {
            Recipient::Connection(key) => {
                let home = self.home;
                let followed = Followed { home, probe };
                probes::follow(self.peers, key, followed, self.with_arrivals, self.now);
            }
            // Where its connection is it is followed from there on.
            Recipient::Guest(key) => self.guests.follow(key, probe),
        }
    }
}

/// Writes what has gathered for peers: what it needs of the reactor. Connections that fail are left in [`Peers::failed`].
pub(super) struct Writer<'a> {
    pub(super) peers: &'a mut Peers,
    pub(super) table: &'a mut TopicTable,
    pub(super) schedule: &'a mut Schedule,
    pub(super) post: &'a mut Post,
    pub(super) now: clock::Instant,
}

impl Writer<'_> {
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
            && connection.session.owed_bytes() == 0
            && connection.output.unsent().len() < collecting.bytes
        {
            let timeout = collecting.timeout;
            let since = *connection.output.waiting_since.get_or_insert(self.now);
            if self.now - since < timeout {
                if since == self.now {
                    self.peers.push_due(since + timeout, key);
                }
                return;
            }
        }
        connection.output.waiting_since = None;
        if connection.output.unsent().is_empty()
            && let Some(frames) = connection.session.take_ready_frames()
        {
            return self.write_ready(key, frames);
        }
        connection.session.settle(&mut connection.output, self.now);
        self.write(key);
    }

    /// Sends frames from where they stand, for the many peers that are owed nothing else.
    fn write_ready(&mut self, key: ConnectionKey, frames: &'static [u8]) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let taken = connection.transport.send(frames, None);
        let taken = taken.unwrap_or_default();
        if let Some(probes) = &mut connection.probes {
            probes.count(taken);
        }
        let sent = taken.plain;
        if sent < frames.len() {
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
        while !connection.output.unsent().is_empty() || connection.transport.wants_to_send() {
            match send(connection) {
                Ok(taken) => {
                    connection.output.advance(taken.plain);
                    if let Some(probes) = &mut connection.probes {
                        has_probe |= probes.count(taken);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.output.note_refused(self.now);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.peers.failed.push((key, error.to_string()));
                    return;
                }
            }
        }
        if has_probe {
            probes::await_ack(connection, self.table, self.post);
        }
        self.after_write(key);
    }

    fn after_write(&mut self, key: ConnectionKey) {
        let full_bytes = self.peers.memory.output_full_bytes;
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        if !connection.subscriptions.is_empty() {
            let written = sys::monotonic_now();
            while let Some(mark) = connection.output.pop_sent() {
                // Those of other reactors do not hear of it.
                if let Some(Seat::Here(consumer)) = connection.subscriptions.get(mark.subscription)
                {
                    let waited = written - mark.copied;
                    self.table.record_write(consumer, waited, mark.messages);
                }
            }
        }
        connection.output.settle();
        if let Some(buffer) = connection.output.take_spare()
            && self.peers.spare_outputs.len() < SPARE_OUTPUTS
        {
            self.peers.spare_outputs.push(buffer);
        }
        let memory = connection.output.memory() + connection.transport.unsent_bytes();
        let charged = std::mem::replace(&mut connection.output.charged, memory);
        self.peers.memory.output.change(charged, memory);
        let is_empty = connection.output.unsent().is_empty();
        let may_go_on = connection.pause == Pause::Unread && !connection.output.is_full(full_bytes);
        if connection.output.is_refusing && !connection.output.is_full(full_bytes) {
            connection.output.is_refusing = false;
            for seat in connection.subscriptions.iter() {
                if let Seat::Here(consumer) = seat {
                    self.table.set_writable(consumer, true);
                }
            }
            for batch in connection.kept_batches.drain(..) {
                self.post.send(batch.home, Mail::Returned(batch));
            }
        }
        if connection.is_lingering && is_empty {
            connection.transport.end();
        }
        let interest = connection.transport.interest(Interest {
            write: !is_empty,
            ..connection.interest
        });
        self.peers.watch(key, interest);
        if may_go_on {
            self.peers.let_go_on(key, self.schedule, self.now);
        }
    }

    /// Makes room in an output that holds more than it should; says whether there is some, or the connection is not read from
    /// until there is. One that has failed has nothing to wait for.
    pub(super) fn relieve(&mut self, key: ConnectionKey) -> bool {
        self.peers.owe_nothing(key, self.now);
        self.write(key);
        let full_bytes = self.peers.memory.output_full_bytes;
        let is_over_full = |connection: &Connection| connection.is_over_full(full_bytes);
        let connection = self.peers.connections.get(key);
        let has_failed = !self.peers.failed.is_empty();
        let has_room = has_failed || !connection.is_some_and(is_over_full);
        if !has_room {
            self.peers.counters.unread_pauses += 1;
            self.peers.pause(key, Pause::Unread);
        }
        has_room
    }
}

/// One send of what a connection has to say, up to the end of a message that is followed.
fn send(connection: &mut Connection) -> io::Result<Taken> {
    let unsent = connection.output.unsent();
    let next_end = connection
        .probes
        .as_ref()
        .and_then(|probes| probes.next_end());
    connection.transport.send(unsent, next_end)
}
