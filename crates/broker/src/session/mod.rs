//! What is spoken on a connection: one protocol each, chosen by the bytes that it begins with.
//!
//! A session owns the protocol's decoding, framing, acknowledgements, errors and heartbeats. What it reads becomes an [`Act`],
//! which the reactor carries out; what comes of that the reactor tells the session, which puts it into the output in its own
//! words. It knows no socket, no topic table and no clock: a further protocol is a variant here, with a folder of its own and
//! its magic in [`greeting`].

mod act;
pub mod greeting;
#[cfg(test)]
mod lines;
pub mod nsq;
pub mod tempo;

use clock::Instant;
use rustc_hash::FxHashMap;
use wire::TopicName;
use wire::announce::TopicId;
use wire::identify::ServerLimits;

use crate::connection::{Output, SubscriptionNumber};
use crate::stats::ClientStats;

pub use act::{
    Acknowledged, Act, Aftermath, Deed, Failure, Introduction, LayersWanted, Message, Next, Terms,
};

use nsq::Nsq;
use tempo::Tempo;

/// The protocol of a connection, and how far it has come in it.
#[derive(Debug)]
pub enum Session {
    /// The bytes that choose it are awaited.
    Greeting,
    /// NSQ V2, with the SRTM extension.
    Nsq(Nsq),
    /// Messages of Tempo's, in from a publisher or out to a subscriber.
    Tempo(Tempo),
    /// Lines, for tests: of several subscriptions.
    #[cfg(test)]
    Lines(lines::Lines),
}

/// What sessions read by.
#[derive(Debug)]
pub struct Reading<'r, 'a> {
    /// Bounds of what may be said.
    pub limits: &'r wire::Limits,
    /// What the broker offers.
    pub server: &'r ServerLimits,
    /// What identifiers of topics stand for, for sessions that [use](Session::uses_identifiers) them.
    pub identifiers: Option<&'a FxHashMap<TopicId, TopicName>>,
    /// The time.
    pub now: Instant,
}

impl Session {
    /// Reads what `bytes` begin with. What the protocol answers by itself goes to `output`.
    ///
    /// # Errors
    /// What came makes no sense.
    #[inline]
    pub fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        output: &mut Output,
        reading: &Reading<'_, 'a>,
    ) -> Result<Next<'a>, Failure> {
        match self {
            Session::Nsq(nsq) => nsq.next(bytes, output, reading),
            Session::Tempo(tempo) => tempo.next(bytes, reading),
            Session::Greeting => Ok(Next::Greeting),
            #[cfg(test)]
            Session::Lines(_) => lines::next(bytes),
        }
    }

    /// Counts messages that were accepted of it.
    #[inline]
    pub fn accept(&mut self, messages: u32, now: Instant) -> Acknowledged {
        match self {
            Session::Nsq(nsq) => nsq.accept(messages, now),
            _ => Acknowledged::Never,
        }
    }

    /// Puts what is owed at `now` into the output, so that what follows comes after it.
    #[inline]
    pub fn settle(&mut self, output: &mut Output, now: Instant) {
        if let Session::Nsq(nsq) = self {
            nsq.settle(output, now);
        }
    }

    /// What is owed, where that is nothing but frames that stand ready to be sent. They count as sent.
    #[inline]
    pub fn take_ready_frames(&mut self) -> Option<&'static [u8]> {
        match self {
            Session::Nsq(nsq) => nsq.take_ready_frames(),
            _ => None,
        }
    }

    /// Bytes that are owed and not in the output.
    #[inline]
    #[must_use]
    pub fn owed_bytes(&self) -> usize {
        match self {
            Session::Nsq(nsq) => nsq.owed_bytes(),
            _ => 0,
        }
    }

    /// When an acknowledgement is due, if one waits for its time.
    #[must_use]
    pub fn ack_due(&self) -> Option<Instant> {
        match self {
            Session::Nsq(nsq) => nsq.ack_due(),
            _ => None,
        }
    }

    /// Makes an acknowledgement due at `now`, because connection or broker come to their end; says whether there may be one.
    pub fn hasten(&mut self, now: Instant) -> bool {
        match self {
            Session::Nsq(nsq) => nsq.hasten(now),
            _ => false,
        }
    }

    /// Puts a message into the output.
    #[inline]
    pub fn deliver(&self, message: Message<'_>, output: &mut Output, now: Instant) {
        match self {
            Session::Nsq(_) => nsq::put_message(message, output, now),
            Session::Tempo(tempo) => tempo.put_message(message, output, now),
            Session::Greeting => {}
            #[cfg(test)]
            Session::Lines(_) => lines::put_message(message, output, now),
        }
    }

    /// Tells what went wrong, and says what becomes of the connection. What is owed is to be [settled](Session::settle) before.
    #[must_use]
    pub fn tell_failure(&self, failure: &Failure, output: &mut Output) -> Aftermath {
        match self {
            // Who does not say what it speaks is told what NSQ's clients understand.
            Session::Nsq(_) | Session::Greeting => nsq::put_failure(failure, output),
            Session::Tempo(_) => tempo::aftermath(failure),
            #[cfg(test)]
            Session::Lines(_) => lines::put_failure(failure, output),
        }
    }

    /// A subscription has begun; `number` is what it is called from now on.
    pub fn tell_subscribed(&mut self, number: SubscriptionNumber, output: &mut Output) {
        #[cfg(test)]
        if let Session::Lines(lines) = self {
            return lines.put_subscribed(number, output);
        }
        // What has one subscription does not name it.
        let _ = number;
        if let Session::Nsq(nsq) = self {
            nsq.put_subscribed(output);
        }
    }

    /// No more messages come, as was asked for.
    pub fn tell_closing(&mut self, output: &mut Output) {
        if let Session::Nsq(nsq) = self {
            nsq.put_closing(output);
        }
    }

    /// A publisher waits for room, for about so long; says whether the protocol has words for it.
    pub fn tell_throttled(&self, topic: &TopicName, wait_us: u32, output: &mut Output) -> bool {
        let has_words = matches!(self, Session::Nsq(_));
        if has_words {
            wire::put_throttled(output.bytes(), topic.as_str(), wait_us);
        }
        has_words
    }

    /// A publisher is to go on at the broker at `address`; says whether the protocol has words for it.
    pub fn tell_migrate(&self, topic: &TopicName, address: &str, output: &mut Output) -> bool {
        let has_words = matches!(self, Session::Nsq(_));
        if has_words {
            wire::put_migrate(output.bytes(), topic.as_str(), address);
        }
        has_words
    }

    /// Asks the peer whether it is there.
    pub fn put_heartbeat(&self, output: &mut Output) {
        if let Session::Nsq(_) = self {
            output.bytes().extend_from_slice(&wire::HEARTBEAT_FRAME);
        }
    }

    /// Whether the peer is asked whether it is there.
    #[inline]
    #[must_use]
    pub fn has_heartbeats(&self) -> bool {
        match self {
            Session::Nsq(nsq) => nsq.has_heartbeats(),
            _ => false,
        }
    }

    /// How often it is looked at, where it asked for anything else than the broker's interval.
    #[must_use]
    pub fn interval(&self) -> Option<std::time::Duration> {
        match self {
            Session::Nsq(nsq) => nsq.interval(),
            _ => None,
        }
    }

    /// Whether it may have several subscriptions. A connection that may have one moves to the reactor of its topic; the others
    /// stay where they are.
    #[must_use]
    pub fn may_subscribe_again(&self) -> bool {
        match self {
            Session::Nsq(_) | Session::Tempo(_) | Session::Greeting => false,
            #[cfg(test)]
            Session::Lines(_) => true,
        }
    }

    /// Whether its messages name topics by identifiers.
    #[inline]
    #[must_use]
    pub fn uses_identifiers(&self) -> bool {
        matches!(self, Session::Tempo(_))
    }

    /// Whether it is not known yet what is spoken.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        matches!(self, Session::Greeting)
    }

    /// Adds what the peer told of itself.
    pub fn describe(&self, is_consuming: bool, client: &mut ClientStats) {
        client.state = match self {
            Session::Greeting => 0,
            Session::Nsq(nsq) => nsq.describe(client),
            Session::Tempo(_) if is_consuming => 3,
            Session::Tempo(_) => 2,
            #[cfg(test)]
            Session::Lines(_) => 3,
        };
    }
}

#[cfg(test)]
mod tests;
