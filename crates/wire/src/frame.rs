//! Frames: everything a broker sends.
//!
//! Form of a frame: its size without these four bytes, its type, its data; all integers big endian.
//! A message's data is a timestamp in nanoseconds (8 bytes), the attempts (2), the id (16) and the
//! body. The frames of the SRTM extension are sent only to a client that negotiated them (see
//! [`crate::identify`]): acks in place of `OK`, migrate and throttled to declared publishers. The
//! others are NSQ V2.
//!
//! A message's header is written apart from its body, so that a broker can queue one copy of the
//! body and send both with one gathered write.

mod publisher;

pub use publisher::{MAX_ADDRESS_BYTES, is_valid_address, put_migrate, put_throttled};

use publisher::{migrate_of, throttled_of};

use crate::{MessageId, ProtocolError, WireError};

/// The second field of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum FrameType {
    /// An answer such as `OK`, or a heartbeat.
    Response = 0,
    /// An error: a code, a space, a text.
    Error = 1,
    /// A message.
    Message = 2,
    /// SRTM extension: how many messages were accepted since IDENTIFY.
    Ack = 16,
    /// SRTM extension: publish at another broker from now on.
    Migrate = 17,
    /// SRTM extension: messages wait at the limit.
    Throttled = 18,
}

/// The frame that answers a command with `OK`.
pub const OK_FRAME: [u8; 10] = response_frame(b"OK");

/// The frame that asks a client whether it lives; the client answers NOP.
pub const HEARTBEAT_FRAME: [u8; 19] = response_frame(b"_heartbeat_");

/// The frame that answers CLS.
pub const CLOSE_WAIT_FRAME: [u8; 18] = response_frame(b"CLOSE_WAIT");

/// Bytes of a message frame before the body: size, type, timestamp, attempts, id.
pub const MESSAGE_HEADER_BYTES: usize = 4 + 4 + 8 + 2 + MessageId::BYTES;

/// Where the two bytes of the attempts stand in a message's header, so that a redelivery can change
/// them in place.
pub const ATTEMPTS_OFFSET: usize = 4 + 4 + 8;

/// Appends a response frame.
pub fn put_response(out: &mut Vec<u8>, body: &[u8]) {
    put_header(out, FrameType::Response, body.len());
    out.extend_from_slice(body);
}

/// Appends an error frame whose body is the error's `Display`.
pub fn put_error(out: &mut Vec<u8>, error: &ProtocolError) {
    let body = error.to_string();
    put_header(out, FrameType::Error, body.len());
    out.extend_from_slice(body.as_bytes());
}

/// Appends an ack frame (SRTM extension).
///
/// `total_messages` counts what was accepted on the connection since IDENTIFY; an MPUB of n adds n.
#[inline]
pub fn put_ack(out: &mut Vec<u8>, total_messages: u64) {
    put_header(out, FrameType::Ack, ACK_DATA_BYTES);
    out.extend_from_slice(&total_messages.to_be_bytes());
}

/// Writes the header of a message frame whose body of `body_len` bytes follows.
#[inline]
pub fn put_message_header(
    out: &mut [u8; MESSAGE_HEADER_BYTES],
    body_len: usize,
    timestamp_ns: i64,
    attempts: u16,
    id: MessageId,
) {
    let size = (MESSAGE_HEADER_BYTES - SIZE_BYTES + body_len) as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out[4..8].copy_from_slice(&(FrameType::Message as u32).to_be_bytes());
    out[8..16].copy_from_slice(&timestamp_ns.to_be_bytes());
    out[ATTEMPTS_OFFSET..ATTEMPTS_OFFSET + 2].copy_from_slice(&attempts.to_be_bytes());
    out[ATTEMPTS_OFFSET + 2..].copy_from_slice(&id.0);
}

/// A broker's frame, borrowed from the bytes it arrived in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The data of a response.
    Response(&'a [u8]),
    /// The data of an error; see [`crate::ErrorCode::of_body`].
    Error(&'a [u8]),
    /// A message.
    Message {
        /// When the broker took it, in nanoseconds since 1970.
        timestamp_ns: i64,
        /// How often it was sent, this time included.
        attempts: u16,
        /// To be returned in FIN, REQ and TOUCH.
        id: MessageId,
        /// The message itself.
        body: &'a [u8],
    },
    /// SRTM extension: messages accepted since IDENTIFY.
    Ack {
        /// Never less than in the ack before.
        total_messages: u64,
    },
    /// SRTM extension: what comes next belongs at another broker. This one still takes what is sent.
    Migrate {
        /// Which topic; a valid name.
        topic: &'a str,
        /// `host:port` of the broker; see [`is_valid_address`].
        address: &'a str,
    },
    /// SRTM extension: messages wait for tokens, or for room. Nothing has to follow from it.
    Throttled {
        /// About how long the next message is going to wait, in microseconds.
        retry_after_us: u32,
        /// Which topic; a valid name.
        topic: &'a str,
    },
}

/// What [`decode_frame`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameDecoded<'a> {
    /// A whole frame, at the beginning of the buffer.
    Complete {
        /// The frame.
        frame: Frame<'a>,
        /// How many bytes it took.
        consumed: usize,
    },
    /// Not a whole frame yet.
    Incomplete {
        /// Trying again is useless before the buffer holds this many bytes; above its length now.
        needed: usize,
    },
}

/// Reads the frame at the beginning of `buf`.
///
/// # Errors
/// [`WireError`] when the size is above `max_frame_bytes` (which bounds the size field, not the
/// message alone) or too small for the type, when the type is unknown, or when a frame of the extension
/// does not hold what it must. The connection is then of no further use. Sizes and types are judged as
/// soon as their bytes are there.
pub fn decode_frame(buf: &[u8], max_frame_bytes: u32) -> Result<FrameDecoded<'_>, WireError> {
    let Some((size, rest)) = buf.split_first_chunk::<SIZE_BYTES>() else {
        return Ok(FrameDecoded::Incomplete { needed: SIZE_BYTES });
    };
    let size = i32::from_be_bytes(*size);
    if size < TYPE_BYTES as i32 {
        return Err(WireError::FrameTooSmall { size });
    }
    if size.unsigned_abs() > max_frame_bytes {
        return Err(WireError::FrameTooBig {
            size,
            max_bytes: max_frame_bytes,
        });
    }
    let consumed = SIZE_BYTES + size.unsigned_abs() as usize;
    let Some((kind, rest)) = rest.split_first_chunk::<TYPE_BYTES>() else {
        return Ok(FrameDecoded::Incomplete { needed: consumed });
    };
    let kind = frame_type(i32::from_be_bytes(*kind), size)?;
    match rest.get(..consumed - SIZE_BYTES - TYPE_BYTES) {
        Some(data) => Ok(FrameDecoded::Complete {
            frame: frame_of(kind, data, size)?,
            consumed,
        }),
        None => Ok(FrameDecoded::Incomplete { needed: consumed }),
    }
}

const SIZE_BYTES: usize = 4;
const TYPE_BYTES: usize = 4;
const MESSAGE_DATA_BYTES: usize = MESSAGE_HEADER_BYTES - SIZE_BYTES - TYPE_BYTES;
const ACK_DATA_BYTES: usize = 8;

const fn response_frame<const FRAME_BYTES: usize>(body: &[u8]) -> [u8; FRAME_BYTES] {
    assert!(FRAME_BYTES == SIZE_BYTES + TYPE_BYTES + body.len());
    let mut frame = [0u8; FRAME_BYTES];
    // The type of a response is 0, and the bodies are shorter than 252 bytes.
    frame[SIZE_BYTES - 1] = (TYPE_BYTES + body.len()) as u8;
    let mut index = 0;
    while index < body.len() {
        frame[SIZE_BYTES + TYPE_BYTES + index] = body[index];
        index += 1;
    }
    frame
}

#[inline]
fn put_header(out: &mut Vec<u8>, kind: FrameType, data_bytes: usize) {
    debug_assert!(
        u32::try_from(TYPE_BYTES + data_bytes).is_ok(),
        "a size field has four bytes"
    );
    out.reserve(SIZE_BYTES + TYPE_BYTES + data_bytes);
    out.extend_from_slice(&((TYPE_BYTES + data_bytes) as u32).to_be_bytes());
    out.extend_from_slice(&(kind as u32).to_be_bytes());
}

fn frame_type(kind: i32, size: i32) -> Result<FrameType, WireError> {
    let data_bytes = size.unsigned_abs() as usize - TYPE_BYTES;
    match kind {
        0 => Ok(FrameType::Response),
        1 => Ok(FrameType::Error),
        2 if data_bytes < MESSAGE_DATA_BYTES => Err(WireError::FrameTooSmall { size }),
        2 => Ok(FrameType::Message),
        16 if data_bytes != ACK_DATA_BYTES => Err(WireError::AckSize { size }),
        16 => Ok(FrameType::Ack),
        17 => Ok(FrameType::Migrate),
        18 => Ok(FrameType::Throttled),
        _ => Err(WireError::UnknownFrameType(kind)),
    }
}

fn frame_of(kind: FrameType, data: &[u8], size: i32) -> Result<Frame<'_>, WireError> {
    match kind {
        FrameType::Response => Ok(Frame::Response(data)),
        FrameType::Error => Ok(Frame::Error(data)),
        FrameType::Message => message_of(data).ok_or(WireError::FrameTooSmall { size }),
        FrameType::Ack => {
            let total = data.try_into().map_err(|_| WireError::AckSize { size })?;
            Ok(Frame::Ack {
                total_messages: u64::from_be_bytes(total),
            })
        }
        FrameType::Migrate => migrate_of(data).ok_or(WireError::MigrateForm { size }),
        FrameType::Throttled => throttled_of(data).ok_or(WireError::ThrottledForm { size }),
    }
}

fn message_of(data: &[u8]) -> Option<Frame<'_>> {
    let (timestamp, rest) = data.split_first_chunk::<8>()?;
    let (attempts, rest) = rest.split_first_chunk::<2>()?;
    let (id, body) = rest.split_first_chunk::<{ MessageId::BYTES }>()?;
    Some(Frame::Message {
        timestamp_ns: i64::from_be_bytes(*timestamp),
        attempts: u16::from_be_bytes(*attempts),
        id: MessageId(*id),
        body,
    })
}
