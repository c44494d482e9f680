//! Publish commands: taken into a topic of this reactor, or kept waiting until there is room
//! (`waiting.rs`).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use topics::{Arrival, Published, Refusal, Source, TopicKey};
use wire::TopicName;

use super::batch::{IN_TRANSIT_BYTES, IN_TRANSIT_MAX};
use super::durable::{CommandUnderWay, Undurable};
use super::execute::Continuation;
use super::publishers::name_of;
use super::relay::Relay;
use super::schedule::Readiness;
use super::waiting::{WaitingPublish, WaitingRequest};
use crate::BrokerError;
use crate::connection::{ArrivalStamp, Connection, ConnectionKey, Pause, PublishedTopic, maker_at};
use crate::session::{Deed, Failure};

/// Who publishes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// A connection of this reactor.
    Connection(ConnectionKey),
    /// One of another reactor, with this peer.
    Peer(SocketAddr),
    /// The handle, for whoever is given.
    Maker(Option<IpAddr>),
}

impl Relay<'_> {
    /// Publishes what a connection said.
    pub(super) fn publish<'a>(
        &mut self,
        key: ConnectionKey,
        topic: &str,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        stamp: ArrivalStamp,
        delay: Duration,
        deed: Deed,
    ) -> Continuation {
        let arrival = Arrival {
            at: stamp.at,
            wall_ns: stamp.wall_ns,
            read: stamp.read,
            half_rtt_us: self
                .hall
                .peers
                .publisher_half_rtt_us(key, self.hall.time.now),
            flow: flow_of(self.hall.post.number, key),
        };
        let is_new = match self.hall.peers.connections.get(key) {
            Some(connection) => !connection.is_publishing_to(topic),
            None => return Continuation::End,
        };
        if is_new && self.waits_for_answers(key) {
            return Continuation::Wait;
        }
        if is_new && !self.turn_to(key, topic) {
            self.hall.topics.schedule.notice(key, Readiness::RESUMED);
            return Continuation::Wait;
        }
        let Some((home, known, is_declared)) = self.hall.peers.home_and_key(key) else {
            return Continuation::End;
        };
        if home != self.hall.post.number {
            return self.send_to_home(key, home, bodies, arrival, delay);
        }
        let messages = bodies.clone().count() as u32;
        let from = Origin::Connection(key);
        let (topic_key, outcome) =
            self.publish_here(known, topic, from, bodies.clone(), arrival, delay);
        match outcome {
            Published::Accepted | Published::Logged(_) => {
                self.note_published(key, topic_key, messages);
                self.note_connection(topic_key, key, is_declared, messages, &arrival);
                if is_declared {
                    self.hall.publishers().tell_wait(key, topic_key, false);
                }
                if let Published::Logged(number) = outcome {
                    let command = CommandUnderWay {
                        connection: key,
                        messages,
                        bytes: bodies.map(<[u8]>::len).sum(),
                        delay,
                    };
                    return self.wait_until_durable(topic_key, number, command);
                }
                self.hall
                    .peers
                    .acknowledge(key, messages, self.hall.time.now);
                Continuation::Next
            }
            Published::Full => {
                if is_declared {
                    self.hall.publishers().tell_wait(key, topic_key, true);
                }
                self.hall.peers.pause(key, Pause::Room);
                self.hall.topics.note_full(topic_key);
                self.hall.topics.keep_waiting(
                    topic_key,
                    WaitingPublish::Connection(key),
                    self.hall.topics.is_resuming,
                );
                Continuation::Wait
            }
            Published::Refused(reason) => self.hall.fail(key, &Failure::Refused(deed, reason)),
            Published::Gone => self.hall.refuse_exiting(key, deed),
        }
    }

    /// A command of a connection here was accepted and is to be answered once the batch of that number is durable.
    pub(super) fn wait_until_durable(
        &mut self,
        topic: TopicKey,
        number: u64,
        command: CommandUnderWay,
    ) -> Continuation {
        let key = command.connection;
        let Some(connection) = self.hall.peers.connections.get_mut(key) else {
            return Continuation::End;
        };
        connection.in_transit += 1;
        connection.in_transit_bytes += command.bytes;
        let is_much = connection.in_transit >= IN_TRANSIT_MAX
            || connection.in_transit_bytes >= IN_TRANSIT_BYTES;
        self.hall.peers.memory.input.change(0, command.bytes);
        let waiters = &mut self.hall.topics.waiters;
        waiters.push(topic, number, Undurable::Here(command));
        if is_much {
            self.hall.peers.pause(key, Pause::InTransit);
            return Continuation::Pause;
        }
        Continuation::Next
    }

    /// Whether a connection has to wait for answers before it is answered anything else: on a broker with durable topics, as long as it has
    /// some command under way. Then it is not read from until it has fewer.
    pub(super) fn waits_for_answers(&mut self, key: ConnectionKey) -> bool {
        let connection = self.hall.peers.connections.get(key);
        let has_some = connection.is_some_and(|connection| connection.in_transit > 0);
        if !has_some || !self.hall.shared.has_durable_topics() {
            return false;
        }
        self.hall.peers.pause(key, Pause::InTransit);
        true
    }

    /// Counts what a connection has published to a topic of this reactor, whose task it is served with from now on.
    #[inline]
    fn note_published(&mut self, key: ConnectionKey, topic: TopicKey, messages: u32) {
        let connection = self.hall.peers.connections.get_mut(key);
        let Some(published) = connection.and_then(|connection| connection.publishing.as_mut())
        else {
            return;
        };
        let is_new = published.key.replace(topic) != Some(topic);
        published.messages += u64::from(messages);
        if is_new {
            self.hall.topics.place(key, Some(topic));
            let task = self.hall.topics.schedule.task_at(key);
            self.hall.topics.work_for(task, &mut self.hall.time);
        }
    }

    /// Publishes to a topic of this reactor, made if need be and refused where no more may be made.
    /// `Full` is final for now: everything that could be passed on has been.
    pub(super) fn publish_here<'a>(
        &mut self,
        known: Option<TopicKey>,
        topic: &str,
        from: Origin,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        arrival: Arrival,
        delay: Duration,
    ) -> (TopicKey, Published) {
        let known = known.filter(|&key| self.hall.topics.table.topic(key).is_some());
        let key = match known.map_or_else(|| self.find_or_make(topic, from), Ok) {
            Ok(key) => key,
            Err(refusal) => {
                let nowhere = TopicKey::from_bits(u64::MAX);
                return (nowhere, Published::Refused(refusal.to_string()));
            }
        };
        if self.hall.topics.table.has_waiting(key) && !self.hall.topics.is_resuming {
            return (key, Published::Full);
        }
        let outcome = self
            .hall
            .topics
            .table
            .publish(key, bodies.clone(), arrival, delay);
        if outcome != Published::Full || !matches!(from, Origin::Connection(_)) {
            return (key, outcome);
        }
        // The queue may be full only because this turn has not passed anything on yet.
        self.serve_topic(key);
        (
            key,
            self.hall.topics.table.publish(key, bodies, arrival, delay),
        )
    }

    /// The topic of that name; one that has to be made counts against whom it is made for.
    fn find_or_make(&mut self, topic: &str, from: Origin) -> Result<TopicKey, Refusal> {
        let connections = &self.hall.peers.connections;
        let maker = || match from {
            Origin::Connection(key) => connections.get(key).and_then(Connection::maker),
            Origin::Peer(peer) => maker_at(peer.ip()),
            Origin::Maker(maker) => maker,
        };
        self.hall
            .topics
            .find_or_make(topic, self.hall.time.now, maker)
    }

    /// Publishes for the handle, or keeps the request waiting.
    pub(super) fn publish_request(&mut self, topic: &wire::TopicName, request: WaitingRequest) {
        let (bodies, arrival) = (request.bodies.iter().map(AsRef::as_ref), request.arrival);
        let from = Origin::Maker(request.maker);
        let outcome = self.publish_here(None, topic.as_str(), from, bodies, arrival, request.delay);
        if let (key, Published::Accepted | Published::Logged(_)) = outcome {
            self.note_request(key, &request);
        }
        match outcome {
            (key, Published::Full) => {
                self.hall.topics.keep_waiting(
                    key,
                    WaitingPublish::Request(Box::new(request)),
                    self.hall.topics.is_resuming,
                );
            }
            (key, Published::Logged(number)) => {
                let waiter = Undurable::Request(request.reply);
                self.hall.topics.waiters.push(key, number, waiter);
            }
            (_, outcome) => {
                request.reply.send(answer_of(outcome));
            }
        }
    }

    /// Notes that a command of a connection of this reactor was accepted.
    #[inline]
    fn note_connection(
        &mut self,
        topic: TopicKey,
        key: ConnectionKey,
        is_declared: bool,
        messages: u32,
        arrival: &Arrival,
    ) {
        let source = Source {
            reactor: self.hall.post.number,
            connection: key.to_bits(),
            is_declared,
        };
        let connections = &self.hall.peers.connections;
        self.hall
            .topics
            .table
            .note_source(topic, source, messages, arrival, || {
                let Some(connection) = connections.get(key) else {
                    return String::new();
                };
                let declared = connection.declared.as_ref().filter(|_| is_declared);
                let publisher = declared.map(|declared| &*declared.declaration);
                name_of(publisher, connection.peer)
            });
    }

    /// Notes that a request was accepted.
    pub(super) fn note_request(&mut self, topic: TopicKey, request: &WaitingRequest) {
        let messages = request.bodies.len() as u32;
        let name = || String::from(Source::HTTP_NAME);
        self.hall
            .topics
            .table
            .note_source(topic, Source::HTTP, messages, &request.arrival, name);
    }

    /// Makes another topic the one that a connection publishes to: that one's task is charged from now on, and serves the
    /// connection. Says whether the task may go on in this turn, which is another's.
    fn turn_to(&mut self, key: ConnectionKey, topic: &str) -> bool {
        let home = self.hall.post.home_of(topic);
        let parse = || topic.parse().expect("the decoder found the name valid");
        let (name, known, task): (TopicName, _, _) = if home == self.hall.post.number {
            let known = self.hall.topics.table.find(topic);
            // Shared, so that comparing names stays in the cache however many publish to it.
            let name = known.and_then(|key| Some(self.hall.topics.table.topic(key)?.name.clone()));
            let task = known.and_then(|topic| self.hall.topics.task_of(topic));
            (name.unwrap_or_else(parse), known, task)
        } else {
            let (name, task) = self
                .hall
                .topics
                .schedule
                .find_elsewhere(topic)
                .unwrap_or_else(|| {
                    let name = parse();
                    let task = self.hall.topics.schedule.add_elsewhere(&name);
                    (name, task)
                });
            (name, None, Some(task))
        };
        if let Some(connection) = self.hall.peers.connections.get_mut(key) {
            let is_declared = connection.declares(topic);
            connection.publish_to(PublishedTopic {
                name,
                home,
                key: known,
                is_declared,
                messages: 0,
            });
        }
        self.hall.topics.schedule.place(key, task);
        let task = self.hall.topics.schedule.task_at(key);
        self.hall.topics.work_for(task, &mut self.hall.time);
        self.hall.topics.schedule.is_its_turn(key)
            || !self
                .hall
                .topics
                .schedule
                .is_to_wait(task, self.hall.time.now)
    }
}

/// A connection as a flow: another number for each connection of the broker, but for one in some 2^32 pairs.
fn flow_of(reactor: usize, key: ConnectionKey) -> u32 {
    let mixed = (key.to_bits() ^ (reactor as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// The answer to the handle.
pub(super) fn answer_of(outcome: Published) -> Result<(), BrokerError> {
    match outcome {
        Published::Accepted | Published::Logged(_) => Ok(()),
        Published::Refused(reason) => Err(BrokerError::Refused(reason)),
        Published::Full | Published::Gone => Err(BrokerError::Exiting),
    }
}
