//! Executes the commands of peers, one after the other.

use std::sync::Arc;
use std::time::Duration;

use super::admission;
use super::consumers::Consumers;
use super::layers;
use super::read::Reader;
use super::strangers;
use crate::connection::{ArrivalStamp, Connection, ConnectionKey};
use crate::session::{Act, Deed, Failure, Introduction, Next, Reading};

/// How reading goes on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuation {
    /// Go on with the next one.
    Next,
    /// It is being executed elsewhere: read no further until it is.
    Pause,
    /// This one cannot be executed now: keep it, read no further.
    Wait,
    /// The connection lingers, is closed, or has moved: its bytes are of no more use.
    End,
    /// The following bytes have other layers.
    Upgrade,
    /// Move the connection with this command to another reactor.
    HandOver(usize),
}

/// The outcome of executing received bytes.
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
                auth: self.intake.auth.as_ref(),
                now: self.relay.hall.time.now,
            };
            match session.next(&bytes[used..], output, &reading) {
                Ok(Next::Act { act, used: length }) => {
                    let stamp = connection.arrivals.stamp(used + length);
                    let is_stranger = connection.is_stranger;
                    match self.execute(key, act, stamp, is_stranger) {
                        Continuation::Next => used += length,
                        Continuation::Pause => return stays(used + length),
                        Continuation::Wait => return stays(used),
                        Continuation::End => return stays(bytes.len()),
                        Continuation::Upgrade => {
                            self.upgrade(key, &bytes[used + length..]);
                            return stays(bytes.len());
                        }
                        Continuation::HandOver(home) => {
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

    /// Executes a command; whoever has given one is no stranger, unless TLS follows.
    #[inline]
    fn execute(
        &mut self,
        key: ConnectionKey,
        act: Act<'_>,
        stamp: ArrivalStamp,
        is_stranger: bool,
    ) -> Continuation {
        let flow = self.carry_out(key, act, stamp);
        if is_stranger && flow != Continuation::Upgrade {
            strangers::recognize(self.relay.hall, key);
        }
        flow
    }

    /// Gives a connection the layers that it asked for; `behind` has come with that.
    fn upgrade(&mut self, key: ConnectionKey, behind: &[u8]) {
        if let Some(wanted) = self.intake.upgrading.take() {
            layers::upgrade(self.relay.hall, key, wanted, behind);
            strangers::recognize(self.relay.hall, key);
        }
    }

    #[inline]
    fn carry_out(&mut self, key: ConnectionKey, act: Act<'_>, stamp: ArrivalStamp) -> Continuation {
        match act {
            Act::Publish {
                topic,
                body,
                delay,
                deed,
            } => {
                let delay = self.relay.hall.time.delay_from(stamp.read, delay);
                let bodies = std::iter::once(body);
                self.relay.publish(key, topic, bodies, stamp, delay, deed)
            }
            Act::PublishMany { topic, messages } => {
                let (bodies, no_delay) = (messages.iter(), Duration::ZERO);
                self.relay
                    .publish(key, topic, bodies, stamp, no_delay, Deed::PublishMany)
            }
            Act::PublishNowhere => {
                self.relay.hall.peers.counters.tempo_unknown_ids += 1;
                Continuation::Next
            }
            Act::Order { of, order } => self.consumers().order(key, of, order),
            Act::Subscribe {
                topic,
                channel,
                terms,
            } if !self.relay.waits_for_answers(key) => {
                self.consumers().subscribe(key, topic, channel, terms)
            }
            Act::Subscribe { .. } => Continuation::Wait,
            Act::Introduce(introduction) => self.introduce(key, *introduction),
            Act::Close => self.consumers().begin_close(key),
            Act::Authenticate => admission::ask_authorizations(self.relay.hall, key),
            Act::Admit(declaration) => {
                admission::admit(self.relay.hall, key, declaration.map(|told| *told))
            }
            Act::Refuse(failure) => self.tell_failure(key, &failure),
            Act::Rest => {
                self.relay.hall.peers.mark_dirty(key);
                Continuation::Next
            }
        }
    }

    /// Takes in what a peer said of itself, which its session has answered.
    fn introduce(&mut self, key: ConnectionKey, introduction: Introduction) -> Continuation {
        let Some(connection) = self.relay.hall.peers.connections.get_mut(key) else {
            return Continuation::End;
        };
        connection.collecting = introduction.collecting.map(Box::new);
        // What waits now waits by the new terms.
        connection.output.waiting_since = None;
        let interval = connection.interval(self.relay.hall.shared.config.heartbeat_interval);
        self.relay
            .hall
            .publishers()
            .declare(key, introduction.declaration);
        self.relay.hall.peers.mark_dirty(key);
        self.relay
            .hall
            .peers
            .arm_timer(key, self.relay.hall.time.now + interval);
        match introduction.upgrade {
            Some(wanted) => {
                self.intake.upgrading = Some(*wanted);
                Continuation::Upgrade
            }
            None => Continuation::Next,
        }
    }

    /// Tells a peer what went wrong, however it may go on.
    fn tell_failure(&mut self, key: ConnectionKey, failure: &Failure) -> Continuation {
        let _goes_on = self
            .relay
            .hall
            .peers
            .tell_failure(key, failure, self.relay.hall.time.now);
        Continuation::Next
    }

    /// The parts that consumers need.
    #[inline]
    fn consumers(&mut self) -> Consumers<'_> {
        Consumers {
            hall: self.relay.hall,
        }
    }
}
