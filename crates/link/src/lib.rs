//! What controller and brokers say to each other, as values.
//!
//! A broker dials the controller and keeps one TCP connection: it says [`ToController::Hello`], then reports
//! once a second; the controller answers with grants and orders. Every message is one JSON value behind a
//! length of four bytes (big endian). Neither side's data path waits for the other: a broker without a link goes on
//! with the shares it holds until their leases end.
//!
//! Only words are here: who acts on them is `broker::agent` on one side and `control` on the other.

pub mod cpu_share;
mod order;
mod report;
mod topic;

pub use order::{Move, Round, Sharers, ToBroker};
pub use report::{
    Announcement, Attachment, BrokerReport, Hello, Lateness, ToController, TopicReport, Traced,
    WindowReport,
};
pub use topic::{ChannelState, TopicChange, TopicState};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of these words; a side that hears another one refuses the link.
pub const LINK_VERSION: u32 = 5;

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

/// Why a message could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Not the JSON that was expected.
    #[error("not a message of the link: {0}")]
    Json(#[from] serde_json::Error),
    /// Above [`MAX_MESSAGE_BYTES`].
    #[error("a message of {0} bytes is longer than {MAX_MESSAGE_BYTES}")]
    TooLong(usize),
}
