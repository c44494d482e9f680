//! The connections of a reactor, as far as they concern nobody but their peers.

mod input;
mod say;
pub(super) mod timers;

use clock::Instant;
use topics::{Arena, ConsumerKey, MemoryBudget, TopicKey, Wakeups};

use super::complaints::Complaints;
use super::memory::Memory;
use super::probes::ProbeBudget;
use crate::connection::{Connection, ConnectionKey, Progress};
use crate::stats::ReactorStats;
use crate::sys::{self, Epoll};

/// Connections, and what they share.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) connections: Arena<Connection>,
    /// Those that are flushed when the turn ends.
    pub(super) dirty: Vec<ConnectionKey>,
    /// Consumers that are flushed when their topic was served.
    pub(super) dirty_consumers: Vec<ConnectionKey>,
    /// Large output buffers that nobody needs at present.
    pub(super) spare_outputs: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    pub(super) random: clock::Xoshiro256PlusPlus,
    pub(super) probe_budget: ProbeBudget,
    /// Each connection's next look.
    pub(super) timers: Wakeups<ConnectionKey>,
    /// Acks and collected output.
    pub(super) dues: Wakeups<ConnectionKey>,
    pub(super) epoll: Epoll,
    pub(super) memory: Memory,
    pub(super) complaints: Complaints,
    pub(super) counters: ReactorStats,
}

impl Peers {
    /// Nobody is connected; `seed` is of what is left to chance.
    pub(super) fn new(epoll: Epoll, budget: &MemoryBudget, seed: u64) -> Peers {
        Peers {
            connections: Arena::default(),
            dirty: Vec::new(),
            dirty_consumers: Vec::new(),
            spare_outputs: Vec::new(),
            inputs: Vec::new(),
            random: clock::stream(seed, "probes"),
            probe_budget: ProbeBudget::default(),
            timers: Wakeups::default(),
            dues: Wakeups::default(),
            epoll,
            memory: Memory::new(budget),
            complaints: Complaints::default(),
            counters: ReactorStats::default(),
        }
    }

    /// What a connection consumes.
    pub(in crate::reactor) fn consumer_of(&self, key: ConnectionKey) -> Option<ConsumerKey> {
        self.connections.get(key)?.consumer
    }

    /// Whether errors are told to a connection in NSQ's frames.
    pub(in crate::reactor) fn speaks_nsq(&self, key: ConnectionKey) -> bool {
        let progress = self
            .connections
            .get(key)
            .map(|connection| connection.progress);
        progress.is_some_and(|progress| progress != Progress::Tempo)
    }

    /// Reactor that owns the topic that a connection publishes to, the topic's key there, and whether the connection is known
    /// as a publisher of it.
    pub(in crate::reactor) fn home_and_key(
        &self,
        key: ConnectionKey,
    ) -> Option<(usize, Option<TopicKey>, bool)> {
        let published = self.connections.get(key)?.publishing.as_ref()?;
        Some((published.home, published.key, published.is_announced))
    }

    /// Half the round trip of a publisher's connection, µs.
    pub(in crate::reactor) fn publisher_half_rtt_us(
        &mut self,
        key: ConnectionKey,
        now: Instant,
    ) -> u32 {
        let Some(connection) = self.connections.get_mut(key) else {
            return 0;
        };
        if connection.half_rtt.is_old(now) {
            let path = sys::path(&connection.stream).unwrap_or_default();
            connection.half_rtt.set(path, now);
        }
        connection.half_rtt.us
    }
}
