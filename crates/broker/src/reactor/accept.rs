//! Connections come, move between reactors, and go.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::Reactor;
use super::door::Accepted;
use super::inbox::Mail;
use super::readiness::Readiness;
use crate::config::ArrivalClock;
use crate::connection::{Connection, ConnectionKey, Pause, Progress, Terms};
use crate::sys::{self, Interest, Stream};

/// Connections accepted per event, so that a storm of them does not starve those that are there.
const ACCEPTS_MAX: usize = 64;

/// Input buffers kept for the next connection that reads half a command.
const SPARE_INPUTS: usize = 64;

/// Largest input buffer kept.
const SPARE_INPUT_BYTES: usize = 64 * 1024;

impl Reactor {
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match self.door.accept(self.time.now, &self.epoll) {
                Accepted::Peer(stream, peer) => self.welcome(stream, peer),
                Accepted::Gone => {}
                Accepted::Nobody => return,
                Accepted::NoRoom => {
                    self.counters.accept_backoffs += 1;
                    return;
                }
            }
        }
    }

    /// Makes a connection one of this reactor's; `None` where that failed and it is closed.
    pub(super) fn adopt(&mut self, mut connection: Connection) -> Option<ConnectionKey> {
        let write = !connection.output.unsent().is_empty();
        connection.interest = Interest {
            write,
            ..Interest::READ_ONCE
        };
        connection.dirty = false;
        connection.timer_at = None;
        connection.output.waiting_since = None;
        let interest = connection.interest;
        let ack_due = connection.ack.as_ref().and_then(|ack| ack.due);
        let key = self.connections.insert(connection);
        self.topics.schedule.welcome(key);
        self.charge_input(key, 0);
        if let Some(due) = ack_due {
            self.push_due(due, key);
        }
        self.attach(key);
        let connection = self.connections.get_mut(key)?;
        if let Err(error) = self
            .epoll
            .add(connection.stream.as_fd(), key.to_bits(), interest)
        {
            self.close(key, &format!("it cannot be watched: {error}"));
            return None;
        }
        let wait = match connection.progress {
            Progress::Handshake => self.shared.config.handshake_timeout,
            _ => connection
                .terms
                .heartbeat
                .unwrap_or(self.shared.config.heartbeat_interval),
        };
        self.arm_timer(key, wait);
        self.mark_dirty(key);
        self.topics.schedule.notice(key, Readiness::RESUMED);
        Some(key)
    }

    /// Hands a connection over to the reactor that owns the topic it subscribes to.
    pub(super) fn hand_over(&mut self, key: ConnectionKey, home: usize) {
        let Some(mut connection) = self.connections.remove(key) else {
            return;
        };
        self.topics.schedule.leave(key);
        if let Err(error) = self.epoll.remove(connection.stream.as_fd()) {
            tracing::debug!("{}: moving to reactor {home}: {error}", connection.peer);
        }
        connection.pause = Pause::No;
        self.discharge(&mut connection);
        self.post.send(home, Mail::Adopt(Box::new(connection)));
    }

    /// Closes a connection at once; what it had in flight goes back to its channel.
    pub(super) fn close(&mut self, key: ConnectionKey, reason: &str) {
        self.announce(key, None);
        let Some(mut connection) = self.connections.remove(key) else {
            return;
        };
        tracing::debug!("{}: closed, {reason}", connection.peer);
        self.topics.schedule.leave(key);
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
        if let Some(consumer) = connection.consumer {
            self.topics.table.unsubscribe(consumer, self.time.now);
        }
        self.discharge(&mut connection);
        let input = std::mem::take(&mut connection.input);
        self.return_input(input);
    }

    /// An empty input buffer, with memory if one is spare.
    pub(super) fn lend_input(&mut self) -> Vec<u8> {
        self.inputs.pop().unwrap_or_default()
    }

    /// Takes an input buffer back.
    pub(super) fn return_input(&mut self, mut input: Vec<u8>) {
        if input.capacity() > 0
            && input.capacity() <= SPARE_INPUT_BYTES
            && self.inputs.len() < SPARE_INPUTS
        {
            input.clear();
            self.inputs.push(input);
        }
    }

    fn welcome(&mut self, stream: Stream, peer: std::net::SocketAddr) {
        let config = &self.shared.config;
        if self.shared.connections.fetch_add(1, Ordering::AcqRel) >= config.max_connections {
            self.shared.connections.fetch_sub(1, Ordering::AcqRel);
            self.counters.connections_refused += 1;
            return;
        }
        if config.arrival_clock == ArrivalClock::Kernel
            && let Err(error) = sys::enable_arrival_stamps(&stream)
        {
            tracing::warn!("{peer}: no arrival stamps, time of reading is used instead: {error}");
        }
        let terms = Terms {
            heartbeat: Some(config.heartbeat_interval),
            msg_timeout: config.msg_timeout,
            sample_rate: 0,
        };
        let connect_ts_s = self.time.wall_s();
        let connection = Connection::new(stream, peer, terms, self.time.now, connect_ts_s);
        let home = self.door.next_home(self.post.reactors());
        if home == self.post.number {
            let _key = self.adopt(connection);
        } else {
            self.post.send(home, Mail::Adopt(Box::new(connection)));
        }
    }
}
