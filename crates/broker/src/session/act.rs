//! What sessions and the reactor say to each other, whatever the protocol.

use std::time::Duration;

use clock::Instant;
use topics::ConsumerOrder;
use wire::tempo::TempoError;
use wire::{Mpub, ProtocolError};

use crate::connection::{Collecting, SubscriptionNumber};

/// A peer's request.
#[derive(Debug)]
pub enum Act<'a> {
    /// Publish one message.
    Publish {
        /// To this topic; a valid name.
        topic: &'a str,
        /// The message.
        body: &'a [u8],
        /// Not to be delivered before that.
        delay: Duration,
        /// Which of the deeds it is.
        deed: Deed,
    },
    /// Publish several messages, all or none.
    PublishMany {
        /// To this topic; a valid name.
        topic: &'a str,
        /// The messages.
        messages: Mpub<'a>,
    },
    /// Publish to an identifier that stands for no topic.
    PublishNowhere,
    /// Subscribe to a channel.
    Subscribe {
        /// Of this topic; a valid name.
        topic: &'a str,
        /// A valid name.
        channel: &'a str,
        /// How.
        terms: Terms,
    },
    /// Carry out what is said of a subscription.
    Order {
        /// Which one.
        of: SubscriptionNumber,
        /// What.
        order: ConsumerOrder,
    },
    /// No more messages of any subscription, please; those in flight may still be finished.
    Close,
    /// Other terms than before; they have been answered.
    Introduce(Box<Introduction>),
    /// To have an auth server asked what it may do, and to wait for that.
    Authenticate,
    /// It may do something from now on, and has been told so; and is this publisher.
    Admit(Option<Box<wire::identify::Declaration>>),
    /// To be told that it cannot be done.
    Refuse(Failure),
    /// Nothing, beyond what its session has answered by itself.
    Rest,
}

/// A message for the peer.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its number.
    pub id: u64,
    /// As it was published.
    pub body: &'a [u8],
    /// Its arrival, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Times that it has been delivered on its channel, this one included.
    pub attempts: u16,
    /// Which of the connection's subscriptions it is for.
    pub subscription: SubscriptionNumber,
}

/// The terms of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Time that a message may be in flight.
    pub msg_timeout: Duration,
    /// Percent of messages wanted, 0 = all.
    pub sample_rate: u8,
    /// Messages are finished once they are in the output.
    pub is_finished_when_sent: bool,
}

/// What a peer says of itself, beyond what concerns only its session.
#[derive(Debug)]
pub struct Introduction {
    /// Its wish to have messages collected.
    pub collecting: Option<Collecting>,
    /// The publisher that it is.
    pub declaration: Option<wire::identify::Declaration>,
    /// What its bytes are to go in from here on.
    pub upgrade: Option<Box<LayersWanted>>,
}

/// Layers that a connection gets, and which bytes at the end of its output go in them already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayersWanted {
    /// Those that it has not.
    pub layers: wire::identify::Layers,
    /// Bytes of the output that go within TLS.
    pub within_tls: usize,
    /// Bytes of the output that go compressed.
    pub within_compression: usize,
}

/// What bytes begin with.
#[derive(Debug)]
pub enum Next<'a> {
    /// Something to be done.
    Act {
        /// What.
        act: Act<'a>,
        /// Bytes that it took.
        used: usize,
    },
    /// Not whole yet.
    Incomplete {
        /// Trying again is pointless before this many bytes are there.
        needed: usize,
    },
    /// The bytes that choose the protocol.
    Greeting,
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Publishing one message.
    Publish,
    /// Publishing several at once.
    PublishMany,
    /// Publishing one message that becomes due later.
    PublishLater,
    /// Subscribing.
    Subscribe,
    /// Something said of a subscription.
    Order(ConsumerOrder),
}

/// Why a session is to be told something unpleasant.
#[derive(Debug)]
pub enum Failure {
    /// The broker does not do it.
    Refused(Deed, String),
    /// The topic is gone, or the broker stops.
    Exiting(Deed),
    /// Not within the rules of NSQ.
    Nsq(ProtocolError),
    /// Not within the rules of Tempo.
    Tempo(TempoError),
    /// It speaks where it is to listen.
    NotToSpeak,
}

/// The fate of a connection after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// It goes on.
    GoesOn,
    /// It was told, and ends when it has read that.
    Lingers,
    /// It ends at once.
    Closes,
}

/// What follows from accepted messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// Something is to be written in this turn.
    Now,
    /// The peer is to be served at that time.
    At(Instant),
    /// It is told some time, as was said before.
    Later,
    /// It is told nothing.
    Never,
}

impl Failure {
    /// Whether a permission is missing.
    #[must_use]
    pub fn is_denial(&self) -> bool {
        use wire::ErrorCode::{AuthFailed, AuthFirst, Unauthorized};
        let Failure::Nsq(error) = self else {
            return false;
        };
        matches!(error.code, AuthFailed | AuthFirst | Unauthorized)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(deed, reason) => write!(f, "{deed:?} was refused: {reason}"),
            Failure::Exiting(deed) => write!(f, "{deed:?} was refused: exiting"),
            Failure::Nsq(error) => error.fmt(f),
            Failure::Tempo(error) => error.fmt(f),
            Failure::NotToSpeak => {
                f.write_str("a subscriber has nothing to say on its data connection")
            }
        }
    }
}
