//! Commands: what a client may ask, and the bytes that ask it.
//!
//! [`Command`] is what [`crate::decode`] finds; the functions here write the same commands, for
//! clients. They append to the caller's buffer and check nothing: a name from [`crate::TopicName`]
//! or [`crate::ChannelName`] is right by construction, and sizes are the broker's to judge. A body
//! beyond 4 GiB does not fit the protocol at all and must not be passed.
//!
//! Form of a command: its name and parameters, separated by single spaces and ended by `\n`; then,
//! for those that have one, a body behind its size (four bytes, big endian).

use crate::{MessageId, Mpub};

/// A client's command, borrowed from the bytes it arrived in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The client describes itself and negotiates; see [`crate::identify::negotiate`].
    Identify {
        /// JSON object.
        body: &'a [u8],
    },
    /// Subscribe to a channel of a topic; at most once per connection.
    Sub {
        /// Valid topic name.
        topic: &'a str,
        /// Valid channel name.
        channel: &'a str,
    },
    /// Publish one message.
    Pub {
        /// Valid topic name.
        topic: &'a str,
        /// The message, not empty.
        body: &'a [u8],
    },
    /// Publish several messages, all or none.
    Mpub {
        /// Valid topic name.
        topic: &'a str,
        /// The messages.
        messages: Mpub<'a>,
    },
    /// Publish one message that becomes due later.
    Dpub {
        /// Valid topic name.
        topic: &'a str,
        /// Delay, at most the limit's `max_req_timeout_ms`.
        delay_ms: u64,
        /// The message, not empty.
        body: &'a [u8],
    },
    /// The number of messages the client is ready to have in flight.
    Rdy {
        /// At most the limit's `max_rdy_count`.
        count: u32,
    },
    /// A message is done.
    Fin {
        /// As delivered.
        id: MessageId,
    },
    /// A message shall be delivered again.
    Req {
        /// As delivered.
        id: MessageId,
        /// Delay before that, cut to the limit's `max_req_timeout_ms`.
        delay_ms: u64,
    },
    /// A message needs its timeout anew.
    Touch {
        /// As delivered.
        id: MessageId,
    },
    /// No more messages, please; those in flight may still be finished.
    Cls,
    /// Nothing: the answer to a heartbeat.
    Nop,
    /// Credentials.
    Auth {
        /// The secret.
        body: &'a [u8],
    },
}

/// Writes PUB. `body` must not be empty.
#[inline]
pub fn put_pub(out: &mut Vec<u8>, topic: &str, body: &[u8]) {
    out.reserve(PUB_OVERHEAD_BYTES + topic.len() + body.len());
    put_line(out, &[b"PUB", topic.as_bytes()]);
    put_body(out, body);
}

/// Writes MPUB. There must be at least one message, and none may be empty.
pub fn put_mpub<B: AsRef<[u8]>>(out: &mut Vec<u8>, topic: &str, messages: &[B]) {
    let body_bytes = 4 + messages
        .iter()
        .map(|message| 4 + message.as_ref().len())
        .sum::<usize>();
    out.reserve(PUB_OVERHEAD_BYTES + topic.len() + body_bytes);
    put_line(out, &[b"MPUB", topic.as_bytes()]);
    put_size(out, body_bytes);
    put_size(out, messages.len());
    for message in messages {
        put_body(out, message.as_ref());
    }
}

/// Writes DPUB. `body` must not be empty.
pub fn put_dpub(out: &mut Vec<u8>, topic: &str, delay_ms: u64, body: &[u8]) {
    put_line(
        out,
        &[b"DPUB", topic.as_bytes(), delay_ms.to_string().as_bytes()],
    );
    put_body(out, body);
}

/// Writes SUB.
pub fn put_sub(out: &mut Vec<u8>, topic: &str, channel: &str) {
    put_line(out, &[b"SUB", topic.as_bytes(), channel.as_bytes()]);
}

/// Writes RDY.
pub fn put_rdy(out: &mut Vec<u8>, count: u32) {
    put_line(out, &[b"RDY", count.to_string().as_bytes()]);
}

/// Writes FIN.
#[inline]
pub fn put_fin(out: &mut Vec<u8>, id: MessageId) {
    put_line(out, &[b"FIN", &id.0]);
}

/// Writes REQ.
pub fn put_req(out: &mut Vec<u8>, id: MessageId, delay_ms: u64) {
    put_line(out, &[b"REQ", &id.0, delay_ms.to_string().as_bytes()]);
}

/// Writes TOUCH.
pub fn put_touch(out: &mut Vec<u8>, id: MessageId) {
    put_line(out, &[b"TOUCH", &id.0]);
}

/// Writes CLS.
pub fn put_cls(out: &mut Vec<u8>) {
    put_line(out, &[b"CLS"]);
}

/// Writes NOP.
pub fn put_nop(out: &mut Vec<u8>) {
    put_line(out, &[b"NOP"]);
}

/// Writes IDENTIFY; `json` is an object such as [`crate::identify::Identify::to_json`] gives.
pub fn put_identify(out: &mut Vec<u8>, json: &[u8]) {
    put_line(out, &[b"IDENTIFY"]);
    put_body(out, json);
}

/// Writes AUTH.
pub fn put_auth(out: &mut Vec<u8>, secret: &[u8]) {
    put_line(out, &[b"AUTH"]);
    put_body(out, secret);
}

/// Name, spaces, newline and size of the longest publishing command.
const PUB_OVERHEAD_BYTES: usize = 4 + 1 + 1 + 4;

#[inline]
fn put_line(out: &mut Vec<u8>, words: &[&[u8]]) {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out.push(b'\n');
}

#[inline]
fn put_body(out: &mut Vec<u8>, body: &[u8]) {
    put_size(out, body.len());
    out.extend_from_slice(body);
}

#[inline]
fn put_size(out: &mut Vec<u8>, size: usize) {
    debug_assert!(u32::try_from(size).is_ok(), "a size field has four bytes");
    out.extend_from_slice(&(size as u32).to_be_bytes());
}
