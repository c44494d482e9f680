//! Tempo's data connections: messages that carry an identifier, in from publishers and out to
//! subscribers.
//!
//! A publisher is told nothing, and is slowed down by not being read. A subscriber says nothing:
//! the broker has connected to it, and its messages are finished when they are written.

use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use wire::announce::TopicId;
use wire::tempo::{MessageDecoded, decode_message, message_header};

use super::Reading;
use super::act::{Act, Aftermath, Deed, Failure, Message, Next};
use crate::connection::Output;

/// One data connection.
#[derive(Debug)]
pub enum Tempo {
    /// Of a publisher.
    Publisher,
    /// Of a subscriber that the broker has connected to.
    Subscriber(Box<TempoSubscriber>),
}

/// A subscriber of Tempo's, that the broker has connected to.
#[derive(Debug)]
pub struct TempoSubscriber {
    /// The identifier that it knows its topic by.
    pub id: TopicId,
    /// Dropped with the connection, so that its maker notices.
    #[expect(dead_code, reason = "that it is gone is what is seen")]
    pub alive: Arc<()>,
}

impl Tempo {
    #[inline]
    pub(super) fn next<'a>(
        &self,
        bytes: &'a [u8],
        reading: &Reading<'_, 'a>,
    ) -> Result<Next<'a>, Failure> {
        if let Tempo::Subscriber(_) = self {
            return Err(Failure::NotToSpeak);
        }
        match decode_message(bytes, reading.limits.max_msg_size).map_err(Failure::Tempo)? {
            MessageDecoded::Complete { id, body, used } => {
                let topic = reading.identifiers.and_then(|known| known.get(&id));
                let publish = |topic: &'a wire::TopicName| Act::Publish {
                    topic: topic.as_str(),
                    body,
                    delay: Duration::ZERO,
                    deed: Deed::Publish,
                };
                let act = topic.map_or(Act::PublishNowhere, publish);
                Ok(Next::Act { act, used })
            }
            MessageDecoded::Incomplete { needed } => Ok(Next::Incomplete { needed }),
        }
    }

    #[inline]
    pub(super) fn put_message(&self, message: Message<'_>, output: &mut Output, now: Instant) {
        if let Tempo::Subscriber(subscriber) = self {
            // A body is at most as long as `max_msg_size`, a u32.
            let header = message_header(subscriber.id, message.body.len() as u32);
            output.push_message(&header, message.body, message.subscription, now);
        }
    }
}

/// Nobody is told anything; the topic has counted what it refused.
pub(super) fn aftermath(failure: &Failure) -> Aftermath {
    match failure {
        Failure::Refused(..) => Aftermath::GoesOn,
        _ => Aftermath::Closes,
    }
}
