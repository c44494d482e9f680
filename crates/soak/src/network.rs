//! A network between hosts: streams like TCP's, and routes that can be cut, each way by itself.
//!
//! A stream keeps its order and repeats nothing. What is sent while the route is cut waits, and
//! arrives when the route is mended; after a wait of [`PATIENCE`] the stream breaks at both ends. A
//! process that ends closes its streams behind what it has already sent; a host without power says
//! nothing. A paused process hears later what arrived meanwhile (`world`).

mod routes;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::{Instant, Streams};

use crate::agenda::Agenda;
use crate::chance::Chance;
use crate::event::{Actor, Event, StreamId};
pub use routes::{CLIENTS, CONSUMERS, Host};
pub use streams::Delivery;
use streams::Stream;

/// A kernel gives up a stream whose bytes were not confirmed for so long (TCP_USER_TIMEOUT of both ends).
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A dial that was lost is repeated after so long.
const DIAL_AGAIN: Duration = Duration::from_secs(1);

/// How packets fare.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Shortest way, microseconds.
    pub least_us: u64,
    /// Longest way, but for the slow ones.
    pub most_us: u64,
    /// Part of packets that are slow: a retransmission.
    pub slow: f64,
    /// The longest of those, milliseconds.
    pub slow_ms: u64,
    /// Part of datagrams that are lost, and part that come twice.
    pub lost: f64,
    /// See above.
    pub twice: f64,
}

/// All hosts and what is between them.
pub struct Network {
    /// Future events.
    pub agenda: Agenda<Event>,
    /// The instant that it is.
    pub now: Instant,
    /// How packets fare at present.
    pub weather: Weather,
    /// Part of answers over HTTP that are lost with their connection: what was asked is done, and who asked does not know.
    pub answers_lost: f64,
    chance: Chance,
    streams: BTreeMap<StreamId, Stream>,
    dialled: u64,
    /// Processes that run, with their lives.
    running: BTreeMap<Actor, u64>,
    /// Hosts without power.
    dark: BTreeSet<Host>,
    /// Routes that are cut: from, to.
    cut: BTreeSet<(Host, Host)>,
}

impl Network {
    /// An empty one.
    #[must_use]
    pub fn new(streams: &Streams, weather: Weather, now: Instant) -> Network {
        Network {
            agenda: Agenda::default(),
            now,
            weather,
            answers_lost: 0.0,
            chance: Chance::new(streams, "network"),
            streams: BTreeMap::new(),
            dialled: 0,
            running: BTreeMap::new(),
            dark: BTreeSet::new(),
            cut: BTreeSet::new(),
        }
    }

    /// Notes what happens after `span`.
    pub fn after(&mut self, span: Duration, event: Event) {
        self.agenda.note(self.now + span, event);
    }

    /// How long a packet is under way.
    pub fn way(&mut self) -> Duration {
        let weather = self.weather;
        match self.chance.happens(weather.slow) {
            true => self.chance.span_ms(weather.slow_ms / 4, weather.slow_ms),
            false => self.chance.span_us(weather.least_us, weather.most_us),
        }
    }

    /// How many copies of a datagram arrive.
    pub fn copies(&mut self) -> usize {
        let weather = self.weather;
        match self.chance.happens(weather.lost) {
            true => 0,
            false => 1 + usize::from(self.chance.happens(weather.twice)),
        }
    }

    /// A process runs from now on.
    pub fn begins(&mut self, actor: Actor, life: u64) {
        self.running.insert(actor, life);
    }

    /// The life of a process that runs.
    #[must_use]
    pub fn life(&self, actor: Actor) -> Option<u64> {
        self.running.get(&actor).copied()
    }
}
