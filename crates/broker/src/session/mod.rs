//! Sessions: one protocol per connection, chosen by its first bytes.
//!
//! A session owns the protocol's decoding, framing, acknowledgements, errors and heartbeats. It
//! turns what it reads into [`Act`]s, which the reactor carries out; the reactor tells the session
//! the result, and the session encodes it into the output. It knows no socket, no topic table and
//! no clock. A further protocol is a variant here, with a folder of its own and its magic in
//! [`greeting`].

mod act;
pub mod greeting;
#[cfg(test)]
mod lines;
pub mod nsq;
pub mod tempo;

use access::Authorizations;
use clock::Instant;
use rustc_hash::FxHashMap;
use wire::TopicName;
use wire::announce::TopicId;
use wire::identify::{Declaration, ServerLimits};

use crate::auth::{AuthTerms, Secret};
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
    /// The broker's offers.
    pub server: &'r ServerLimits,
    /// What identifiers of topics stand for, for sessions that [use](Session::uses_identifiers) them.
    pub identifiers: Option<&'a FxHashMap<TopicId, TopicName>>,
    /// By what NSQ's clients are let in; `None`: everybody is.
    pub auth: Option<&'r AuthTerms>,
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
            Session::Lines(_) => lines::next(bytes, output),
        }
    }

    /// Counts messages accepted from it.
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

    /// The frames that are owed, if they are ready to be sent and nothing else is owed. They count
    /// as sent.
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

    /// Tells the peer what went wrong, and returns the fate of the connection. Debts are to be
    /// [settled](Session::settle) before.
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

    /// A publisher waits for room, for about this long; returns whether the protocol can say so.
    pub fn tell_throttled(&self, topic: &TopicName, wait_us: u32, output: &mut Output) -> bool {
        let can_say = matches!(self, Session::Nsq(_));
        if can_say {
            wire::put_throttled(output.bytes(), topic.as_str(), wait_us);
        }
        can_say
    }

    /// A publisher is to go on at the broker at `address`; returns whether the protocol can say so.
    pub fn tell_migrate(&self, topic: &TopicName, address: &str, output: &mut Output) -> bool {
        let can_say = matches!(self, Session::Nsq(_));
        if can_say {
            wire::put_migrate(output.bytes(), topic.as_str(), address);
        }
        can_say
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

    /// The interval at which it is looked at, where it asked for another than the broker's.
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

    /// Whether only its first command tells who it is; what others begin with tells as much.
    #[must_use]
    pub fn introduces_itself_later(&self) -> bool {
        matches!(self, Session::Greeting | Session::Nsq(_))
    }

    /// What an auth server is to be asked with.
    #[must_use]
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Session::Nsq(nsq) => nsq.secret(),
            _ => None,
        }
    }

    /// Auth servers were asked; `None`: none has said what the client may do. Gives what it has declared itself as before.
    ///
    /// # Errors
    /// It may do nothing.
    pub fn hear_authorizations(
        &mut self,
        authorizations: Option<Authorizations>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Option<Declaration>, Failure> {
        match self {
            Session::Nsq(nsq) => nsq.hear_authorizations(authorizations, output, now),
            // Nobody else is asked about.
            _ => Ok(None),
        }
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
