//! Publisher and subscriber for Rust programs, with cumulative acknowledgements.
//!
//! Both are blocking, speak NSQ V2 over one TCP connection each and need no runtime: they work with `srtm` and with a
//! stock `nsqd`. A [`Publisher`] keeps a bounded number of messages under way; a [`Subscriber`] hands out messages one
//! by one and writes what was finished in batches.
//!
//! ```no_run
//! use client::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};
//!
//! # fn main() -> Result<(), client::ClientError> {
//! let mut publisher = Publisher::connect("127.0.0.1:4150", PublisherOptions::default())?;
//! publisher.publish("temperature", b"21.5")?;
//! publisher.flush()?;
//!
//! let mut subscriber = Subscriber::connect("127.0.0.1:4150", "temperature", "archive", SubscriberOptions::default())?;
//! let message = subscriber.next_message()?;
//! println!("{}", String::from_utf8_lossy(message.body));
//! let id = message.id;
//! subscriber.finish(id)?;
//! # Ok(())
//! # }
//! ```
//!
//! Deliberately absent: reconnection (the caller decides what to do with messages whose fate is unknown), lookup of
//! brokers by topic, TLS and compression.

mod connection;
mod error;
mod publisher;
mod subscriber;

pub use error::ClientError;
pub use publisher::{Acknowledgement, AtWindow, Publisher, PublisherOptions};
pub use subscriber::{Message, Subscriber, SubscriberOptions};
pub use wire::MessageId;

#[cfg(test)]
mod tests;
