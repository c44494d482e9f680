//! One command of one client.

use std::time::Duration;

use topics::{ConsumerKey, FlightError, Subscription};
use wire::identify::{Negotiated, ServerLimits, renegotiate};
use wire::{ChannelName, Command, MessageId, Phase, ProtocolError};

use super::Reactor;
use super::read::Flow;
use crate::connection::{
    ArrivalStamp, Collecting, ConnectionKey, CumulativeAck, Pause, Progress, Terms,
};

impl Reactor {
    pub(super) fn execute(
        &mut self,
        key: ConnectionKey,
        command: Command<'_>,
        stamp: ArrivalStamp,
    ) -> Flow {
        match command {
            Command::Pub { topic, body } => self.publish(
                key,
                topic,
                std::iter::once(body),
                stamp,
                Duration::ZERO,
                ProtocolError::pub_failed,
            ),
            Command::Mpub { topic, messages } => self.publish(
                key,
                topic,
                messages.iter(),
                stamp,
                Duration::ZERO,
                ProtocolError::mpub_failed,
            ),
            Command::Dpub {
                topic,
                delay_ms,
                body,
            } => {
                let delay = Duration::from_millis(delay_ms);
                self.publish(
                    key,
                    topic,
                    std::iter::once(body),
                    stamp,
                    delay,
                    ProtocolError::dpub_failed,
                )
            }
            Command::Fin { id } => self.finish(key, id),
            Command::Req { id, delay_ms } => self.requeue(key, id, Duration::from_millis(delay_ms)),
            Command::Touch { id } => self.touch(key, id),
            Command::Rdy { count } => self.set_ready(key, count),
            Command::Sub { topic, channel } => self.subscribe(key, topic, channel),
            Command::Identify { body } => self.identify(key, body),
            Command::Cls => self.begin_close(key),
            Command::Nop => Flow::Next,
            Command::Auth { .. } => {
                self.fail(key, &ProtocolError::auth_disabled());
                Flow::End
            }
        }
    }

    fn identify(&mut self, key: ConnectionKey, body: &[u8]) -> Flow {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Flow::End;
        };
        let unidentified = Negotiated::unidentified(&self.server);
        let before = connection.identity.as_deref().unwrap_or(&unidentified);
        let (mut negotiated, answer) = match renegotiate(body, &self.server, before) {
            Ok(negotiated) => negotiated,
            Err(error) => {
                self.fail(key, &error);
                return Flow::End;
            }
        };
        connection.terms = Terms {
            heartbeat: negotiated.heartbeat_interval_ms.map(Duration::from_millis),
            msg_timeout: Duration::from_millis(negotiated.msg_timeout_ms),
            sample_rate: negotiated.sample_rate,
        };
        connection.has_heartbeats = connection.terms.heartbeat.is_some();
        connection.collecting = collecting(&negotiated, &self.server).map(Box::new);
        // What waits now waits by the new terms.
        connection.output.waiting_since = None;
        let acks = negotiated.acks;
        connection.ack =
            acks.map(|terms| CumulativeAck::new(terms.every_messages, terms.interval_ms));
        let announcement = negotiated.announcement.take();
        connection.identity = Some(Box::new(negotiated));
        let heartbeat = connection.terms.heartbeat;
        self.announce(key, announcement);
        self.peers
            .respond(key, answer.as_deref().unwrap_or(b"OK"), self.time.now);
        self.peers.arm_timer(
            key,
            self.time.now + heartbeat.unwrap_or(self.shared.config.heartbeat_interval),
        );
        Flow::Next
    }

    fn subscribe(&mut self, key: ConnectionKey, topic: &str, channel: &str) -> Flow {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Flow::End;
        };
        let home = self.post.home_of(topic);
        if home != self.post.number {
            if connection.in_transit > 0 {
                // Its OKs come back to this reactor; move when they have.
                self.pause(key, Pause::InTransit);
                return Flow::Wait;
            }
            return Flow::HandOver(home);
        }
        let subscription = Subscription {
            connection: key.to_bits(),
            msg_timeout: connection.terms.msg_timeout,
            sample_rate: connection.terms.sample_rate,
            is_finished_when_sent: false,
        };
        let channel: ChannelName = channel.parse().expect("the decoder found the name valid");
        match self.topics.table.subscribe(topic, &channel, subscription) {
            Ok(consumer) => {
                connection.consumer = Some(consumer);
                connection.progress = Progress::Open(Phase::Subscribed);
                self.topics.place(key, self.topics.table.find(topic));
                self.peers.respond(key, b"OK", self.time.now);
                Flow::Next
            }
            Err(refusal) => {
                self.fail(key, &ProtocolError::sub_failed(&refusal.to_string()));
                Flow::End
            }
        }
    }

    fn set_ready(&mut self, key: ConnectionKey, count: u32) -> Flow {
        if let Some(consumer) = self.peers.consumer_of(key) {
            self.topics.table.set_ready(consumer, count);
        }
        Flow::Next
    }

    fn finish(&mut self, key: ConnectionKey, id: MessageId) -> Flow {
        let done = self.in_flight(key, id, |reactor, consumer, id| {
            reactor.topics.table.finish(consumer, id, reactor.time.now)
        });
        self.tell_failure(key, done, |reason| ProtocolError::fin_failed(id, reason))
    }

    fn requeue(&mut self, key: ConnectionKey, id: MessageId, delay: Duration) -> Flow {
        let done = self.in_flight(key, id, |reactor, consumer, id| {
            reactor
                .topics
                .table
                .requeue(consumer, id, delay, reactor.time.now)
        });
        self.tell_failure(key, done, |reason| ProtocolError::req_failed(id, reason))
    }

    fn touch(&mut self, key: ConnectionKey, id: MessageId) -> Flow {
        let longest = self.shared.config.max_msg_timeout;
        let done = self.in_flight(key, id, |reactor, consumer, id| {
            reactor
                .topics
                .table
                .touch(consumer, id, longest, reactor.time.now)
        });
        self.tell_failure(key, done, |reason| ProtocolError::touch_failed(id, reason))
    }

    fn begin_close(&mut self, key: ConnectionKey) -> Flow {
        if let Some(consumer) = self.peers.consumer_of(key) {
            self.topics.table.set_ready(consumer, 0);
        }
        if let Some(connection) = self.peers.connections.get_mut(key) {
            connection.progress = Progress::Open(Phase::Closing);
        }
        self.peers.respond(key, b"CLOSE_WAIT", self.time.now);
        Flow::Next
    }

    fn in_flight(
        &mut self,
        key: ConnectionKey,
        id: MessageId,
        act: impl FnOnce(&mut Reactor, ConsumerKey, u64) -> Result<(), FlightError>,
    ) -> Result<(), FlightError> {
        let consumer = self.peers.consumer_of(key).ok_or(FlightError::UnknownId)?;
        // Ids are numbers in here; what is none was never handed out.
        let number = id.to_u64().ok_or(FlightError::UnknownId)?;
        act(self, consumer, number)
    }

    /// Failures of FIN, REQ and TOUCH are told and the connection goes on, as in nsqd.
    fn tell_failure(
        &mut self,
        key: ConnectionKey,
        done: Result<(), FlightError>,
        error: impl FnOnce(&str) -> ProtocolError,
    ) -> Flow {
        if let Err(reason) = done {
            self.peers
                .send_error(key, &error(reason.text()), self.time.now);
        }
        Flow::Next
    }
}

/// Frames leave when the loop turn ends. A client that names an output buffer timeout of its own is
/// taken at its word; the 250 ms that client libraries send by default are not a wish.
fn collecting(negotiated: &Negotiated, server: &ServerLimits) -> Option<Collecting> {
    let timeout_ms = negotiated.output_buffer_timeout_ms;
    let is_own = timeout_ms > 0 && timeout_ms != server.output_buffer_timeout_ms;
    let bytes = negotiated.output_buffer_bytes as usize;
    is_own.then(|| Collecting {
        timeout: Duration::from_millis(timeout_ms),
        bytes,
    })
}
