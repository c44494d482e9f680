//! Subscribers that the broker has connected to, as a publisher of Tempo's would have, and what identifiers stand for.
//!
//! Each has a channel of its own, whose messages are finished when they are written. Identifiers come from announcements; the
//! reactor has a copy.

use std::net::SocketAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use wire::announce::TopicId;
use wire::{ChannelName, TopicName};

use crate::session::tempo::TempoSubscriber;
use crate::sys::Stream;

/// Which topics identifiers stand for.
pub type Identifiers = Arc<FxHashMap<TopicId, TopicName>>;

/// A subscriber that the broker has connected to.
#[derive(Debug)]
pub struct DialledSubscriber {
    /// What it subscribes.
    pub topic: TopicName,
    /// Its own channel.
    pub channel: ChannelName,
    /// Who it is, and how it is spoken to.
    pub subscriber: TempoSubscriber,
    /// What the connection begins with.
    pub hello: Vec<u8>,
    /// The connection.
    pub stream: Stream,
    /// Its other end.
    pub peer: SocketAddr,
}
