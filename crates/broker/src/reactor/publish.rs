//! Publish commands: into a topic of this reactor, or held back until there is room.

use std::time::Duration;

use wire::ProtocolError;

use super::inbox::{Mail, Settled};
use super::read::Flow;
use super::{Reactor, home_of};
use crate::connection::{ArrivalStamp, ConnectionKey, Pause, PublishedTopic};
use crate::handle::Answer;
use crate::topic::{Arrival, Held, HeldRequest, Published, RemotePublish, TopicKey};
use crate::{BrokerError, sys};

impl Reactor {
    /// Executes PUB, MPUB or DPUB of a connection. `failed` makes the command's own error.
    pub(super) fn publish<'a>(
        &mut self,
        key: ConnectionKey,
        topic: &str,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        stamp: ArrivalStamp,
        delay: Duration,
        failed: fn(&str) -> ProtocolError,
    ) -> Flow {
        let arrival = Arrival {
            at: stamp.at,
            wall_ns: stamp.wall_ns,
            read: stamp.read,
        };
        let Some((home, known)) = self.home_and_key(key, topic) else {
            return Flow::End;
        };
        if home != self.number {
            return self.send_to_home(key, home, bodies, arrival, delay);
        }
        let messages = bodies.clone().count() as u32;
        match self.publish_here(known, topic, Some(key), bodies, arrival, delay) {
            (topic_key, Published::Accepted) => {
                let connection = self.connections.get_mut(key);
                if let Some(published) =
                    connection.and_then(|connection| connection.publishing.as_mut())
                {
                    published.key = Some(topic_key);
                    published.messages += u64::from(messages);
                }
                self.acknowledge(key, messages);
                Flow::Next
            }
            (topic_key, Published::Full) => {
                self.pause(key, Pause::Held);
                self.table
                    .hold(topic_key, Held::Connection(key.to_bits()), self.is_resuming);
                Flow::Wait
            }
            (_, Published::Refused(reason)) => {
                self.fail(key, &failed(&reason));
                Flow::End
            }
            (_, Published::Gone) => {
                self.fail(key, &failed("exiting"));
                Flow::End
            }
        }
    }

    /// Publishes to a topic of this reactor, made if need be and refused where no more may be made.
    /// `Full` is final for now: everything that could be passed on has been.
    pub(super) fn publish_here<'a>(
        &mut self,
        known: Option<TopicKey>,
        topic: &str,
        from: Option<ConnectionKey>,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        arrival: Arrival,
        delay: Duration,
    ) -> (TopicKey, Published) {
        let known = known.filter(|&key| self.table.topic(key).is_some());
        let key = match known.map_or_else(|| self.table.find_or_create(topic), Ok) {
            Ok(key) => key,
            Err(refusal) => {
                let nowhere = TopicKey::from_bits(u64::MAX);
                return (nowhere, Published::Refused(refusal.to_string()));
            }
        };
        if self.table.has_held(key) && !self.is_resuming {
            return (key, Published::Full);
        }
        let outcome = self.table.publish(key, bodies.clone(), arrival, delay);
        if outcome != Published::Full || from.is_none() {
            return (key, outcome);
        }
        // The queue may be full only because this turn has not passed anything on yet.
        self.deliver();
        (key, self.table.publish(key, bodies, arrival, delay))
    }

    /// Counts accepted messages of a connection: an OK is owed, or a cumulative ack.
    pub(super) fn acknowledge(&mut self, key: ConnectionKey, messages: u32) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        match &mut connection.ack {
            None => {
                connection.oks += 1;
                self.mark_dirty(key);
            }
            Some(ack) => {
                ack.accept(messages);
                if ack.is_due(self.now) {
                    self.mark_dirty(key);
                } else if let Some(due) = ack.begin_waiting(self.now) {
                    self.dues.push(due, key);
                }
            }
        }
    }

    /// Lets publishers go on that were held at topics with room again.
    pub(super) fn resume_held(&mut self) {
        if self.resumable.is_empty() && self.roomy.is_empty() {
            return;
        }
        for _ in 0..self.resumable.len() {
            let key = self.resumable.swap_remove(0);
            self.reconsider(key);
        }
        let mut roomy = std::mem::take(&mut self.roomy);
        for key in roomy.drain(..) {
            self.is_resuming = true;
            while let Some(held) = self.table.pop_held(key) {
                if !self.resume(key, held) {
                    break;
                }
            }
            self.is_resuming = false;
        }
        self.roomy.append(&mut roomy);
        self.deliver();
    }

    /// Tells a held publisher that its topic is gone: a connection tries anew (and makes the topic
    /// again), the others are told.
    pub(super) fn settle_orphan(&mut self, held: Held) {
        match held {
            Held::Connection(bits) => self.let_go_on(ConnectionKey::from_bits(bits)),
            Held::Remote(remote) => {
                self.send_settled(&remote, Published::Refused(String::from("exiting")))
            }
            Held::Request(request) => {
                let _ = request.reply.send(Err(BrokerError::Exiting));
            }
        }
    }

    /// A publisher may be read from again.
    pub(super) fn let_go_on(&mut self, key: ConnectionKey) {
        self.unpause(key);
        self.resumable.push(key);
    }

    /// Publishes for the handle, or holds the request.
    pub(super) fn publish_request(&mut self, topic: &wire::TopicName, request: HeldRequest) {
        let (bodies, arrival) = (request.bodies.iter().map(AsRef::as_ref), request.arrival);
        match self.publish_here(None, topic.as_str(), None, bodies, arrival, request.delay) {
            (key, Published::Full) => {
                self.table
                    .hold(key, Held::Request(Box::new(request)), self.is_resuming)
            }
            (_, outcome) => {
                let _ = request.reply.send(answer_of(outcome));
            }
        }
    }

    /// The arrival of something that came through the handle: now.
    pub(super) fn arrival_now(&mut self) -> Arrival {
        self.now = sys::monotonic_now();
        let wall_ns = self.stamps.to_wall(self.now).as_nanos().cast_signed();
        Arrival {
            at: self.now,
            wall_ns,
            read: self.now,
        }
    }

    /// Whether the next one held may be tried, too.
    fn resume(&mut self, topic: TopicKey, held: Held) -> bool {
        match held {
            Held::Connection(bits) => {
                let key = ConnectionKey::from_bits(bits);
                self.unpause(key);
                self.reconsider(key);
                self.connections
                    .get(key)
                    .is_none_or(|connection| connection.pause != Pause::Held)
            }
            Held::Remote(remote) => {
                match self
                    .table
                    .publish(topic, remote.bodies(), remote.arrival, remote.delay)
                {
                    Published::Full => {
                        self.table.hold(topic, Held::Remote(remote), true);
                        false
                    }
                    outcome => {
                        self.send_settled(&remote, outcome);
                        true
                    }
                }
            }
            Held::Request(request) => {
                let bodies = request.bodies.iter().map(AsRef::as_ref);
                match self
                    .table
                    .publish(topic, bodies, request.arrival, request.delay)
                {
                    Published::Full => {
                        self.table.hold(topic, Held::Request(request), true);
                        false
                    }
                    outcome => {
                        let _ = request.reply.send(answer_of(outcome));
                        true
                    }
                }
            }
        }
    }

    fn send_settled(&mut self, remote: &RemotePublish, outcome: Published) {
        let messages = remote.lengths.len() as u32;
        let settled = Settled {
            connection: remote.connection,
            messages,
            outcome,
        };
        self.outboxes[remote.from].push(Mail::Settled(settled));
    }

    /// Reactor that owns `topic` and the topic's key there, as the connection remembers them.
    fn home_and_key(
        &mut self,
        key: ConnectionKey,
        topic: &str,
    ) -> Option<(usize, Option<TopicKey>)> {
        let connection = self.connections.get_mut(key)?;
        if !connection.is_publishing_to(topic) {
            let known = self.table.find(topic);
            let name = match known.and_then(|key| self.table.topic(key)) {
                // Shared, so that comparing names stays in the cache however many publish to it.
                Some(topic) => topic.name.clone(),
                None => topic.parse().expect("the decoder found the name valid"),
            };
            let home = home_of(topic, self.outboxes.len());
            connection.publish_to(PublishedTopic {
                name,
                home,
                key: known,
                messages: 0,
            });
        }
        connection
            .publishing
            .as_ref()
            .map(|published| (published.home, published.key))
    }
}

fn answer_of(outcome: Published) -> Result<Answer, BrokerError> {
    match outcome {
        Published::Accepted => Ok(Answer::Done),
        Published::Refused(reason) => Err(BrokerError::Refused(reason)),
        Published::Full | Published::Gone => Err(BrokerError::Exiting),
    }
}
