//! Segment files: their names, what they begin with, and segments as bytes.

use std::fmt;
use std::str::FromStr;

use wire::{ChannelName, TopicName};

use crate::message::Message;
use crate::record::{self, Kind, Salt};
use crate::{DiskError, MESSAGE_HEAD_BYTES};

/// Bytes before the first record: `SRTMSEGM`, the format's number, two zeros, the CRC-32C of these.
pub const PREAMBLE_BYTES: usize = 16;

/// The format that is written.
pub const FORMAT_VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"SRTMSEGM";
const SUFFIX: &str = ".segments";

/// Whose messages: a topic's own queue, or a channel's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The topic.
    pub topic: TopicName,
    /// The channel; `None`: what waits in the topic itself.
    pub channel: Option<ChannelName>,
}

/// The name of a file: its number and its salt, never a word of anybody's. Only both together are one file's: one whose removal a
/// crash has undone may have the number of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// Later files have higher numbers.
    pub number: u64,
    /// What its checksums begin at.
    pub salt: Salt,
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}{SUFFIX}", self.number, self.salt.0)
    }
}

impl FileName {
    /// The name of file `number`, with a salt drawn from a seed that is nobody's to know.
    pub(crate) fn drawn(seed: u64, number: u64) -> FileName {
        // The mixing is SplitMix64's.
        let mut salt = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        salt = (salt ^ (salt >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        salt = (salt ^ (salt >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        FileName {
            number,
            salt: Salt(salt ^ (salt >> 31)),
        }
    }

    /// What is before all files of that number and behind those of lower ones.
    pub(crate) fn before(number: u64) -> FileName {
        FileName {
            number,
            salt: Salt(0),
        }
    }
}

impl FromStr for FileName {
    type Err = ();

    fn from_str(text: &str) -> Result<FileName, ()> {
        let stem = text.strip_suffix(SUFFIX);
        let (number, salt) = stem.and_then(|stem| stem.split_once('-')).ok_or(())?;
        let parse = |text: &str| u64::from_str_radix(text, 16).map_err(|_| ());
        let name = FileName {
            number: parse(number)?,
            salt: Salt(parse(salt)?),
        };
        // A name has one form.
        (name.to_string() == text).then_some(name).ok_or(())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.channel {
            None => write!(f, "topic {}", self.topic),
            Some(channel) => write!(f, "topic {}, channel {channel}", self.topic),
        }
    }
}

impl Owner {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let names = [
            self.topic.as_str(),
            self.channel.as_ref().map_or("", ChannelName::as_str),
        ];
        let mut bytes = Vec::new();
        for name in names {
            // Names are far shorter than 256 bytes.
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Owner> {
        let (topic, rest) = split_name(bytes)?;
        let (channel, rest) = split_name(rest)?;
        let channel = match channel {
            "" => None,
            name => Some(name.parse().ok()?),
        };
        let topic = topic.parse().ok()?;
        rest.is_empty().then_some(Owner { topic, channel })
    }
}

fn split_name(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(length))?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// The description of a segment that precedes its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) messages: u32,
    /// Bytes of their bodies.
    pub(crate) body_bytes: u64,
    pub(crate) owner: Owner,
}

impl SegmentHead {
    pub(crate) fn of_payload(payload: &[u8]) -> Option<SegmentHead> {
        let (messages, rest) = payload.split_first_chunk::<4>()?;
        let (body_bytes, rest) = rest.split_first_chunk::<8>()?;
        Some(SegmentHead {
            messages: u32::from_le_bytes(*messages),
            body_bytes: u64::from_le_bytes(*body_bytes),
            owner: Owner::of_bytes(rest)?,
        })
    }
}

/// The beginning of a file, its owner included.
pub(crate) fn begin_file(salt: Salt, owner: &Owner) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    let crc = crc32c::crc32c_append(salt.seed(0), &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    record::push(
        &mut bytes,
        (0, salt),
        (Kind::Owner, 0),
        [&owner.to_bytes(), b""],
    );
    bytes
}

/// The end of a file, at `base`.
pub(crate) fn end_file(base: u64, salt: Salt) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::push(&mut bytes, (base, salt), (Kind::End, 0), [b"", b""]);
    bytes
}

/// The format of a file that begins so; `None` where its beginning is damaged.
pub(crate) fn format_of(bytes: &[u8], salt: Salt) -> Option<u16> {
    let (head, crc) = bytes.get(..PREAMBLE_BYTES)?.split_at(PREAMBLE_BYTES - 4);
    let is_whole = crc32c::crc32c_append(salt.seed(0), head).to_le_bytes() == crc;
    (is_whole && head.starts_with(&MAGIC)).then(|| u16::from_le_bytes([head[8], head[9]]))
}

/// Adds a segment to bytes that begin at `base` in their file.
pub(crate) fn push_segment<'a>(
    bytes: &mut Vec<u8>,
    place: (u64, Salt),
    (owner, number): (&Owner, u64),
    messages: impl Iterator<Item = Message<'a>> + Clone,
) -> Result<(), DiskError> {
    let (count, body_bytes) = messages.clone().fold((0_u32, 0), |(count, bytes), each| {
        (count + 1, bytes + each.body.len() as u64)
    });
    let mut head = count.to_le_bytes().to_vec();
    head.extend_from_slice(&body_bytes.to_le_bytes());
    head.extend_from_slice(&owner.to_bytes());
    record::push(bytes, place, (Kind::Segment, number), [&head, b""]);
    for message in messages {
        let payload = [&message.head()[..], message.body];
        if !record::push(bytes, place, (Kind::Message, number), payload) {
            return Err(DiskError::TooLong(MESSAGE_HEAD_BYTES + message.body.len()));
        }
    }
    Ok(())
}
