//! What a follower has done so far, and what its broker says of the limit.

use clock::Instant;

use super::Follower;
use crate::error::ClientError;

/// Messages, counted since the publisher began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Taken from the program.
    pub published: u64,
    /// Accepted by a broker.
    pub acknowledged: u64,
    /// Refused by a broker for what they are (size, topic, a limit that rejects); not sent again.
    pub refused: u64,
    /// Sent again although a broker that was lost may have accepted them: possible duplicates.
    pub resent: u64,
    /// Moves from one live broker to another.
    pub moves: u64,
}

/// A broker's notice that a limit holds the topic back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// When it came.
    pub at: Instant,
    /// Messages of the topic wait at least so long for a token, in microseconds.
    pub retry_after_us: u32,
}

impl Follower {
    /// Whether so many messages, with so many bytes of bodies, may be published now. A batch above the window goes
    /// when nothing else is under way.
    pub fn has_room(&self, messages: usize, bytes: usize) -> bool {
        let fits = self.held_messages + messages <= self.options.window_messages
            && self.held_bytes + bytes <= self.options.window_bytes;
        self.held_messages == 0 || fits
    }

    /// Whether a link has bytes to be written.
    pub fn has_output(&self) -> bool {
        self.links().any(|link| !self.output(link).is_empty())
    }

    /// Messages published and neither acknowledged nor refused.
    pub fn unacknowledged(&self) -> usize {
        self.held_messages
    }

    /// What it has done so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Address of the broker that gets what is published; `None` while there is none.
    pub fn broker(&self) -> Option<&str> {
        self.active.as_ref().map(|link| link.address.as_str())
    }

    /// Whether former brokers still owe acknowledgements.
    pub fn is_moving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The last notice of the present broker that the topic's limit holds messages back.
    pub fn throttled(&self) -> Option<Throttled> {
        self.throttled
    }

    /// Why it has no broker, or why it lost the last one.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Why the controller will never place it; no more questions are asked then.
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// Takes the last refusal of a message by a broker ([`ClientError::Refused`]).
    pub fn take_refusal(&mut self) -> Option<ClientError> {
        self.refusal.take()
    }
}
