//! One TCP connection, as data: who it is, how far it has come, what waits in either direction.
//!
//! It belongs to one reactor thread; when it subscribes to a topic that another reactor owns it
//! moves there whole. An idle connection holds no buffers.

mod announced;
mod arrivals;
mod cumulative_ack;
mod output;
mod pace;
mod probes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use topics::Key;
use topics::{ConsumerKey, TopicKey};
use wire::announce::TopicId;
use wire::identify::Negotiated;
use wire::{OK_FRAME, Phase, TopicName};

use crate::stats::ClientStats;
use crate::sys::{Interest, Stream};

pub use announced::Announced;
pub use arrivals::{ArrivalStamp, ArrivalTable};
pub use cumulative_ack::CumulativeAck;
pub use output::{OUTPUT_FULL_BYTES, Output};
pub use pace::Pace;
pub use probes::{HalfRtt, Probes};

/// Names a connection within its reactor.
pub type ConnectionKey = Key<Connection>;

/// Bytes at the front of a [`Connection`] that reading and executing a publish touches.
pub const HOT_BYTES: usize = 256;

/// Topics whose publish counts a connection remembers; the oldest is forgotten beyond.
const PUBLISHED_TOPICS_MAX: usize = 16;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The protocol magic is awaited.
    Handshake,
    /// NSQ V2 commands are read.
    Open(Phase),
    /// Tempo messages are read, or written to a subscriber.
    Tempo,
    /// A last error is on its way out; what still comes in is thrown away, so that the peer gets
    /// to read the error instead of a reset.
    Lingering,
}

/// Why a connection is not read from at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It is read from.
    #[default]
    No,
    /// Its next publish does not fit into its topic's queue.
    Held,
    /// As many of its publishes as may be are on their way to another reactor.
    InTransit,
    /// Its output is full: what it asks for would add to what it does not read.
    Unread,
    /// There is no memory for the rest of its command.
    Memory,
}

/// What was negotiated, nsqd's defaults until IDENTIFY.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Interval of heartbeats, `None` = disabled.
    pub heartbeat: Option<Duration>,
    /// Time a message may be in flight.
    pub msg_timeout: Duration,
    /// Percent of messages wanted, 0 = all.
    pub sample_rate: u8,
}

/// A client's wish to have its messages collected (`output_buffer_timeout`, `output_buffer_size`).
#[derive(Clone, Copy, Debug)]
pub struct Collecting {
    /// For so long at most.
    pub timeout: Duration,
    /// Until so many bytes wait.
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
    /// The connection is known as a publisher of it.
    pub is_announced: bool,
    /// Messages accepted.
    pub messages: u64,
}

/// A subscriber of Tempo's, that the broker has connected to.
#[derive(Debug)]
pub struct TempoSubscriber {
    /// The identifier that it knows its topic by.
    pub id: TopicId,
    /// Dropped with the connection, so that its maker notices.
    #[expect(dead_code, reason = "that it is gone is what is seen")]
    pub alive: Arc<()>,
}

/// One connection.
///
/// In the order in which a publish touches it: with thousands of connections every cache line of this
/// is a miss, so what each message needs stands together.
#[derive(Debug)]
#[repr(C)]
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// How far it has come.
    pub progress: Progress,
    /// Why it is not read from.
    pub pause: Pause,
    /// It stands in the reactor's list of connections to flush.
    pub dirty: bool,
    /// What epoll watches it for.
    pub interest: Interest,
    /// Heartbeats were not disabled; part of `terms` that each command asks for.
    pub has_heartbeats: bool,
    /// Its input holds something, costs memory or is waited for: without this nobody looks at those fields, which stand far behind.
    pub has_cut_input: bool,
    /// OKs owed for publishes of this turn.
    pub oks: u32,
    /// Its publishes on their way to other reactors.
    pub in_transit: u32,
    /// Bytes read and not yet parsed.
    pub input: Vec<u8>,
    /// Arrival of the last bytes read: no later ones can have arrived before.
    pub last_arrival: Instant,
    /// When bytes were last read.
    pub last_read: Instant,
    /// Half its round trip, read now and then; for the end-to-end latency of what it publishes.
    pub half_rtt: HalfRtt,
    /// Its subscription.
    pub consumer: Option<ConsumerKey>,
    /// The topic that it has published to last.
    pub publishing: Option<PublishedTopic>,
    /// Set where cumulative acks were negotiated.
    pub ack: Option<CumulativeAck>,
    /// Set where the client wants its messages collected.
    pub collecting: Option<Box<Collecting>>,
    /// When the bytes of `input` arrived.
    pub arrivals: ArrivalTable,
    /// Bytes that `input` must hold before parsing makes sense.
    pub needed: usize,
    /// Bytes to be sent.
    pub output: Output,
    /// Set where messages go out as Tempo's.
    pub tempo: Option<Box<TempoSubscriber>>,
    /// Messages followed up to their acknowledgement; set with the first of them.
    pub probes: Option<Box<Probes>>,
    /// What was negotiated.
    pub terms: Terms,
    /// Bytes of its publishes on their way to other reactors.
    pub in_transit_bytes: usize,
    /// Memory that is reserved for the command that its input begins with.
    pub input_reserved: usize,
    /// Memory of its input beyond that.
    pub input_charged: usize,
    /// How the rest of a command gets on that is not complete.
    pub arriving: Option<Pace>,
    /// When its timer comes up next.
    pub timer_at: Option<Instant>,
    /// Other topics it has published to.
    pub published_before: Vec<PublishedTopic>,
    /// What the client told and was answered; nothing until IDENTIFY.
    pub identity: Option<Box<Negotiated>>,
    /// The publisher that it announced itself as, while it holds that name.
    pub announced: Option<Box<Announced>>,
    /// Who is at the other end.
    pub peer: SocketAddr,
    /// Unix seconds of the connect.
    pub connect_ts_s: u64,
}

impl Connection {
    /// A new connection that has to say its protocol magic first.
    #[must_use]
    pub fn new(
        stream: Stream,
        peer: SocketAddr,
        terms: Terms,
        now: Instant,
        connect_ts_s: u64,
    ) -> Connection {
        Connection {
            stream,
            progress: Progress::Handshake,
            pause: Pause::No,
            dirty: false,
            interest: Interest::READ_ONCE,
            has_heartbeats: terms.heartbeat.is_some(),
            has_cut_input: false,
            oks: 0,
            in_transit: 0,
            input: Vec::new(),
            last_arrival: now,
            last_read: now,
            half_rtt: HalfRtt::default(),
            consumer: None,
            publishing: None,
            ack: None,
            collecting: None,
            arrivals: ArrivalTable::default(),
            needed: wire::MAGIC_V2.len(),
            output: Output::default(),
            tempo: None,
            probes: None,
            terms,
            in_transit_bytes: 0,
            input_reserved: 0,
            input_charged: 0,
            arriving: None,
            timer_at: None,
            published_before: Vec::new(),
            identity: None,
            announced: None,
            peer,
            connect_ts_s,
        }
    }

    /// Whether it has to read before it may ask for more, where its output is full at `full_bytes`.
    #[inline]
    #[must_use]
    pub fn is_over_full(&self, full_bytes: usize) -> bool {
        let owed_bytes = self.oks as usize * OK_FRAME.len();
        self.output.is_over_full(owed_bytes, full_bytes)
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
        self.ack.as_ref().is_some_and(|ack| ack.due == Some(at))
            || collected.is_some_and(|(collecting, since)| since + collecting.timeout == at)
    }

    /// Whether it has published and holds no subscription.
    #[must_use]
    pub fn is_producer(&self) -> bool {
        self.consumer.is_none() && self.publishing.is_some()
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
    pub fn announces(&self, topic: &str) -> bool {
        self.announced
            .as_ref()
            .is_some_and(|announced| announced.topic.as_str() == topic)
    }

    /// Makes it known as a publisher, or as none. Gives back what it was known as.
    pub fn announce(&mut self, announced: Option<Box<Announced>>) -> Option<Box<Announced>> {
        let former = std::mem::replace(&mut self.announced, announced);
        let topic = self.announced.as_ref().map(|announced| &announced.topic);
        for published in self.publishing.iter_mut().chain(&mut self.published_before) {
            published.is_announced = topic == Some(&published.name);
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

    /// What `/stats` tells of it; the subscription's counters are filled in by the topic table.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        // A client that tells nothing is shown by its address, as in nsqd.
        let told = |field: fn(&Negotiated) -> &String| match self.identity.as_deref().map(field) {
            Some(name) => name.clone(),
            None => self.peer.ip().to_string(),
        };
        ClientStats {
            client_id: told(|identity| &identity.client_id),
            hostname: told(|identity| &identity.hostname),
            user_agent: self
                .identity
                .as_ref()
                .map_or(String::new(), |identity| identity.user_agent.clone()),
            remote_address: self.peer.to_string(),
            state: match self.progress {
                Progress::Handshake | Progress::Open(Phase::Init) => 0,
                Progress::Tempo if self.consumer.is_none() => 2,
                Progress::Tempo => 3,
                Progress::Open(Phase::Subscribed) => 3,
                Progress::Open(Phase::Closing) | Progress::Lingering => 4,
            },
            connect_ts_s: self.connect_ts_s,
            sample_rate: self.terms.sample_rate,
            pub_counts: self
                .publishing
                .iter()
                .chain(&self.published_before)
                .map(|to| (to.name.as_str().to_string(), to.messages))
                .collect(),
            ..ClientStats::default()
        }
    }
}
