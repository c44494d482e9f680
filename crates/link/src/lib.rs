//! The messages between controller and brokers, as values.
//!
//! A broker dials the controller and keeps one TCP connection: it says [`ToController::Hello`],
//! then reports once a second; the controller answers with grants and orders ([`Order`]). First
//! both prove that they know the cluster's key ([`Dialler`], [`Listener`]); then every message is
//! one JSON value in a sealed frame ([`Sealer`], [`Opener`]) behind a length of four bytes (big
//! endian). Neither side's data path waits for the other: a broker without a link goes on with the
//! shares it holds until their leases end.
//!
//! Only messages and their proofs are here, bytes in and bytes out: `broker::agent` acts on them on
//! one side and `control` on the other.

mod contract;
pub mod cpu_share;
mod durability;
mod frame;
mod handshake;
mod identity;
mod key;
mod on_full;
mod order;
mod probe;
mod report;
mod topic;

pub use contract::Contract;
pub use durability::{Durability, NeverKept, UnknownDurability};
pub use frame::{MAX_FRAME_BYTES, Opener, Sealer, TAG_BYTES};
pub use handshake::{Dialler, HANDSHAKE_BYTES_MAX, Listener, Nonce};
pub use identity::Identity;
pub use key::{InvalidKey, LinkKey};
pub use on_full::{OnFull, UnknownOnFull};
pub use order::{Move, Order, Round, Sharers, ToBroker};
pub use probe::{
    ANSWER_BYTES_MAX, Door, MAGIC_PROBE, PROBE_PATH, Present, QUESTION_BYTES, answer_bytes,
    probe_answer, probe_question, probed,
};
pub use report::{
    Attachment, BrokerReport, Declaration, Hello, Lateness, MemoryReport, ToController,
    TopicReport, Traced, WindowReport,
};
pub use topic::{ChannelState, TopicChange, TopicState};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of these words; a side that hears another one refuses the link.
pub const LINK_VERSION: u32 = 10;

/// Longest message in bytes. Traces are cut into parts that stay below it.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Arrivals in one [`ToController::Trace`] at most.
pub const TRACE_PART_ARRIVALS: usize = 50_000;

/// Writes a message.
///
/// # Errors
/// [`LinkError`] for a value that JSON cannot hold (a number that is none), or one that is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, LinkError> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(LinkError::TooLong(bytes.len()));
    }
    Ok(bytes)
}

/// Reads a message.
///
/// # Errors
/// [`LinkError`] naming what could not be understood.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, LinkError> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Why a message could not be written or read, or its sender is not believed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Not the JSON that was expected.
    #[error("not a message of the link: {0}")]
    Json(#[from] serde_json::Error),
    /// Above [`MAX_MESSAGE_BYTES`].
    #[error("a message of {0} bytes is longer than {MAX_MESSAGE_BYTES}")]
    TooLong(usize),
    /// The other end speaks another protocol, or stopped in the middle.
    #[error(
        "the other end does not speak the link between brokers and their controller; check the address"
    )]
    NoLink,
    /// The other end has another release.
    #[error(
        "the other end speaks version {0} of the link, this one version {LINK_VERSION}; run the same release at both ends"
    )]
    Version(u32),
    /// The other end does not know the key.
    #[error(
        "the other end has another key; give the controller and all its brokers the same --link-key"
    )]
    WrongKey,
    /// Not the frame that the other end sealed next.
    #[error("a frame was changed, repeated or left out on its way")]
    Forged,
}
