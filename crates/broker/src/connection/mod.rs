//! One TCP connection, as data: its peer, its state, and what waits in either direction.
//!
//! It belongs to one reactor thread; when it subscribes to a topic of another reactor, it moves
//! there whole. An idle connection holds no buffers.

mod arrivals;
mod declared;
mod output;
mod pace;
mod probes;
mod subscriptions;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clock::Instant;
use http::places::Party;
use topics::Key;
use topics::TopicKey;
use wire::TopicName;

use crate::reactor::DeliveryBatch;
use crate::session::Session;
use crate::session::greeting::MAGIC_BYTES;
use crate::stats::ClientStats;
use crate::sys::Interest;
use crate::transport::Transport;

pub use arrivals::{ArrivalStamp, ArrivalTable};
pub use declared::DeclaredPublisher;
pub use output::{OUTPUT_FULL_BYTES, Output};
pub use pace::Pace;
pub use probes::{Followed, HalfRtt, Landing, Probes};
pub use subscriptions::{Away, SUBSCRIPTIONS_MAX, Seat, SubscriptionNumber, Subscriptions};

/// Names a connection within its reactor.
pub type ConnectionKey = Key<Connection>;

/// Bytes at the front of a [`Connection`] that reading and executing a publish touches.
pub const HOT_BYTES: usize = 256;

/// Topics whose publish counts a connection remembers; the oldest is forgotten beyond.
const PUBLISHED_TOPICS_MAX: usize = 16;

/// Why a connection is not read from at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It is read from.
    #[default]
    No,
    /// Its next publish does not fit into its topic's queue.
    Room,
    /// As many of its publishes as may be are on their way to another reactor.
    InTransit,
    /// Its output is full: what it asks for would add to what it does not read.
    Unread,
    /// The rest of its command lacks memory.
    Memory,
    /// Another reactor is asked whether it may subscribe there.
    Asking,
}

/// A client's wish to have its messages collected (`output_buffer_timeout`, `output_buffer_size`).
#[derive(Clone, Copy, Debug)]
pub struct Collecting {
    /// For so long at most.
    pub timeout: Duration,
    /// Until this many bytes wait.
    pub bytes: usize,
}

/// A topic that the connection has published to.
#[derive(Clone, Debug)]
pub struct PublishedTopic {
    /// Its name.
    pub name: TopicName,
    /// Reactor that owns it.
    pub home: usize,
    /// Its key there; may be stale.
    pub key: Option<TopicKey>,
    /// The connection has declared itself a publisher of the topic.
    pub is_declared: bool,
    /// Messages accepted.
    pub messages: u64,
}

/// What is kept of a connection that has not said who it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stranger {
    /// Its place among the others.
    pub place: u64,
    /// Memory that is reserved for its first command.
    pub reserved_bytes: usize,
}

/// Against whom the topics and channels count that are made from `address`: this, or its network. Programs of this machine count
/// against nobody.
#[must_use]
pub fn maker_at(address: IpAddr) -> Option<IpAddr> {
    let party = Party::from(address);
    (!party.is_this_machine()).then(|| party.address())
}

/// One connection.
///
/// In the order in which a publish touches it: with thousands of connections every cache line of this
/// is a miss, so what each message needs stands together.
#[derive(Debug)]
#[repr(C)]
pub struct Connection {
    /// The way of its bytes.
    pub transport: Transport,
    /// Why it is not read from.
    pub pause: Pause,
    /// It stands in the reactor's list of connections to flush.
    pub dirty: bool,
    /// What epoll watches it for.
    pub interest: Interest,
    /// A last error is on its way out; what still comes in is thrown away, so that the peer gets
    /// to read the error instead of a reset.
    pub is_lingering: bool,
    /// Its input holds something, costs memory or is waited for: without this nobody looks at those fields, which stand far behind.
    pub has_cut_input: bool,
    /// Epoll has told of the peer's end, and tells of it once: it is read from until that comes.
    pub is_ending: bool,
    /// It has not said yet who it is.
    pub is_stranger: bool,
    /// What is spoken on it.
    pub session: Session,
    /// Bytes read and not yet parsed.
    pub input: Vec<u8>,
    /// Arrival of the last bytes read: no later ones can have arrived before.
    pub last_arrival: Instant,
    /// When bytes were last read.
    pub last_read: Instant,
    /// Half its round trip, read now and then; for the end-to-end latency of what it publishes.
    pub half_rtt: HalfRtt,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// The topic that it has published to last.
    pub publishing: Option<PublishedTopic>,
    /// When the bytes of `input` arrived.
    pub arrivals: ArrivalTable,
    /// Bytes that `input` must hold before parsing makes sense.
    pub needed: usize,
    /// Set where the client wants its messages collected.
    pub collecting: Option<Box<Collecting>>,
    /// Bytes to be sent.
    pub output: Output,
    /// Messages followed up to their acknowledgement; set with the first of them.
    pub probes: Option<Box<Probes>>,
    /// Its publishes on their way to other reactors.
    pub in_transit: u32,
    /// Bytes of these.
    pub in_transit_bytes: usize,
    /// Memory that is reserved for the command that its input begins with.
    pub input_reserved: usize,
    /// Memory of its input beyond that.
    pub input_charged: usize,
    /// How the rest of a command gets on that is not complete.
    pub arriving: Option<Pace>,
    /// When its timer comes up next.
    pub timer_at: Option<Instant>,
    /// Batches of messages from other reactors that were put into an output that is full: they go back when it is not.
    #[expect(
        clippy::vec_box,
        reason = "they travel boxed; keeping one must not allocate"
    )]
    pub kept_batches: Vec<Box<DeliveryBatch>>,
    /// Other topics it has published to.
    pub published_before: Vec<PublishedTopic>,
    /// The publisher that it declared itself as, while it holds that name.
    pub declared: Option<Box<DeclaredPublisher>>,
    /// Who is at the other end.
    pub peer: SocketAddr,
    /// Unix seconds of the connect.
    pub connect_ts_s: u64,
    /// What is kept while it is a stranger.
    pub stranger: Stranger,
}

/// The first of the arrivals is the last thing that a publish touches.
const _: () = assert!(
    std::mem::offset_of!(Connection, arrivals) + ArrivalTable::FIRST_BYTES <= HOT_BYTES,
    "a publish touches more of a connection than is fetched ahead"
);

impl Connection {
    /// A new connection that has to say first what it speaks.
    #[must_use]
    pub fn new(
        transport: Transport,
        peer: SocketAddr,
        now: Instant,
        connect_ts_s: u64,
    ) -> Connection {
        Connection {
            transport,
            pause: Pause::No,
            dirty: false,
            interest: Interest::READ_ONCE,
            is_lingering: false,
            has_cut_input: false,
            is_ending: false,
            is_stranger: true,
            session: Session::Greeting,
            input: Vec::new(),
            last_arrival: now,
            last_read: now,
            half_rtt: HalfRtt::default(),
            subscriptions: Subscriptions::default(),
            publishing: None,
            collecting: None,
            arrivals: ArrivalTable::default(),
            needed: MAGIC_BYTES,
            output: Output::default(),
            probes: None,
            in_transit: 0,
            in_transit_bytes: 0,
            input_reserved: 0,
            input_charged: 0,
            arriving: None,
            timer_at: None,
            kept_batches: Vec::new(),
            published_before: Vec::new(),
            declared: None,
            peer,
            connect_ts_s,
            stranger: Stranger::default(),
        }
    }

    /// Whether it has to read before it may ask for more, where its output is full at `full_bytes`.
    #[inline]
    #[must_use]
    pub fn is_over_full(&self, full_bytes: usize) -> bool {
        self.output
            .is_over_full(self.session.owed_bytes(), full_bytes)
    }

    /// The interval at which it is looked at, where the broker's own is `usual`.
    #[must_use]
    pub fn interval(&self, usual: Duration) -> Duration {
        self.session.interval().unwrap_or(usual)
    }

    /// Notes how the rest of its command gets on after `bytes` have come and `used` were executed.
    #[inline]
    pub fn note_arriving(&mut self, bytes: usize, used: usize, now: Instant) {
        self.has_cut_input = true;
        let is_cut = self.needed > self.input.len() && !self.input.is_empty();
        match &mut self.arriving {
            _ if !is_cut => self.arriving = None,
            Some(pace) if used == 0 => {
                pace.advance(bytes);
                pace.renew(now, self.needed);
            }
            arriving => *arriving = Some(Pace::new(now, self.needed)),
        }
    }

    /// Whether it is to be served at `at`: an ack is due then, or what was collected.
    #[must_use]
    pub fn is_due(&self, at: Instant) -> bool {
        let collected = self.collecting.as_deref().zip(self.output.waiting_since);
        self.session.ack_due() == Some(at)
            || collected.is_some_and(|(collecting, since)| since + collecting.timeout == at)
    }

    /// Whether it has published and holds no subscription.
    #[must_use]
    pub fn is_producer(&self) -> bool {
        self.subscriptions.is_empty() && self.publishing.is_some()
    }

    /// Whether `/stats` shows it as a producer of `topic`.
    #[must_use]
    pub fn has_published_to(&self, topic: &str) -> bool {
        let mut all = self.publishing.iter().chain(&self.published_before);
        all.any(|published| published.name.as_str() == topic)
    }

    /// Whether it publishes to `topic` at the moment.
    #[inline]
    #[must_use]
    pub fn is_publishing_to(&self, topic: &str) -> bool {
        self.publishing
            .as_ref()
            .is_some_and(|current| current.name.as_str() == topic)
    }

    /// Whether it is known as a publisher of `topic`.
    #[must_use]
    pub fn declares(&self, topic: &str) -> bool {
        self.declared
            .as_ref()
            .is_some_and(|declared| declared.topic.as_str() == topic)
    }

    /// Makes it known as a publisher, or as none. Gives back what it was known as.
    pub fn declare(
        &mut self,
        declared: Option<Box<DeclaredPublisher>>,
    ) -> Option<Box<DeclaredPublisher>> {
        let former = std::mem::replace(&mut self.declared, declared);
        let topic = self.declared.as_ref().map(|declared| &declared.topic);
        for published in self.publishing.iter_mut().chain(&mut self.published_before) {
            published.is_declared = topic == Some(&published.name);
        }
        former
    }

    /// Makes another topic the one that it publishes to; counts made before are taken up again.
    pub fn publish_to(&mut self, topic: PublishedTopic) {
        let known = self
            .published_before
            .iter()
            .position(|before| before.name == topic.name);
        let topic = known.map_or(topic, |index| self.published_before.swap_remove(index));
        if let Some(former) = self.publishing.replace(topic) {
            if self.published_before.len() >= PUBLISHED_TOPICS_MAX {
                self.published_before.remove(0);
            }
            self.published_before.push(former);
        }
    }

    /// Adds to the count of messages published to `topic`.
    pub fn count_published(&mut self, topic: &str, messages: u32) {
        let all = self.publishing.iter_mut().chain(&mut self.published_before);
        if let Some(published) = all
            .into_iter()
            .find(|published| published.name.as_str() == topic)
        {
            published.messages += u64::from(messages);
        }
    }

    /// Against whom topics and channels count that it makes; `None`: nobody.
    #[must_use]
    pub fn maker(&self) -> Option<IpAddr> {
        maker_at(self.peer.ip())
    }

    /// What `/stats` tells of it; the subscription's counters are filled in by the topic table.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        // A client that tells nothing is shown by its address, as in nsqd.
        let address = self.peer.ip().to_string();
        let mut stats = ClientStats {
            client_id: address.clone(),
            hostname: address,
            remote_address: self.peer.to_string(),
            connect_ts_s: self.connect_ts_s,
            pub_counts: self
                .publishing
                .iter()
                .chain(&self.published_before)
                .map(|to| (to.name.as_str().to_string(), to.messages))
                .collect(),
            ..ClientStats::default()
        };
        let is_consuming = !self.subscriptions.is_empty();
        self.session.describe(is_consuming, &mut stats);
        self.transport.describe(&mut stats);
        if self.is_lingering {
            stats.state = 4;
        }
        stats
    }
}
