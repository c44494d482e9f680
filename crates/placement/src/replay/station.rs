//! One broker as a queue: servers, and the topic's bucket behind them.
//!
//! Message m of a command that arrived at a: a server takes it at max(a, S), S being when the first
//! server is free, and is done at c after its share of the [`ServiceModel`]'s costs; the bucket (r,
//! b) judges a and releases it at d. It leaves at max(c, d), never before its predecessor. Service
//! and tokens overlap because the broker judges arrival stamps (SRTM-long, section 5.2). Everything
//! is computed once it is determined, nothing is scheduled: a station that nobody calls costs
//! nothing.
//!
//! Messages that wait for tokens are kept, so that a share which changes meanwhile counts for them.

use super::lane::{Gate, Lane, Left, WAITING_MAX};
use super::servers::Servers;
use crate::PublisherIndex;
use model::ServiceModel;

/// One broker's servers and its bucket for the topic.
#[derive(Clone, Debug, Default)]
pub struct Station {
    servers: Servers,
    lane: Lane,
}

impl Station {
    /// Messages that may wait for tokens; [`Station::arrive`] refuses more.
    pub const WAITING_MAX: usize = WAITING_MAX;

    /// An idle station at time zero.
    #[must_use]
    pub fn new(model: ServiceModel, gate: Gate) -> Self {
        let mut station = Station::default();
        station.begin(model, gate);
        station
    }

    /// Begins anew with the same memory.
    pub fn begin(&mut self, model: ServiceModel, gate: Gate) {
        self.servers.begin(model);
        self.lane.begin(gate);
    }

    /// What lets messages pass from now on may be changed here; call [`Station::advance`] with the instant of the
    /// change before.
    pub fn gate_mut(&mut self) -> &mut Gate {
        self.lane.gate_mut()
    }

    /// What lets messages pass.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.lane.gate
    }

    /// Messages that wait for tokens.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lane.waiting()
    }

    /// Messages that nobody will see any more: those that wait for tokens, thrown away.
    pub fn lose_waiting(&mut self) -> u64 {
        self.lane.lose_waiting()
    }

    /// A publish command of `messages` arrives that was due at `due_ns`, or before if its publisher could not send;
    /// `gone` is called for what has left until then or leaves at once. Calls come in the order of time. Returns how
    /// many messages were refused because too many wait.
    #[inline]
    pub fn arrive(
        &mut self,
        at_ns: u64,
        due_ns: u64,
        publisher: PublisherIndex,
        messages: u16,
        gone: impl FnMut(Left),
    ) -> u16 {
        let Station { servers, lane } = self;
        lane.arrive(servers, (at_ns, due_ns), publisher, messages, gone)
    }

    /// A publish command of another topic, which takes servers but no token of this topic.
    #[inline]
    pub fn occupy(&mut self, at_ns: u64, messages: u16) {
        self.servers.occupy(at_ns, messages);
    }

    /// Lets those pass whose tokens have come by `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, gone: impl FnMut(Left)) {
        self.lane.advance(now_ns, gone);
    }
}
