//! The frames for declared publishers: where to go, and that messages wait.
//!
//! Both name a topic, since a connection may also publish to topics that it did not declare.

use super::{Frame, FrameType, put_header};
use crate::is_valid_name;

/// Appends a migrate frame (SRTM extension): `topic` is to be published at `address` from now on.
///
/// The frame can be read back where [`is_valid_address`] holds.
pub fn put_migrate(out: &mut Vec<u8>, topic: &str, address: &str) {
    debug_assert!(is_valid_address(address), "{address}");
    let data_bytes = 2 * LENGTH_BYTES + topic.len() + address.len();
    put_header(out, FrameType::Migrate, data_bytes);
    for text in [topic, address] {
        // A topic has at most 64 bytes, a valid address at most `MAX_ADDRESS_BYTES`.
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends a throttled frame (SRTM extension): messages of `topic` wait for about
/// `retry_after_us` microseconds now.
pub fn put_throttled(out: &mut Vec<u8>, topic: &str, retry_after_us: u32) {
    put_header(out, FrameType::Throttled, 4 + topic.len());
    out.extend_from_slice(&retry_after_us.to_be_bytes());
    out.extend_from_slice(topic.as_bytes());
}

/// Longest `host:port`: a DNS name of 253 bytes, a colon and five digits.
pub const MAX_ADDRESS_BYTES: usize = 253 + 1 + 5;

/// Whether `address` can stand in a migrate frame: `host:port` in printable ASCII without blanks, a
/// port of 1 to 65535 in digits, at most [`MAX_ADDRESS_BYTES`]. Whether there is such a host is not asked.
pub fn is_valid_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    address.len() <= MAX_ADDRESS_BYTES
        && !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_graphic())
        && is_port
}

pub(super) fn migrate_of(data: &[u8]) -> Option<Frame<'_>> {
    let (topic, rest) = split_text(data)?;
    let (address, rest) = split_text(rest)?;
    let is_whole = rest.is_empty() && is_valid_name(topic.as_bytes()) && is_valid_address(address);
    is_whole.then_some(Frame::Migrate { topic, address })
}

pub(super) fn throttled_of(data: &[u8]) -> Option<Frame<'_>> {
    let (retry_after_us, topic) = data.split_first_chunk::<4>()?;
    let topic = std::str::from_utf8(topic).ok()?;
    is_valid_name(topic.as_bytes()).then_some(Frame::Throttled {
        retry_after_us: u32::from_be_bytes(*retry_after_us),
        topic,
    })
}

/// A text behind its length.
fn split_text(data: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = data.split_first_chunk::<LENGTH_BYTES>()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

const LENGTH_BYTES: usize = 2;
