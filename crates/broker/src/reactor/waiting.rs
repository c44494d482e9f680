//! Publishers that wait for room in a topic's queue: who goes on when there is some, and in which
//! order.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kernel::TaskId;
use link::Declaration;
use topics::{Arrival, Published, Source, TopicKey, WaitingPublisher};

use super::durable::Undurable;
use super::inbox::{Mail, Settled};
use super::publish::answer_of;
use super::publishers::name_of;
use super::relay::Relay;
use crate::BrokerError;
use crate::connection::ConnectionKey;
use crate::handle::Reply;

/// A publish that did not fit. The topic keeps the place in its line, as a [`WaitingPublisher`], the reactor what stands there.
#[derive(Debug)]
pub(super) enum WaitingPublish {
    /// Of a connection of this reactor: it has stopped reading, its command is still in its buffer.
    Connection(ConnectionKey),
    /// One that came from another reactor.
    Remote(Box<RemotePublish>),
    /// One that came through the handle (HTTP).
    Request(Box<WaitingRequest>),
}

/// A publish on its way from the reactor that read it to the one that owns the topic.
#[derive(Debug)]
pub struct RemotePublish {
    /// Reactor that owns the connection.
    pub from: usize,
    /// The task there that is charged with answering it.
    pub task: TaskId,
    /// The connection, in that reactor's numbering.
    pub connection: u64,
    /// The publisher that it is known as for the topic.
    pub publisher: Option<Arc<Declaration>>,
    /// Who is at its other end.
    pub peer: SocketAddr,
    /// The bodies, back to back.
    pub bytes: Vec<u8>,
    /// Length of each body.
    pub lengths: Vec<u32>,
    /// When it reached the broker.
    pub arrival: Arrival,
    /// Delay before consumers get it.
    pub delay: Duration,
}

/// A publish through the handle, waiting for room.
#[derive(Debug)]
pub struct WaitingRequest {
    /// Against whom the topic counts if it is made.
    pub maker: Option<IpAddr>,
    /// The messages.
    pub bodies: Vec<Bytes>,
    /// When the request came.
    pub arrival: Arrival,
    /// Delay before consumers get it.
    pub delay: Duration,
    /// Who waits for the answer.
    pub reply: Reply<()>,
}

impl RemotePublish {
    /// The bodies one by one.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.lengths.iter().scan(0usize, |start, &length| {
            let body = &self.bytes[*start..*start + length as usize];
            *start += length as usize;
            Some(body)
        })
    }
}

impl Relay<'_> {
    /// Tells a publisher that waits that its topic is gone: a connection tries anew (and makes the topic
    /// again, or hears that the broker stops), the others are told.
    pub(super) fn settle_without_topic(&mut self, number: WaitingPublisher) {
        match self.hall.topics.take_waiting(number) {
            None => {}
            Some(WaitingPublish::Connection(key)) => {
                let (schedule, now) = (&mut self.hall.topics.schedule, self.hall.time.now);
                self.hall.peers.let_go_on(key, schedule, now);
            }
            Some(WaitingPublish::Remote(remote)) => self.send_settled(&remote, Published::Gone),
            Some(WaitingPublish::Request(request)) => {
                request.reply.send(Err(BrokerError::Exiting));
            }
        }
    }

    /// Tries a publish of another reactor again; says whether the next one that waits may be tried, too.
    pub(super) fn resume_remote(&mut self, topic: TopicKey, remote: Box<RemotePublish>) -> bool {
        let (arrival, delay) = (remote.arrival, remote.delay);
        let outcome = self
            .hall
            .topics
            .table
            .publish(topic, remote.bodies(), arrival, delay);
        match outcome {
            Published::Full => {
                self.hall
                    .topics
                    .keep_waiting(topic, WaitingPublish::Remote(remote), true);
                return false;
            }
            Published::Accepted | Published::Logged(_) => {
                let source = Source {
                    reactor: remote.from,
                    connection: remote.connection,
                    is_declared: remote.publisher.is_some(),
                };
                let name = || name_of(remote.publisher.as_deref(), remote.peer);
                let messages = remote.lengths.len() as u32;
                self.hall
                    .topics
                    .table
                    .note_source(topic, source, messages, &arrival, name);
            }
            Published::Refused(_) | Published::Gone => {}
        }
        if let Published::Logged(number) = outcome {
            let waiter = Undurable::Away(remote.from, settled(&remote, Published::Accepted));
            self.hall.topics.waiters.push(topic, number, waiter);
        } else {
            self.send_settled(&remote, outcome);
        }
        true
    }

    /// Tries a publish of the handle again; says whether the next one that waits may be tried, too.
    pub(super) fn resume_request(&mut self, topic: TopicKey, request: Box<WaitingRequest>) -> bool {
        let bodies = request.bodies.iter().map(AsRef::as_ref);
        let outcome = self
            .hall
            .topics
            .table
            .publish(topic, bodies, request.arrival, request.delay);
        match outcome {
            Published::Full => {
                self.hall
                    .topics
                    .keep_waiting(topic, WaitingPublish::Request(request), true);
                return false;
            }
            Published::Accepted | Published::Logged(_) => self.note_request(topic, &request),
            Published::Refused(_) | Published::Gone => {}
        }
        if let Published::Logged(number) = outcome {
            let waiter = Undurable::Request(request.reply);
            self.hall.topics.waiters.push(topic, number, waiter);
        } else {
            request.reply.send(answer_of(outcome));
        }
        true
    }

    fn send_settled(&mut self, remote: &RemotePublish, outcome: Published) {
        let settled = settled(remote, outcome);
        self.hall.post.send(remote.from, Mail::Settled(settled));
    }
}

fn settled(remote: &RemotePublish, outcome: Published) -> Settled {
    Settled {
        task: remote.task,
        connection: remote.connection,
        messages: remote.lengths.len() as u32,
        delay: remote.delay,
        bytes: remote.bytes.len(),
        outcome,
    }
}
