//! Publishers that wait for room in a topic's queue: who goes on when there is some, and in which order.

use super::Reactor;
use super::inbox::{Mail, Settled};
use super::publish::answer_of;
use super::publishers::name_of;
use super::readiness::Readiness;
use crate::BrokerError;
use crate::connection::{ConnectionKey, Pause};
use crate::topic::{Held, HeldRequest, Published, RemotePublish, Source, TopicKey};

impl Reactor {
    /// Lets publishers go on that were held at topics with room again.
    pub(super) fn resume_held(&mut self) {
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
        // Whatever became roomy meanwhile has its turn ahead.
        roomy.append(&mut self.roomy);
        self.roomy = roomy;
    }

    /// Tells a held publisher that its topic is gone: a connection tries anew (and makes the topic
    /// again, or hears that the broker stops), the others are told.
    pub(super) fn settle_orphan(&mut self, held: Held) {
        match held {
            Held::Connection(bits) => self.let_go_on(ConnectionKey::from_bits(bits)),
            Held::Remote(remote) => self.send_settled(&remote, Published::Gone),
            Held::Request(request) => {
                let _ = request.reply.send(Err(BrokerError::Exiting));
            }
        }
    }

    /// A publisher may be read from again.
    pub(super) fn let_go_on(&mut self, key: ConnectionKey) {
        self.unpause(key);
        self.schedule.notice(key, Readiness::RESUMED);
    }

    /// Whether the next one held may be tried, too.
    fn resume(&mut self, topic: TopicKey, held: Held) -> bool {
        match held {
            Held::Connection(bits) => {
                let key = ConnectionKey::from_bits(bits);
                self.unpause(key);
                self.reconsider(key);
                self.work_for_turn();
                self.connections
                    .get(key)
                    .is_none_or(|connection| connection.pause != Pause::Held)
            }
            Held::Remote(remote) => self.resume_remote(topic, remote),
            Held::Request(request) => self.resume_request(topic, request),
        }
    }

    fn resume_remote(&mut self, topic: TopicKey, remote: Box<RemotePublish>) -> bool {
        let (arrival, delay) = (remote.arrival, remote.delay);
        let outcome = self.table.publish(topic, remote.bodies(), arrival, delay);
        match outcome {
            Published::Full => {
                self.table.hold(topic, Held::Remote(remote), true);
                return false;
            }
            Published::Accepted => {
                let source = Source {
                    reactor: remote.from,
                    connection: remote.connection,
                    is_announced: remote.publisher.is_some(),
                };
                let name = || name_of(remote.publisher.as_deref(), remote.peer);
                let messages = remote.lengths.len() as u32;
                self.table
                    .note_source(topic, source, messages, &arrival, name);
            }
            Published::Refused(_) | Published::Gone => {}
        }
        self.send_settled(&remote, outcome);
        true
    }

    fn resume_request(&mut self, topic: TopicKey, request: Box<HeldRequest>) -> bool {
        let bodies = request.bodies.iter().map(AsRef::as_ref);
        let outcome = self
            .table
            .publish(topic, bodies, request.arrival, request.delay);
        match outcome {
            Published::Full => {
                self.table.hold(topic, Held::Request(request), true);
                return false;
            }
            Published::Accepted => self.note_request(topic, &request),
            Published::Refused(_) | Published::Gone => {}
        }
        let _ = request.reply.send(answer_of(outcome));
        true
    }

    fn send_settled(&mut self, remote: &RemotePublish, outcome: Published) {
        let messages = remote.lengths.len() as u32;
        let settled = Settled {
            task: remote.task,
            connection: remote.connection,
            messages,
            delay: remote.delay,
            bytes: remote.bytes.len(),
            outcome,
        };
        self.outboxes[remote.from].push(Mail::Settled(settled));
    }
}
