//! Tempo's data path: messages that carry a four-byte identifier instead of a topic's name.
//!
//! A publisher, or a broker that speaks for one, connects by TCP to each endpoint that announced
//! itself as a subscriber. The connecting side says once who it is ([`put_hello`]) and then sends
//! messages; nothing comes back. By UDP a message is a datagram of its own, without a hello.
//! Announcements say which topic an identifier means ([`crate::announce`]).
//!
//! Like the rest of the crate it owns no buffer: decoders borrow the caller's bytes and say how
//! many they used or lack. A message's size is bounded by the caller and checked before its body
//! arrives.
//!
//! Bodies are neither signed nor hidden, and a signed hello can be replayed by whoever recorded it.

mod error;
mod hello;
mod message;

pub use error::TempoError;
pub use hello::{
    HELLO_BYTES, HelloDecoded, MAGIC_TEMPO, SIGNED_HELLO_BYTES, decode_hello, put_hello,
};
pub use message::{
    DATAGRAM_HEADER_BYTES, MESSAGE_HEADER_BYTES, MessageDecoded, decode_datagram, decode_message,
    message_header, put_datagram_header, put_message_header,
};

#[cfg(test)]
mod tests;
