//! Tempo's data path on a reactor: messages that carry an identifier, in from publishers and out to subscribers.
//!
//! A connection that begins with Tempo's magic is a publisher's; it is told nothing, and is slowed down by not being read from, as
//! any publisher. To a subscriber the broker has connected, as a publisher would have; it has a channel of its own,
//! whose messages are finished when they are written. Identifiers come from announcements; the reactor has a copy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustc_hash::FxHashMap;
use topics::Subscription;
use wire::announce::TopicId;
use wire::tempo::{HelloDecoded, MessageDecoded, TempoError, decode_hello, decode_message};
use wire::{ChannelName, ProtocolError, TopicName};

use super::Reactor;
use super::read::Flow;
use crate::BrokerError;
use crate::connection::{Connection, ConnectionKey, Progress, TempoSubscriber, Terms};
use crate::sys::Stream;

/// Which topics identifiers stand for.
pub type Identifiers = Arc<FxHashMap<TopicId, TopicName>>;

/// A subscriber that the broker has connected to.
#[derive(Debug)]
pub struct Delivery {
    /// What it subscribes.
    pub topic: TopicName,
    /// Its own channel.
    pub channel: ChannelName,
    /// Who it is, and how it is spoken to.
    pub subscriber: TempoSubscriber,
    /// What the connection begins with.
    pub hello: Vec<u8>,
    /// The connection.
    pub stream: Stream,
    /// Its other end.
    pub peer: SocketAddr,
}

impl Reactor {
    /// Reads the hello of a connection that began with Tempo's magic; gives how many bytes it took, none while it is
    /// not whole.
    ///
    /// # Errors
    /// The connection has been closed.
    pub(super) fn greet_tempo(&mut self, key: ConnectionKey, bytes: &[u8]) -> Result<usize, ()> {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Err(());
        };
        let announce = self.shared.config.announce.as_ref();
        let decoded = match announce {
            Some(announce) => decode_hello(bytes, announce.key.as_ref()),
            None => Err(TempoError::Magic),
        };
        match decoded {
            Ok(HelloDecoded::Complete { used, .. }) => {
                connection.progress = Progress::Tempo;
                connection.terms.heartbeat = None;
                connection.has_heartbeats = false;
                let wait = self.shared.config.heartbeat_interval;
                self.peers.arm_timer(key, self.time.now + wait);
                Ok(used)
            }
            Ok(HelloDecoded::Incomplete { needed }) => {
                connection.needed = needed;
                Ok(0)
            }
            Err(error) => {
                self.peers.counters.tempo_hellos_refused += 1;
                self.close(key, &error.to_string());
                Err(())
            }
        }
    }

    /// Publishes every complete message of `bytes`; gives how many bytes they took.
    pub(super) fn execute_tempo(
        &mut self,
        key: ConnectionKey,
        bytes: &[u8],
        start: usize,
    ) -> usize {
        let identifiers = Arc::clone(&self.topics.identifiers);
        let mut used = start;
        while used < bytes.len() {
            let Some(connection) = self.peers.connections.get_mut(key) else {
                return bytes.len();
            };
            if connection.consumer.is_some() {
                self.close(
                    key,
                    "a subscriber has nothing to say on its data connection",
                );
                return bytes.len();
            }
            let (id, body, end) = match decode_message(&bytes[used..], self.limits.max_msg_size) {
                Ok(MessageDecoded::Complete {
                    id,
                    body,
                    used: length,
                }) => (id, body, used + length),
                Ok(MessageDecoded::Incomplete { needed }) => {
                    connection.needed = needed;
                    return used;
                }
                Err(error) => {
                    self.close(key, &error.to_string());
                    return bytes.len();
                }
            };
            let stamp = connection.arrivals.stamp(end);
            let Some(topic) = identifiers.get(&id) else {
                self.peers.counters.tempo_unknown_ids += 1;
                used = end;
                continue;
            };
            let (body, no_delay) = (std::iter::once(body), Duration::ZERO);
            let failed = ProtocolError::pub_failed;
            match self.publish(key, topic.as_str(), body, stamp, no_delay, failed) {
                Flow::Next => used = end,
                Flow::Wait => return used,
                Flow::End | Flow::HandOver(_) => return bytes.len(),
            }
        }
        used
    }

    /// Begins to deliver to a subscriber.
    pub(super) fn begin_delivery(&mut self, delivery: Delivery) -> Result<(), BrokerError> {
        let config = &self.shared.config;
        let terms = Terms {
            heartbeat: None,
            msg_timeout: config.msg_timeout,
            sample_rate: 0,
        };
        let seconds = self.time.wall_s();
        let mut connection = Connection::new(
            delivery.stream,
            delivery.peer,
            terms,
            self.time.now,
            seconds,
        );
        connection.progress = Progress::Tempo;
        connection.tempo = Some(Box::new(delivery.subscriber));
        connection.output.bytes().extend_from_slice(&delivery.hello);
        self.shared.connections.fetch_add(1, Ordering::AcqRel);
        let Some(key) = self.adopt(connection) else {
            return Err(BrokerError::Refused(String::from("it cannot be watched")));
        };
        let subscription = Subscription {
            connection: key.to_bits(),
            msg_timeout: terms.msg_timeout,
            sample_rate: 0,
            is_finished_when_sent: true,
        };
        let topic = delivery.topic.as_str();
        match self
            .topics
            .table
            .subscribe(topic, &delivery.channel, subscription)
        {
            Ok(consumer) => {
                if let Some(connection) = self.peers.connections.get_mut(key) {
                    connection.consumer = Some(consumer);
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
}
