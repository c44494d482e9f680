//! Messages: an identifier and a body, on a connection behind its length, in a datagram without.

use super::TempoError;
use crate::announce::TopicId;

/// Bytes before a message's body on a connection: length of the body, identifier of the topic.
pub const MESSAGE_HEADER_BYTES: usize = 8;

/// Bytes before a message's body in a datagram: identifier of the topic.
pub const DATAGRAM_HEADER_BYTES: usize = 4;

/// What [`decode_message`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageDecoded<'a> {
    /// A whole message.
    Complete {
        /// Its topic.
        id: TopicId,
        /// What was published; may be empty.
        body: &'a [u8],
        /// How many bytes it took.
        used: usize,
    },
    /// Not a whole message yet, and nothing wrong with it so far.
    Incomplete {
        /// Trying again is of no use before there are so many bytes.
        needed: usize,
    },
}

/// What goes before a body of `body_bytes` on a connection.
#[inline]
#[must_use]
pub fn message_header(id: TopicId, body_bytes: u32) -> [u8; MESSAGE_HEADER_BYTES] {
    let mut header = [0; MESSAGE_HEADER_BYTES];
    header[..4].copy_from_slice(&body_bytes.to_be_bytes());
    header[4..].copy_from_slice(&id.0.to_be_bytes());
    header
}

/// Appends what goes before a body of `body_bytes` on a connection.
#[inline]
pub fn put_message_header(out: &mut Vec<u8>, id: TopicId, body_bytes: u32) {
    out.extend_from_slice(&message_header(id, body_bytes));
}

/// Appends what goes before a body in a datagram.
#[inline]
pub fn put_datagram_header(out: &mut Vec<u8>, id: TopicId) {
    out.extend_from_slice(&id.0.to_be_bytes());
}

/// Reads the message at the beginning of `bytes`.
///
/// # Errors
/// [`TempoError::TooLong`] if its body has more than `max_body_bytes`, before the body is there.
#[inline]
pub fn decode_message(bytes: &[u8], max_body_bytes: u32) -> Result<MessageDecoded<'_>, TempoError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(MessageDecoded::Incomplete {
            needed: MESSAGE_HEADER_BYTES,
        });
    };
    let length = u32::from_be_bytes(*length);
    if length > max_body_bytes {
        return Err(TempoError::TooLong {
            bytes: length,
            max_bytes: max_body_bytes,
        });
    }
    let used = MESSAGE_HEADER_BYTES + length as usize;
    let Some((id, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(MessageDecoded::Incomplete { needed: used });
    };
    let Some(body) = rest.get(..length as usize) else {
        return Ok(MessageDecoded::Incomplete { needed: used });
    };
    Ok(MessageDecoded::Complete {
        id: TopicId(u32::from_be_bytes(*id)),
        body,
        used,
    })
}

/// Reads a message that came as a datagram: its topic and its body.
///
/// # Errors
/// [`TempoError::ShortDatagram`], [`TempoError::TooLong`].
#[inline]
pub fn decode_datagram(bytes: &[u8], max_body_bytes: u32) -> Result<(TopicId, &[u8]), TempoError> {
    let Some((id, body)) = bytes.split_first_chunk::<DATAGRAM_HEADER_BYTES>() else {
        return Err(TempoError::ShortDatagram(bytes.len()));
    };
    if body.len() > max_body_bytes as usize {
        return Err(TempoError::TooLong {
            bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
            max_bytes: max_body_bytes,
        });
    }
    Ok((TopicId(u32::from_be_bytes(*id)), body))
}
