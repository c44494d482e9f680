//! Tempo's announcements: who publishes and who subscribes to what, one UDP datagram at a time.
//!
//! An endpoint says at intervals what it is ready to send and to take ([`Entry`]), where it takes
//! data, and for how long that holds. There is nothing more to the control path: nothing is
//! answered or confirmed, and lost announcements are repeated. An announcement names topics in
//! full; the data path ([`crate::tempo`]) then knows them by [`TopicId`] only.
//!
//! [`Announcement::encode`] writes a datagram and [`Announcement::decode`] reads one, whole and to
//! the last byte or not at all. With a [`Key`] both ends share a secret and every datagram carries
//! a tag. The layout, byte by byte, is in `docs/protocol.md`.
//!
//! It knows neither what was announced before nor when, so it cannot tell a replayed datagram from
//! a new one; whoever keeps the state compares [`Announcement::sequence`].

mod entry;
mod error;
mod key;
mod layout;

pub use entry::{Entry, Held, Role, TopicId};
pub use error::AnnounceError;
pub use key::{Key, TAG_BYTES};

use core::net::SocketAddr;

/// The longest datagram that carries an announcement; fits a frame of 1,500 bytes with room for tunnels.
pub const MAX_DATAGRAM_BYTES: usize = 1400;

/// The longest time that an announcement may hold: one hour, in milliseconds.
pub const MAX_EXPIRY_MS: u32 = 3_600_000;

/// The four bytes that every announcement begins with.
pub const MAGIC_ANNOUNCEMENT: &[u8; 4] = b"TMPA";

/// One life of an endpoint: drawn at random at every start, so that a restarted endpoint is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u64);

/// What an endpoint, or a broker in the name of others, says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// The speaker.
    pub instance: InstanceId,
    /// Grows with every datagram of the instance.
    pub sequence: u32,
    /// A broker speaks for those behind it.
    pub is_proxy: bool,
    /// The instance gives up the topics of the entries; without entries it is gone altogether.
    pub is_leaving: bool,
    /// For how long it holds, from when it is received: 1 to [`MAX_EXPIRY_MS`] milliseconds.
    pub expiry_ms: u32,
    /// Where it takes data by TCP. An unspecified IP address (0.0.0.0, ::) means the one that the datagram came from;
    /// port 0 means that it takes none, which a subscriber cannot say.
    pub data: SocketAddr,
    /// Takes data by UDP on the port of `data` as well.
    pub udp: bool,
    /// What it publishes and subscribes to; a pair of role and topic comes once.
    pub entries: Vec<Entry>,
}

impl Announcement {
    /// Appends the datagram to `out`, with a tag at its end if there is a key.
    ///
    /// Writes what it is given. What does not fit a datagram, or says what [`Announcement::decode`] refuses, is refused
    /// by every receiver: see [`Announcement::split`].
    pub fn encode(&self, key: Option<&Key>, out: &mut Vec<u8>) {
        let start = out.len();
        layout::put(self, key.is_some(), out);
        if let Some(key) = key {
            let tag = key.tag(&out[start..]);
            out.extend_from_slice(&tag);
        }
    }

    /// Parts that fit a datagram each, with or without a key. They are numbered from `sequence` on, without a gap.
    ///
    /// Together they say the same; an announcement that fits comes back as it is.
    #[must_use]
    pub fn split(self) -> Vec<Announcement> {
        layout::split(self)
    }

    /// Reads the datagram `bytes`.
    ///
    /// # Errors
    /// [`AnnounceError`] when it is not exactly one announcement, or not signed as agreed: with a key an unsigned or
    /// forged one is refused, without a key a signed one, since nobody here can say whether it is genuine.
    pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<Announcement, AnnounceError> {
        layout::decode(bytes, key)
    }

    /// Bytes of the datagram.
    #[must_use]
    pub fn encoded_bytes(&self, is_signed: bool) -> usize {
        let tag_bytes = if is_signed { TAG_BYTES } else { 0 };
        layout::header_bytes(&self.data)
            + self.entries.iter().map(layout::entry_bytes).sum::<usize>()
            + tag_bytes
    }
}

#[cfg(test)]
mod tests;
