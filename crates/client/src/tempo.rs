//! Tempo's endpoints: publish and subscribe on a messaging kernel, through a broker or directly
//! from peer to peer.
//!
//! A [`Node`] is an endpoint. Each of its publications, subscriptions and timers is a task of one
//! kernel with a CPU share ([`kernel`]); a few threads, as a rule one per core, serve them.
//! Endpoints find each other by announcements on a [`Channel`]: a multicast or broadcast group,
//! where publishers then send to subscribers directly, or a broker, which stands between them. Only
//! the channel's address differs ("Toward scalable real-time messaging").
//!
//! ```no_run
//! use std::time::Duration;
//! use client::tempo::{Node, NodeOptions, PublicationOptions, SubscriptionOptions};
//!
//! # fn main() -> Result<(), client::ClientError> {
//! let node = Node::start(NodeOptions::default())?;
//! let _subscription = node.subscribe("temperature", SubscriptionOptions::default(), |message| {
//!     println!("{}", String::from_utf8_lossy(message.body));
//! })?;
//! let publisher = node.publisher("temperature", PublicationOptions::default())?;
//! let _sensor = node.every(Duration::from_millis(10), None, move || {
//!     let _full_or_ended = publisher.publish(b"21.5");
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! What a program may count on:
//!
//! * The messages of one publisher on one topic arrive in their order, each at most once (by
//!   datagram: in any order).
//! * Nothing is stored: who subscribes later, or is away, misses what was published. Messages on
//!   their way to a subscriber that dies are lost, and so are those published before a subscriber
//!   was found.
//! * Every topic has connections and a task of its own: a subscriber that does not keep up slows
//!   its own topic.
//! * Every queue has a bound, and every message that is dropped is counted where it is dropped
//!   ([`NodeStats`]).
//! * Callbacks of one subscription or timer run one at a time, those of different ones at once on
//!   several threads.
//!
//! Deliberately absent: acknowledgements, storage, topics by pattern, encryption. With a key,
//! announcements and greetings prove their origin; messages themselves are neither signed nor
//! hidden.

mod alarms;
mod channel;
mod control;
mod handles;
mod identifiers;
mod inbox;
mod monotonic;
mod node;
mod options;
mod pace;
mod poller;
mod publication;
mod stats;
mod subscription;
mod timer;

pub use control::ControlCounts;
pub use handles::{Subscription, Timer, TopicPublisher};
pub use kernel::{CpuShare, TaskStats};
pub use limit::Limit;
pub use node::Node;
pub use options::{
    Channel, DEFAULT_GROUP, NodeOptions, OnFull, PublicationOptions, SubscriptionOptions,
    ThreadStart,
};
pub use publication::PublicationCounts;
pub use stats::{Activity, NodeStats, TaskReport};
pub use subscription::{SubscriptionCounts, TempoMessage};
pub use timer::TimerCounts;
pub use wire::announce::{InstanceId, Key};
