//! A follower's counts so far, and what its broker says of the limit.

use clock::Instant;

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
