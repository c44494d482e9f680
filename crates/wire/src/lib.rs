//! Bytes to values and back, without input or output: the NSQ V2 protocol and the SRTM extension.
//!
//! Both directions of both peers are here: [`decode`] reads a client's commands in place and
//! [`mod@frame`] writes a broker's answers; [`command`] writes a client's commands and
//! [`decode_frame`] reads the broker's frames. [`identify`] is the negotiation in between. Tempo's
//! endpoints have protocols of their own: [`mod@announce`] says who publishes and subscribes,
//! [`tempo`] carries data. Limiters that share a limit speak [`gossip`]; clients of an nsqlookupd,
//! and lookups themselves, speak [`lookup`]. A drained broker hands its queues over to another by
//! [`handover`].
//!
//! Nothing in this crate owns a buffer, a socket or a clock. A decoder borrows the caller's bytes
//! and says how many it used or how many it still lacks; whatever the bytes are, it returns and
//! never panics. Error codes and texts are those of nsqd 1.3.0, in nsqd's order of checks; the few
//! places that differ on purpose say so where they do.
//!
//! TLS, deflate and snappy are negotiated here and carried out elsewhere. AUTH is deliberately
//! absent, and that is negotiated honestly.

pub mod announce;
pub mod command;
mod decode;
mod error;
pub mod frame;
pub mod gossip;
pub mod handover;
pub mod identify;
pub mod lookup;
mod message_id;
mod mpub;
mod name;
mod quote;
mod tag;
pub mod tempo;

pub use command::Command;
pub use decode::{Decoded, Limits, Phase, decode};
pub use error::{
    CLIENT_DOES_NOT_OWN_MESSAGE, ErrorCode, ID_NOT_IN_FLIGHT, ProtocolError, WireError,
};
pub use frame::{
    ATTEMPTS_OFFSET, CLOSE_WAIT_FRAME, Frame, FrameDecoded, FrameType, HEARTBEAT_FRAME,
    MAX_ADDRESS_BYTES, MESSAGE_HEADER_BYTES, OK_FRAME, decode_frame, is_valid_address, put_ack,
    put_error, put_message_header, put_migrate, put_response, put_throttled,
};
pub use message_id::MessageId;
pub use mpub::{Messages, Mpub};
pub use name::{ChannelName, MAX_NAME_BYTES, TopicName, is_valid_name};

/// The four bytes a client sends before its first command (two spaces, then `V2`).
///
/// Anything else in their place is answered with [`ProtocolError::bad_protocol`].
pub const MAGIC_V2: &[u8; 4] = b"  V2";
