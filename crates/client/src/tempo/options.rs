//! Options of an endpoint, a publication and a subscription.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use kernel::CpuShare;
use limit::Limit;
use wire::announce::Key;

/// The group that endpoints meet in unless told otherwise: of the block for use within one organisation (RFC 2365).
pub const DEFAULT_GROUP: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 77), 4177));

/// Where announcements go, which decides who carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// To the broker that takes announcements at this address: it carries all messages.
    Broker(SocketAddr),
    /// To everybody who listens to this multicast or broadcast address: publishers send to subscribers directly.
    Group(SocketAddr),
    /// To both: the broker carries messages while it is heard, and publishers do while it is not.
    Auto {
        /// The broker's address for announcements.
        broker: SocketAddr,
        /// The multicast or broadcast address.
        group: SocketAddr,
    },
}

/// What an endpoint is made for.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Where announcements go.
    pub channel: Channel,
    /// The interface, by its address, that multicast is sent from and heard on; unspecified: the system chooses.
    pub interface: Ipv4Addr,
    /// Scheduling threads; zero: one per core.
    pub threads: usize,
    /// T, the time that shares are fractions of.
    pub period: Duration,
    /// Time between announcements while nothing changes. They hold for three intervals.
    pub announce_interval: Duration,
    /// Where data are taken; port 0: a free one.
    pub data_address: SocketAddr,
    /// Takes data as datagrams as well, on the same port.
    pub udp: bool,
    /// A secret that all endpoints share: who does not know it is not heard.
    pub key: Option<Key>,
    /// The controller to ask for topics' identifiers, `http://host:4180`; without one they are
    /// derived from the names.
    pub controller: Option<String>,
    /// Share of the period for announcements and greetings.
    pub control_share: CpuShare,
    /// Longest body of a message, bytes, in both directions.
    pub body_bytes_max: u32,
    /// Run by each scheduling thread before anything else, with its number: to ask the system for real-time priority, for
    /// one. An error ends the start.
    pub on_thread_start: Option<ThreadStart>,
}

/// What a scheduling thread does first, given its number.
#[derive(Clone)]
pub struct ThreadStart(Arc<dyn Fn(usize) -> std::io::Result<()> + Send + Sync>);

impl ThreadStart {
    /// Runs `start` on each thread.
    pub fn new(start: impl Fn(usize) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        ThreadStart(Arc::new(start))
    }

    pub(super) fn run(&self, number: usize) -> std::io::Result<()> {
        (self.0)(number)
    }
}

impl std::fmt::Debug for ThreadStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ThreadStart")
    }
}

/// What happens to a message that finds a queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// The program waits; a subscriber that takes nothing holds the publication back until it is forgotten.
    #[default]
    Block,
    /// The message is dropped and counted: for the publication where the task does not keep up, for one subscriber where
    /// that one does not.
    Drop,
}

/// Options of a publication.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublicationOptions {
    /// Share of the period; none: an equal part of what declared ones leave.
    pub share: Option<CpuShare>,
    /// Bytes that wait for their turn at most; as many again are being written.
    pub queue_bytes: usize,
    /// Messages that wait for their turn at most.
    pub queue_messages: usize,
    /// What happens beyond.
    pub on_full: OnFull,
    /// The topic's limit, which its publishers share where there is no broker; with one the broker enforces it.
    pub limit: Option<Limit>,
    /// Sends datagrams to subscribers that take them: unordered, and lost without a trace.
    pub by_datagram: bool,
}

/// Options of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Share of the period; none: an equal part of what declared ones leave.
    pub share: Option<CpuShare>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            channel: Channel::Group(DEFAULT_GROUP),
            interface: Ipv4Addr::UNSPECIFIED,
            threads: 0,
            period: Duration::from_millis(10),
            announce_interval: Duration::from_secs(1),
            data_address: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
            udp: false,
            key: None,
            controller: None,
            control_share: CpuShare::new(0.02).unwrap_or(CpuShare::WHOLE),
            body_bytes_max: 1 << 20,
            on_thread_start: None,
        }
    }
}

impl Default for PublicationOptions {
    fn default() -> Self {
        PublicationOptions {
            share: None,
            queue_bytes: 256 * 1024,
            queue_messages: 10_000,
            on_full: OnFull::default(),
            limit: None,
            by_datagram: false,
        }
    }
}

impl Channel {
    /// The group, where there is one.
    #[must_use]
    pub fn group(&self) -> Option<SocketAddr> {
        match *self {
            Channel::Broker(_) => None,
            Channel::Group(group) | Channel::Auto { group, .. } => Some(group),
        }
    }

    /// The broker, where there is one.
    #[must_use]
    pub fn broker(&self) -> Option<SocketAddr> {
        match *self {
            Channel::Group(_) => None,
            Channel::Broker(broker) | Channel::Auto { broker, .. } => Some(broker),
        }
    }
}
