//! NSQ V2 and the SRTM extension: commands in, frames out.

mod admission;
mod authentication;
mod cumulative_ack;
mod introduction;

use std::time::Duration;

use clock::Instant;
use topics::ConsumerOrder;
use wire::identify::{Negotiated, ServerLimits};
use wire::{
    Command, Decoded, ErrorCode, MESSAGE_HEADER_BYTES, MessageId, OK_FRAME, Phase, ProtocolError,
};

use super::Reading;
use super::act::{Acknowledged, Act, Aftermath, Deed, Failure, Message, Next, Terms};
use crate::connection::{Output, SubscriptionNumber};
use crate::stats::ClientStats;

use admission::{Admission, Admitted, Judged};
use cumulative_ack::CumulativeAck;

/// OKs enough for most turns, ready to be sent.
static OK_FRAMES: [u8; OK_FRAME.len() * 64] = {
    let mut frames = [0; OK_FRAME.len() * 64];
    let mut at = 0;
    while at < frames.len() {
        frames[at] = OK_FRAME[at % OK_FRAME.len()];
        at += 1;
    }
    frames
};

/// The subscription of a client: it may have one.
const SOLE: SubscriptionNumber = 0;

/// A client of NSQ's protocol.
#[derive(Debug)]
pub struct Nsq {
    phase: Phase,
    /// Heartbeats were not disabled; part of `identity` that each command asks for.
    has_heartbeats: bool,
    /// OKs owed for publishes of this turn.
    oks: u32,
    /// Set where cumulative acks were negotiated.
    ack: Option<CumulativeAck>,
    /// The negotiated identity; nothing until IDENTIFY.
    identity: Option<Box<Negotiated>>,
    /// What it may do, where that is asked.
    admission: Admission,
}

impl Nsq {
    /// A client that has said the magic; where it `needs_tls` it can only ask for that.
    #[must_use]
    pub fn begin(needs_tls: bool) -> Nsq {
        Nsq {
            phase: match needs_tls {
                true => Phase::Unencrypted,
                false => Phase::Init,
            },
            has_heartbeats: true,
            oks: 0,
            ack: None,
            identity: None,
            admission: Admission::default(),
        }
    }

    #[inline]
    pub(super) fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        output: &mut Output,
        reading: &Reading<'_, 'a>,
    ) -> Result<Next<'a>, Failure> {
        match wire::decode(bytes, reading.limits, self.phase, self.has_heartbeats) {
            Ok(Decoded::Complete { command, consumed }) => {
                if let Some(terms) = reading.auth
                    && self.judge(&command, terms, reading.now)? == Judged::AskAgain
                {
                    // The command stays, and is judged again when the answer is there.
                    return Ok(Next::Act {
                        act: Act::Authenticate,
                        used: 0,
                    });
                }
                Ok(Next::Act {
                    act: self.act(command, output, reading)?,
                    used: consumed,
                })
            }
            Ok(Decoded::Incomplete { needed }) => Ok(Next::Incomplete { needed }),
            Err(error) => Err(Failure::Nsq(error)),
        }
    }

    #[inline]
    fn act<'a>(
        &mut self,
        command: Command<'a>,
        output: &mut Output,
        reading: &Reading<'_, 'a>,
    ) -> Result<Act<'a>, Failure> {
        Ok(match command {
            Command::Pub { topic, body } => Act::Publish {
                topic,
                body,
                delay: Duration::ZERO,
                deed: Deed::Publish,
            },
            Command::Mpub { topic, messages } => Act::PublishMany { topic, messages },
            Command::Dpub {
                topic,
                delay_ms,
                body,
            } => Act::Publish {
                topic,
                body,
                delay: Duration::from_millis(delay_ms),
                deed: Deed::PublishLater,
            },
            Command::Fin { id } => match id.to_u64() {
                Some(id) => order(ConsumerOrder::Finish(id)),
                None => refused(ProtocolError::fin_failed(id, wire::ID_NOT_IN_FLIGHT)),
            },
            Command::Req { id, delay_ms } => match id.to_u64() {
                Some(id) => order(ConsumerOrder::Requeue(id, Duration::from_millis(delay_ms))),
                None => refused(ProtocolError::req_failed(id, wire::ID_NOT_IN_FLIGHT)),
            },
            Command::Touch { id } => match id.to_u64() {
                Some(id) => order(ConsumerOrder::Touch(id)),
                None => refused(ProtocolError::touch_failed(id, wire::ID_NOT_IN_FLIGHT)),
            },
            Command::Rdy { count } => order(ConsumerOrder::Ready(count)),
            Command::Sub { topic, channel } => Act::Subscribe {
                topic,
                channel,
                terms: self.terms(reading.server),
            },
            Command::Identify { body } => {
                Act::Introduce(Box::new(self.identify(body, output, reading)?))
            }
            Command::Cls => Act::Close,
            Command::Nop => Act::Rest,
            Command::Auth { body } => self.auth(body, output, reading)?,
        })
    }

    #[inline]
    pub(super) fn accept(&mut self, messages: u32, now: Instant) -> Acknowledged {
        let Some(ack) = &mut self.ack else {
            self.oks += 1;
            return Acknowledged::Now;
        };
        ack.accept(messages);
        if ack.is_due(now) {
            return Acknowledged::Now;
        }
        ack.begin_waiting(now)
            .map_or(Acknowledged::Later, Acknowledged::At)
    }

    #[inline]
    pub(super) fn settle(&mut self, output: &mut Output, now: Instant) {
        for _ in 0..std::mem::take(&mut self.oks) {
            output.bytes().extend_from_slice(&OK_FRAME);
        }
        if let Some(number) = self.ack.as_mut().and_then(|ack| ack.take(now)) {
            wire::put_ack(output.bytes(), number);
        }
    }

    #[inline]
    pub(super) fn take_ready_frames(&mut self) -> Option<&'static [u8]> {
        if self.ack.is_some() || self.oks == 0 {
            return None;
        }
        let frames = OK_FRAMES.get(..self.owed_bytes())?;
        self.oks = 0;
        Some(frames)
    }

    #[inline]
    pub(super) fn owed_bytes(&self) -> usize {
        self.oks as usize * OK_FRAME.len()
    }

    pub(super) fn ack_due(&self) -> Option<Instant> {
        self.ack.as_ref()?.due
    }

    pub(super) fn hasten(&mut self, now: Instant) -> bool {
        if let Some(ack) = &mut self.ack {
            ack.hasten(now);
        }
        self.ack.is_some()
    }

    pub(super) fn put_subscribed(&mut self, output: &mut Output) {
        self.phase = Phase::Subscribed;
        output.bytes().extend_from_slice(&OK_FRAME);
    }

    pub(super) fn put_closing(&mut self, output: &mut Output) {
        self.phase = Phase::Closing;
        output.bytes().extend_from_slice(&wire::CLOSE_WAIT_FRAME);
    }

    #[inline]
    pub(super) fn has_heartbeats(&self) -> bool {
        self.has_heartbeats
    }

    pub(super) fn interval(&self) -> Option<Duration> {
        let asked = self.identity.as_ref()?.heartbeat_interval_ms;
        asked.map(Duration::from_millis)
    }

    /// Adds what the client told of itself; gives its state.
    pub(super) fn describe(&self, client: &mut ClientStats) -> u8 {
        if let Some(identity) = &self.identity {
            client.client_id.clone_from(&identity.client_id);
            client.hostname.clone_from(&identity.hostname);
            client.user_agent.clone_from(&identity.user_agent);
            client.sample_rate = identity.sample_rate;
            client.layers = identity.layers;
        }
        if let Some(permit) = self.admission.permit() {
            client.is_authed = permit.count() > 0;
            permit.identity().clone_into(&mut client.auth_identity);
            permit
                .identity_url()
                .clone_into(&mut client.auth_identity_url);
        }
        match self.phase {
            Phase::Init | Phase::Unencrypted => 0,
            Phase::Subscribed => 3,
            Phase::Closing => 4,
        }
    }

    fn terms(&self, server: &ServerLimits) -> Terms {
        let identity = self.identity.as_deref();
        let timeout_ms = identity.map_or(server.msg_timeout_ms, |told| told.msg_timeout_ms);
        Terms {
            msg_timeout: Duration::from_millis(timeout_ms),
            sample_rate: identity.map_or(0, |told| told.sample_rate),
            is_finished_when_sent: false,
        }
    }
}

/// Puts a message into the output.
#[inline]
pub(super) fn put_message(message: Message<'_>, output: &mut Output, now: Instant) {
    let mut header = [0; MESSAGE_HEADER_BYTES];
    let (bytes, id) = (message.body.len(), MessageId::from_u64(message.id));
    wire::put_message_header(&mut header, bytes, message.wall_ns, message.attempts, id);
    output.push_message(&header, message.body, message.subscription, now);
}

/// Puts an error frame into the output, with nsqd's code and text.
pub(super) fn put_failure(failure: &Failure, output: &mut Output) -> Aftermath {
    let error = match failure {
        Failure::Nsq(error) => error.clone(),
        Failure::Refused(deed, reason) => error_of(*deed, reason),
        Failure::Exiting(deed) => error_of(*deed, "exiting"),
        // Not within the rules of whatever else is spoken here.
        _ => return Aftermath::Closes,
    };
    wire::put_error(output.bytes(), &error);
    match error.fatal {
        true => Aftermath::Lingers,
        false => Aftermath::GoesOn,
    }
}

fn error_of(deed: Deed, reason: &str) -> ProtocolError {
    match deed {
        Deed::Publish => ProtocolError::pub_failed(reason),
        Deed::PublishMany => ProtocolError::mpub_failed(reason),
        Deed::PublishLater => ProtocolError::dpub_failed(reason),
        Deed::Subscribe => ProtocolError::sub_failed(reason),
        Deed::Order(ConsumerOrder::Finish(id)) => ProtocolError::fin_failed(id.into(), reason),
        Deed::Order(ConsumerOrder::Requeue(id, _)) => ProtocolError::req_failed(id.into(), reason),
        Deed::Order(ConsumerOrder::Touch(id)) => ProtocolError::touch_failed(id.into(), reason),
        Deed::Order(ConsumerOrder::Ready(_)) => {
            ProtocolError::new(ErrorCode::Invalid, reason.to_owned())
        }
    }
}

fn order<'a>(order: ConsumerOrder) -> Act<'a> {
    Act::Order { of: SOLE, order }
}

fn refused<'a>(error: ProtocolError) -> Act<'a> {
    Act::Refuse(Failure::Nsq(error))
}

#[cfg(test)]
mod tests;
