//! Connections come, move between reactors, and go.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use topics::Subscription;

use super::door::{Accepted, Door};
use super::execute::Continuation;
use super::guests::Recipient;
use super::hosted::Hosted;
use super::inbox::Mail;
use super::peers::Peers;
use super::post::Post;
use super::publishers::Publishers;
use super::schedule::Readiness;
use super::shared::Shared;
use super::strangers;
use super::subscribers::DialledSubscriber;
use super::time::Time;
use super::write::Writer;
use crate::BrokerError;
use crate::config::ArrivalClock;
use crate::connection::{Connection, ConnectionKey, Pause, Seat};
use crate::session::tempo::Tempo;
use crate::session::{Aftermath, Deed, Failure, Session};
use crate::sys::{self, Interest, Stream};
use crate::transport::Transport;

/// Connections accepted per event, so that a storm of them does not starve those that are there.
const ACCEPTS_MAX: usize = 64;

/// Pause of the listener after connections were refused: a flood of them costs little, and those that wait meanwhile are told soon.
const REFUSAL_PAUSE: Duration = Duration::from_millis(20);

/// How long a peer may take to read its last error.
const LINGER: Duration = Duration::from_secs(1);

/// Where connections and topics of a reactor meet: what connections need to come, to go on and to go.
#[derive(Debug)]
pub(super) struct Hall {
    pub(super) shared: Arc<Shared>,
    pub(super) time: Time,
    pub(super) post: Post,
    pub(super) peers: Peers,
    pub(super) topics: Hosted,
}

impl Hall {
    /// Accepts who waits at the door.
    pub(super) fn accept(&mut self, door: &mut Door) {
        let refused_before = self.peers.counters.connections_refused;
        for _ in 0..ACCEPTS_MAX {
            match door.accept(self.time.now, &self.peers.epoll) {
                Accepted::Peer(stream, peer) => {
                    let home = door.next_home(self.post.reactors());
                    self.welcome(stream, peer, home);
                }
                Accepted::Gone => {}
                Accepted::Nobody => break,
                Accepted::NoRoom => {
                    self.peers.counters.accept_backoffs += 1;
                    return;
                }
            }
        }
        if self.peers.counters.connections_refused > refused_before {
            door.rest(self.time.now + REFUSAL_PAUSE, &self.peers.epoll);
        }
    }

    /// Makes a connection one of this reactor's; `None` where that failed and it is closed.
    pub(super) fn adopt(&mut self, mut connection: Connection) -> Option<ConnectionKey> {
        let write = !connection.output.unsent().is_empty();
        connection.interest = connection.transport.interest(Interest {
            write,
            ..Interest::READ_ONCE
        });
        connection.dirty = false;
        connection.timer_at = None;
        connection.output.waiting_since = None;
        let interest = connection.interest;
        let ack_due = connection.session.ack_due();
        let is_stranger = connection.is_stranger;
        let key = self.peers.connections.insert(connection);
        self.topics.schedule.welcome(key);
        self.peers.charge_input(key, 0);
        if is_stranger && !strangers::enter(self, key) {
            return None;
        }
        if let Some(due) = ack_due {
            self.peers.push_due(due, key);
        }
        self.publishers().attach(key);
        let connection = self.peers.connections.get_mut(key)?;
        if let Err(error) =
            self.peers
                .epoll
                .add(connection.transport.as_fd(), key.to_bits(), interest)
        {
            self.close(key, &format!("it cannot be watched: {error}"));
            return None;
        }
        let wait = match is_stranger {
            true => self.shared.config.handshake_timeout,
            false => connection.interval(self.shared.config.heartbeat_interval),
        };
        let holds_input = connection.transport.holds_input();
        self.peers.arm_timer(key, self.time.now + wait);
        self.peers.mark_dirty(key);
        self.topics.schedule.notice(key, Readiness::RESUMED);
        if holds_input {
            self.topics.schedule.notice(key, Readiness::READABLE);
        }
        Some(key)
    }

    /// Hands a connection over to the reactor that owns the topic it subscribes to.
    pub(super) fn hand_over(&mut self, key: ConnectionKey, home: usize) {
        let Some(mut connection) = self.peers.connections.remove(key) else {
            return;
        };
        self.topics.schedule.leave(key);
        if let Err(error) = self.peers.epoll.remove(connection.transport.as_fd()) {
            tracing::debug!("{}: moving to reactor {home}: {error}", connection.peer);
        }
        connection.pause = Pause::No;
        self.peers.discharge(&mut connection);
        self.post.send(home, Mail::Adopt(Box::new(connection)));
    }

    /// Closes a connection at once; what it had in flight goes back to its channel.
    pub(super) fn close(&mut self, key: ConnectionKey, reason: &str) {
        self.publishers().declare(key, None);
        let Some(mut connection) = self.peers.connections.remove(key) else {
            return;
        };
        tracing::debug!("{}: closed, {reason}", connection.peer);
        self.topics.schedule.leave(key);
        if connection.is_stranger {
            self.peers.strangers.leave(&connection);
        }
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
        let kept_batches = std::mem::take(&mut connection.kept_batches);
        self.unsubscribe(&connection.subscriptions, kept_batches);
        self.peers.discharge(&mut connection);
        let input = std::mem::take(&mut connection.input);
        self.peers.return_input(input);
    }

    /// Tells what went wrong; what is said last is lingered for until the peer has read it.
    pub(super) fn fail(&mut self, key: ConnectionKey, failure: &Failure) -> Continuation {
        self.peers.hasten_ack(key, self.time.now);
        if failure.is_denial() {
            self.peers.counters.auths_refused += 1;
        }
        match self.peers.tell_failure(key, failure, self.time.now) {
            Some(Aftermath::GoesOn) => return Continuation::Next,
            Some(Aftermath::Lingers) => self.begin_lingering(key),
            Some(Aftermath::Closes) => self.close(key, &failure.to_string()),
            None => {}
        }
        Continuation::End
    }

    pub(super) fn begin_lingering(&mut self, key: ConnectionKey) {
        self.publishers().declare(key, None);
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        connection.is_lingering = true;
        connection.arrivals = crate::connection::ArrivalTable::default();
        let subscriptions = std::mem::take(&mut connection.subscriptions);
        let kept_batches = std::mem::take(&mut connection.kept_batches);
        self.unsubscribe(&subscriptions, kept_batches);
        self.peers
            .unpause(key, &mut self.topics.schedule, self.time.now);
        self.peers.arm_timer(key, self.time.now + LINGER);
    }

    /// Tells a publisher that its topic is gone, or the broker stops. One that consumes, too, goes on: it may finish what it has.
    pub(super) fn refuse_exiting(&mut self, key: ConnectionKey, deed: Deed) -> Continuation {
        let failure = Failure::Exiting(deed);
        let connection = self.peers.connections.get(key);
        if connection.is_some_and(|connection| !connection.subscriptions.is_empty()) {
            let _ends = self.peers.tell_failure(key, &failure, self.time.now);
            return Continuation::Next;
        }
        self.fail(key, &failure)
    }

    /// Begins to deliver to a subscriber.
    pub(super) fn begin_delivery(&mut self, dialled: DialledSubscriber) -> Result<(), BrokerError> {
        let seconds = self.time.wall_s();
        let mut connection = Connection::new(
            Transport::plain(dialled.stream),
            dialled.peer,
            self.time.now,
            seconds,
        );
        connection.session = Session::Tempo(Tempo::Subscriber(Box::new(dialled.subscriber)));
        connection.is_stranger = false;
        connection.output.bytes().extend_from_slice(&dialled.hello);
        self.shared.connections.fetch_add(1, Ordering::AcqRel);
        let Some(key) = self.adopt(connection) else {
            return Err(BrokerError::Refused(String::from("it cannot be watched")));
        };
        let subscription = Subscription {
            connection: Recipient::Connection(key).to_bits(),
            number: 0,
            msg_timeout: self.shared.config.msg_timeout,
            sample_rate: 0,
            is_finished_when_sent: true,
        };
        let topic = dialled.topic.as_str();
        match self
            .topics
            .table
            .subscribe(topic, &dialled.channel, subscription)
        {
            Ok(consumer) => {
                if let Some(connection) = self.peers.connections.get_mut(key) {
                    connection.subscriptions.add(Seat::Here(consumer));
                }
                self.topics.place(key, self.topics.table.find(topic));
                self.topics.table.set_ready(consumer, u32::MAX);
                Ok(())
            }
            Err(refusal) => {
                self.close(key, "its subscription was refused");
                Err(BrokerError::Refused(refusal.to_string()))
            }
        }
    }

    /// The parts that publishers need.
    pub(super) fn publishers(&mut self) -> Publishers<'_> {
        Publishers {
            time: &self.time,
            post: &mut self.post,
            peers: &mut self.peers,
            topics: &mut self.topics,
        }
    }

    /// Has something written, and closes what failed of it.
    #[inline]
    pub(super) fn write<T>(&mut self, act: impl FnOnce(&mut Writer<'_>) -> T) -> T {
        let done = act(&mut Writer {
            peers: &mut self.peers,
            table: &mut self.topics.table,
            schedule: &mut self.topics.schedule,
            post: &mut self.post,
            now: self.time.now,
        });
        self.close_failed();
        done
    }

    /// Closes connections that have failed.
    #[inline]
    pub(super) fn close_failed(&mut self) {
        while let Some((key, reason)) = self.peers.failed.pop() {
            self.close(key, &reason);
        }
    }

    fn welcome(&mut self, stream: Stream, peer: SocketAddr, home: usize) {
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
        let connect_ts_s = self.time.wall_s();
        let transport = Transport::plain(stream);
        let connection = Connection::new(transport, peer, self.time.now, connect_ts_s);
        if home == self.post.number {
            let _key = self.adopt(connection);
        } else {
            self.post.send(home, Mail::Adopt(Box::new(connection)));
        }
    }
}
