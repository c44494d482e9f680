//! Why a datagram is not an announcement that may be believed.

use super::MAX_EXPIRY_MS;

/// What is wrong with a datagram, and where. Positions count bytes from its beginning, entries from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnounceError {
    /// It begins with other bytes: something else was sent to this port.
    #[error("not an announcement: it does not begin with TMPA")]
    Magic,
    /// Its version is not known here.
    #[error("announcement of version {0}, but only 1 is known: update the older end")]
    Version(u8),
    /// It is longer than any announcement.
    #[error("datagram of {0} bytes, but an announcement has at most 1400")]
    TooLong(usize),
    /// It ends before what it announces.
    #[error("datagram ends at byte {0} in the middle of the announcement: it was cut short")]
    Truncated(usize),
    /// It goes on after its last entry.
    #[error("{0} bytes follow the announcement's last entry")]
    Trailing(usize),
    /// A flag is set that this version does not have.
    #[error("flags {0:#04x} include an unknown one: update the older end")]
    Flags(u8),
    /// The data address is neither of IPv4 nor of IPv6.
    #[error("address family {0} is not known: it must be 4 or 6")]
    AddressFamily(u8),
    /// The time that it holds is zero or too long.
    #[error("expiry of {0} ms is out of range: it must be 1 to {MAX_EXPIRY_MS}")]
    Expiry(u32),
    /// It subscribes and says nowhere to send to.
    #[error("entry {entry} subscribes, but the data port is 0")]
    NoDataPort {
        /// Which entry.
        entry: usize,
    },
    /// An entry is of a kind that this version does not have.
    #[error("entry {entry} is of kind {kind:#04x}, which is not known")]
    Kind {
        /// Which entry.
        entry: usize,
        /// Its first byte.
        kind: u8,
    },
    /// An entry's topic breaks the rule of names.
    #[error(
        "entry {entry}: the topic is not 1 to 64 of [.a-zA-Z0-9_-] with an optional #ephemeral"
    )]
    Topic {
        /// Which entry.
        entry: usize,
    },
    /// A publisher's part of a limit is no such thing.
    #[error(
        "entry {entry}: rate and burst held must be at least 0 and finite, publishers at least 1"
    )]
    Held {
        /// Which entry.
        entry: usize,
    },
    /// Two entries say the same of one topic.
    #[error("entry {entry} repeats role and topic of an earlier one")]
    Duplicate {
        /// The later of the two.
        entry: usize,
    },
    /// It carries no tag, but a key is set here.
    #[error("unsigned announcement, but a key is set here: set the same key at the sender")]
    Unsigned,
    /// It carries a tag, but no key is set here.
    #[error("signed announcement, but no key is set here: set the sender's key")]
    Signed,
    /// Its tag is not that of the key.
    #[error("the announcement's tag is wrong: another key, or it was forged")]
    Forged,
}

impl AnnounceError {
    /// Whether it is about who sent it, not about its form: unsigned, signed without a key here, or forged.
    #[must_use]
    pub const fn is_about_key(&self) -> bool {
        matches!(
            self,
            AnnounceError::Unsigned | AnnounceError::Signed | AnnounceError::Forged
        )
    }
}
