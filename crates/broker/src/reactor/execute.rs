//! Commands of peers, one after the other.

use std::sync::Arc;
use std::time::Duration;

use super::consumers::Consumers;
use super::layers;
use super::read::Reader;
use crate::connection::{ArrivalStamp, Connection, ConnectionKey};
use crate::session::{Act, Deed, Failure, Introduction, Next, Reading};

/// What follows from a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Go on with the next one.
    Next,
    /// It is being executed elsewhere: read no further until it is.
    Pause,
    /// This one cannot be executed now: keep it, read no further.
    Wait,
    /// The connection lingers, is closed, or has moved: its bytes are of no more use.
    End,
    /// What follows is said in other layers.
    Upgrade,
    /// Move the connection with this command to another reactor.
    HandOver(usize),
}

/// What became of bytes that were given to be executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    /// So many are of no more use.
    pub(super) bytes: usize,
    /// The connection is to move to this reactor, with the rest.
    pub(super) moves_to: Option<usize>,
}

impl Reader<'_> {
    /// Executes every complete command of `bytes`; gives how many bytes they took.
    pub(super) fn execute_all(&mut self, key: ConnectionKey, bytes: &[u8]) -> Executed {
        let stays = |bytes| Executed {
            bytes,
            moves_to: None,
        };
        let (mut used, mut identifiers) = (0, None);
        while used < bytes.len() {
            let Some(connection) = self.relay.hall.peers.connections.get_mut(key) else {
                return stays(bytes.len());
            };
            if connection.is_lingering {
                return stays(bytes.len());
            }
            if connection.is_over_full(self.relay.hall.peers.memory.output_full_bytes) {
                match self.relay.hall.write(|writer| writer.relieve(key)) {
                    // It may be gone.
                    true => continue,
                    false => return stays(used),
                }
            }
            let Connection {
                session, output, ..
            } = connection;
            if identifiers.is_none() && session.uses_identifiers() {
                identifiers = Some(Arc::clone(&self.relay.hall.topics.identifiers));
            }
            let reading = Reading {
                limits: &self.intake.limits,
                server: &self.intake.server,
                identifiers: identifiers.as_deref(),
                now: self.relay.hall.time.now,
            };
            match session.next(&bytes[used..], output, &reading) {
                Ok(Next::Act { act, used: length }) => {
                    let stamp = connection.arrivals.stamp(used + length);
                    match self.execute(key, act, stamp) {
                        Flow::Next => used += length,
                        Flow::Pause => return stays(used + length),
                        Flow::Wait => return stays(used),
                        Flow::End => return stays(bytes.len()),
                        Flow::Upgrade => {
                            if let Some(wanted) = self.intake.upgrading.take() {
                                let behind = &bytes[used + length..];
                                layers::upgrade(self.relay.hall, key, wanted, behind);
                            }
                            return stays(bytes.len());
                        }
                        Flow::HandOver(home) => {
                            return Executed {
                                bytes: used,
                                moves_to: Some(home),
                            };
                        }
                    }
                }
                Ok(Next::Incomplete { needed }) => {
                    connection.needed = needed;
                    return stays(used);
                }
                Ok(Next::Greeting) => match self.relay.hall.greet(key, &bytes[used..]) {
                    Ok(0) => return stays(used),
                    Ok(magic) => used += magic,
                    Err(()) => return stays(bytes.len()),
                },
                Err(failure) => {
                    self.relay.hall.fail(key, &failure);
                    return stays(bytes.len());
                }
            }
        }
        stays(used)
    }

    #[inline]
    fn execute(&mut self, key: ConnectionKey, act: Act<'_>, stamp: ArrivalStamp) -> Flow {
        match act {
            Act::Publish {
                topic,
                body,
                delay,
                deed,
            } => self
                .relay
                .publish(key, topic, std::iter::once(body), stamp, delay, deed),
            Act::PublishMany { topic, messages } => {
                let (bodies, no_delay) = (messages.iter(), Duration::ZERO);
                self.relay
                    .publish(key, topic, bodies, stamp, no_delay, Deed::PublishMany)
            }
            Act::PublishNowhere => {
                self.relay.hall.peers.counters.tempo_unknown_ids += 1;
                Flow::Next
            }
            Act::Order { of, order } => self.consumers().order(key, of, order),
            Act::Subscribe {
                topic,
                channel,
                terms,
            } => self.consumers().subscribe(key, topic, channel, terms),
            Act::Introduce(introduction) => self.introduce(key, *introduction),
            Act::Close => self.consumers().begin_close(key),
            Act::Refuse(failure) => self.tell_failure(key, &failure),
            Act::Rest => Flow::Next,
        }
    }

    /// Takes in what a peer said of itself, which its session has answered.
    fn introduce(&mut self, key: ConnectionKey, introduction: Introduction) -> Flow {
        let Some(connection) = self.relay.hall.peers.connections.get_mut(key) else {
            return Flow::End;
        };
        connection.collecting = introduction.collecting.map(Box::new);
        // What waits now waits by the new terms.
        connection.output.waiting_since = None;
        let interval = connection.interval(self.relay.hall.shared.config.heartbeat_interval);
        self.relay
            .hall
            .publishers()
            .announce(key, introduction.declaration);
        self.relay.hall.peers.mark_dirty(key);
        self.relay
            .hall
            .peers
            .arm_timer(key, self.relay.hall.time.now + interval);
        match introduction.upgrade {
            Some(wanted) => {
                self.intake.upgrading = Some(*wanted);
                Flow::Upgrade
            }
            None => Flow::Next,
        }
    }

    /// Tells a peer what went wrong, however it may go on.
    fn tell_failure(&mut self, key: ConnectionKey, failure: &Failure) -> Flow {
        let _goes_on = self
            .relay
            .hall
            .peers
            .tell_failure(key, failure, self.relay.hall.time.now);
        Flow::Next
    }

    /// What consumers need of it.
    #[inline]
    fn consumers(&mut self) -> Consumers<'_> {
        Consumers {
            hall: self.relay.hall,
        }
    }
}
