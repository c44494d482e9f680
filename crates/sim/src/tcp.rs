//! TCP as far as it matters to a rate limiter: one direction of data, as state machines driven by
//! events.
//!
//! A [`Sender`] is asked what it wants to send ([`Sender::next_segment`]) after it was opened,
//! after an [`Ack`], and at its deadline; a [`Receiver`] answers segments with acknowledgements.
//! Growth is NewReno's; losses are found as by RACK and tail loss probes (RFC 8985) on a SACK
//! scoreboard, windows are reduced in proportion (RFC 6937), timeouts back off (RFC 6298) and a
//! timeout is doubted for a round trip (F-RTO, RFC 5682). Where the RFCs leave room it does as
//! Linux does: with few packets per flow and second, the timers decide who gets what.
//!
//! Segments are counted, not bytes: all have [`MSS_BYTES`] but the last of a transfer. Not
//! modelled: receive windows, FIN, ECN, losses of acknowledgements, undoing a reduction that proves
//! needless, and senders that pause.

mod receiver;
mod round_trip;
mod scoreboard;
mod sender;
mod window;

pub use receiver::Receiver;
pub use sender::{Sender, SenderCounts};

use clock::Instant;

/// Payload of a full segment, bytes: what is left of 1,500 bytes with time stamps.
pub const MSS_BYTES: u32 = 1448;

/// IP and TCP headers of a data segment, with time stamps, bytes.
pub const HEADER_BYTES: u32 = 52;

/// A SYN with its options, bytes.
pub const SYN_BYTES: u32 = 60;

/// A segment that a sender puts on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its content.
    pub content: Content,
    /// When it was sent: its time stamp, which the acknowledgement echoes.
    pub sent_at: Instant,
}

/// The content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The wish to begin.
    Syn,
    /// The transfer's segment of this number, from 0.
    Data {
        /// Which.
        number: u32,
        /// Payload, at most [`MSS_BYTES`].
        bytes: u32,
    },
}

impl Segment {
    /// Its length as IP packet, bytes.
    pub const fn ip_bytes(self) -> u32 {
        match self.content {
            Content::Syn => SYN_BYTES,
            Content::Data { bytes, .. } => HEADER_BYTES + bytes,
        }
    }
}

/// A receiver's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All segments below this number are there.
    pub cumulative: u32,
    /// The segment above them that this answers. One is enough as acknowledgements are not lost: each segment out of
    /// order has one of its own.
    pub sacked: Option<u32>,
    /// Answers a segment that was there already.
    pub duplicate: bool,
    /// The time stamp of the earliest segment that this is the first answer to.
    pub echo: Instant,
}

#[cfg(test)]
mod tests;
