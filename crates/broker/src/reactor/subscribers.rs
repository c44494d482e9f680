//! Subscribers that the broker has connected to, as a Tempo publisher would, and the topics that
//! identifiers stand for.
//!
//! Each subscriber has a channel of its own, whose messages are finished when they are written.
//! Identifiers come from announcements; the reactor has a copy.

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
    /// The topic that it subscribes to.
    pub topic: TopicName,
    /// Its own channel.
    pub channel: ChannelName,
    /// The subscriber and its protocol.
    pub subscriber: TempoSubscriber,
    /// The first bytes of the connection.
    pub hello: Vec<u8>,
    /// The connection.
    pub stream: Stream,
    /// Its other end.
    pub peer: SocketAddr,
}
