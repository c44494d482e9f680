//! Publishers and a subscriber for Rust programs, with cumulative acknowledgements and placement by a controller.
//!
//! All are blocking, speak NSQ V2 and need no runtime. A [`Publisher`] is one connection and keeps a bounded number of
//! messages under way; a [`Subscriber`] hands out messages one by one and writes what was finished in batches; both
//! work with `srtm` and with a stock `nsqd`. A [`PlacedPublisher`] asks a controller where to publish, follows when it
//! is moved, and sends again what a broker that died had not acknowledged.
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
//! Deliberately absent: reconnection of the plain publisher and of the subscriber (the caller decides what to do with
//! messages whose fate is unknown), lookup of brokers by subscribers, compression.

mod connection;
pub mod echo;
mod encryption;
mod error;
mod line;
pub mod placed;
mod publisher;
mod subscriber;
pub mod tempo;

pub use credentials::Trust;
pub use echo::{EchoListener, Echoer};
pub use encryption::{OutputBuffer, Tls};
pub use error::ClientError;
pub use line::Line;
pub use placed::{PlacedOptions, PlacedPublisher};
pub use publisher::{Acknowledgement, AtWindow, Publisher, PublisherOptions};
pub use subscriber::{Message, Subscriber, SubscriberOptions};
pub use wire::MessageId;

#[cfg(test)]
mod tests;
