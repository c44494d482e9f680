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

impl Reactor {
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match self.door.accept(self.time.now, &self.peers.epoll) {
                Accepted::Peer(stream, peer) => self.welcome(stream, peer),
                Accepted::Gone => {}
                Accepted::Nobody => return,
                Accepted::NoRoom => {
                    self.peers.counters.accept_backoffs += 1;
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
        let key = self.peers.connections.insert(connection);
        self.topics.schedule.welcome(key);
        self.peers.charge_input(key, 0);
        if let Some(due) = ack_due {
            self.peers.push_due(due, key);
        }
        self.attach(key);
        let connection = self.peers.connections.get_mut(key)?;
        if let Err(error) = self
            .peers
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
        self.peers.arm_timer(key, self.time.now + wait);
        self.peers.mark_dirty(key);
        self.topics.schedule.notice(key, Readiness::RESUMED);
        Some(key)
    }

    /// Hands a connection over to the reactor that owns the topic it subscribes to.
    pub(super) fn hand_over(&mut self, key: ConnectionKey, home: usize) {
        let Some(mut connection) = self.peers.connections.remove(key) else {
            return;
        };
        self.topics.schedule.leave(key);
        if let Err(error) = self.peers.epoll.remove(connection.stream.as_fd()) {
            tracing::debug!("{}: moving to reactor {home}: {error}", connection.peer);
        }
        connection.pause = Pause::No;
        self.peers.discharge(&mut connection);
        self.post.send(home, Mail::Adopt(Box::new(connection)));
    }

    /// Closes a connection at once; what it had in flight goes back to its channel.
    pub(super) fn close(&mut self, key: ConnectionKey, reason: &str) {
        self.announce(key, None);
        let Some(mut connection) = self.peers.connections.remove(key) else {
            return;
        };
        tracing::debug!("{}: closed, {reason}", connection.peer);
        self.topics.schedule.leave(key);
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
        if let Some(consumer) = connection.consumer {
            self.topics.table.unsubscribe(consumer, self.time.now);
        }
        self.peers.discharge(&mut connection);
        let input = std::mem::take(&mut connection.input);
        self.peers.return_input(input);
    }

    fn welcome(&mut self, stream: Stream, peer: std::net::SocketAddr) {
        let config = &self.shared.config;
        if self.shared.connections.fetch_add(1, Ordering::AcqRel) >= config.max_connections {
            self.shared.connections.fetch_sub(1, Ordering::AcqRel);
            self.peers.counters.connections_refused += 1;
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
