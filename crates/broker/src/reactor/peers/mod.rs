//! The connections of a reactor, as far as they concern only their peers.

mod input;
mod pauses;
mod say;

use clock::Instant;
use topics::{Arena, MemoryBudget, TopicKey, Wakeups};

use super::complaints::Complaints;
use super::memory::Memory;
use super::probes::ProbeBudget;
use super::strangers::Strangers;
use crate::connection::{Connection, ConnectionKey, Seat, SubscriptionNumber};
use crate::stats::ReactorStats;
use crate::sys::Epoll;

/// So many outdated timers are no matter.
pub(super) const OUTDATED_MIN: usize = 64;

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
    /// Those that have not said who they are.
    pub(super) strangers: Strangers,
    pub(super) random: clock::Xoshiro256PlusPlus,
    pub(super) probe_budget: ProbeBudget,
    /// Each connection's next look.
    pub(super) timers: Wakeups<ConnectionKey>,
    /// Those that have failed, with the reason: they are closed as soon as whoever found it is done.
    pub(super) failed: Vec<(ConnectionKey, String)>,
    /// Acks and collected output.
    pub(super) dues: Wakeups<ConnectionKey>,
    pub(super) epoll: Epoll,
    pub(super) memory: Memory,
    pub(super) complaints: Complaints,
    pub(super) counters: ReactorStats,
}

impl Peers {
    /// Nobody is connected; `seed` is of what is left to chance.
    pub(super) fn new(
        epoll: Epoll,
        strangers: Strangers,
        budget: &MemoryBudget,
        seed: u64,
    ) -> Peers {
        Peers {
            connections: Arena::default(),
            dirty: Vec::new(),
            dirty_consumers: Vec::new(),
            spare_outputs: Vec::new(),
            inputs: Vec::new(),
            strangers,
            random: clock::stream(seed, "probes"),
            probe_budget: ProbeBudget::default(),
            timers: Wakeups::default(),
            failed: Vec::new(),
            dues: Wakeups::default(),
            epoll,
            memory: Memory::new(budget),
            complaints: Complaints::default(),
            counters: ReactorStats::default(),
        }
    }

    /// A subscription of a connection.
    #[inline]
    pub(in crate::reactor) fn seat_of(
        &self,
        key: ConnectionKey,
        number: SubscriptionNumber,
    ) -> Option<Seat> {
        self.connections.get(key)?.subscriptions.get(number)
    }

    /// Reactor that owns the topic that a connection publishes to, the topic's key there, and whether the connection is known
    /// as a publisher of it.
    pub(in crate::reactor) fn home_and_key(
        &self,
        key: ConnectionKey,
    ) -> Option<(usize, Option<TopicKey>, bool)> {
        let published = self.connections.get(key)?.publishing.as_ref()?;
        Some((published.home, published.key, published.is_declared))
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
            let path = connection.transport.path().unwrap_or_default();
            connection.half_rtt.set(path, now);
        }
        connection.half_rtt.us
    }

    /// Sets a connection's timer; a former one is forgotten.
    pub(in crate::reactor) fn arm_timer(&mut self, key: ConnectionKey, at: Instant) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.timer_at = Some(at);
            self.timers.push(at, key);
            self.forget_outdated();
        }
    }

    /// Has a connection served at `at`.
    pub(in crate::reactor) fn push_due(&mut self, at: Instant, key: ConnectionKey) {
        self.dues.push(at, key);
        self.forget_outdated();
    }

    /// Keeps timers that nobody waits for any more from filling the memory. Each connection has one timer, and may have an ack
    /// and collected output due.
    fn forget_outdated(&mut self) {
        let connections = &self.connections;
        if self.timers.len() > 2 * connections.len() + OUTDATED_MIN {
            self.timers.retain(|at, key| {
                let connection = connections.get(key);
                connection.is_some_and(|connection| connection.timer_at == Some(at))
            });
        }
        if self.dues.len() > 4 * connections.len() + OUTDATED_MIN {
            self.dues.retain(|at, key| {
                let connection = connections.get(key);
                connection.is_some_and(|connection| connection.is_due(at))
            });
        }
    }
}
