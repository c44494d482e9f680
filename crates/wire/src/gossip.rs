//! Gossip between the limiters of one limit, by UDP: rates and weights, and who is there (DRL,
//! sections 3.1 and 5.6).
//!
//! An *update* has 20 bytes, with the headers of IPv4 and UDP the 48 of the paper: limit, sequence,
//! epoch, three numbers of 24 bits, and a tag of 6 bytes. Anything longer is a *membership*
//! datagram, with a tag of 16 bytes, or a *notice* like it, by which limiters without a given list
//! find each other. [`decode`] tells them apart; their content is given out only to a caller that
//! names the [`Path`] whose tag they carry.
//!
//! A tag covers who sends and who receives, address and *incarnation* of both, and a counter of 64
//! bits that a sender never uses twice on a path; of an update's counter only the low 16 bits
//! travel, and [`counter_near`] finds the others, as RFC 3711 does. So a recording fits no other
//! pair, nor the same pair after a restart of either end. [`ReplayWindow`] finds what was sent
//! again on the same path.
//!
//! Nothing is hidden, and 6 bytes of tag are enough against guessing one of a few datagrams, not
//! against 2^48 of them. All that know the key can speak for each other.

mod amount;
mod datagram;
mod key;
mod notice;
mod replay;
mod vouch;

pub use amount::carried;
pub use datagram::{
    Datagram, DatagramError, LimitId, MAX_MEMBERSHIP_BYTES, MEMBERSHIP_HEADER_BYTES,
    MEMBERSHIP_TAG_BYTES, SealedMembership, SealedUpdate, UPDATE_BYTES, Update, decode,
    put_membership, put_notice, put_vouch,
};
pub use key::{Endpoint, Key, KeyError, Path};
pub use notice::{
    NOTICE_BYTES, NOTICED_LIMIT_BYTES, NOTICED_MEMBER_BYTES, NotANotice, Notice, NoticedLimit,
    NoticedMember,
};
pub use replay::{REPLAY_WINDOW, ReplayWindow, Seen, counter_near};
pub use vouch::Vouch;

#[cfg(test)]
mod tests;
