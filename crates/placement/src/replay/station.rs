//! One broker as a queue: servers, and the topic's bucket behind them.
//!
//! Message m of a command that arrived at a: a server takes it at max(a, S), S being when the first server is free,
//! and is done at c after its share of the [`ServiceModel`]'s costs; the bucket (r, b) judges a and releases it at d. It
//! leaves at max(c, d), never before its predecessor. Service and tokens overlap because the broker judges arrival
//! stamps (SRTM-long, section 5.2). Everything is computed when it is known, nothing is scheduled: a station that
//! nobody calls costs nothing.
//!
//! Messages that wait for tokens are kept, so that a share which changes meanwhile counts for them.

use std::collections::VecDeque;

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};

use super::ServiceModel;
use crate::PublisherIndex;

/// Publishers that share this span count as active together.
const ACTIVE_SPAN_NS: u64 = 1_000_000;

/// A message that has left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// What [`Station::arrive`] was told of it: when it was due, in nanoseconds.
    pub due_ns: u64,
    /// When it left, `base_ns` not included.
    pub left_ns: f64,
    /// How long it had been served already when its token came; 0 where the limit did not hold it.
    pub waited_ns: f64,
}

/// One broker's servers and its bucket for the topic.
#[derive(Clone, Debug, Default)]
pub struct Station {
    model: ServiceModel,
    /// When each server is free, in nanoseconds.
    free_at_ns: Vec<f64>,
    active: Active,
    gate: Gate,
    /// Messages that wait for a token.
    waiting: VecDeque<Waiting>,
    /// When the head of those that wait has its token, as the bucket stands.
    head_leaves_at: Option<Instant>,
    left_ns: f64,
}

/// What lets messages of the topic pass.
#[derive(Clone, Debug, Default)]
pub enum Gate {
    /// There is no limit.
    #[default]
    Open,
    /// A share of a limit.
    Bucket(TokenBucket),
    /// There is a limit and no share of it: nothing passes.
    Shut,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived_ns: u64,
    due_ns: u64,
    served_ns: f64,
}

/// Counts the publishers of the present span.
#[derive(Clone, Debug, Default)]
struct Active {
    span: u64,
    count: u32,
    /// The span in which each publisher was seen last.
    seen_in: Vec<u64>,
}

impl Station {
    /// Messages that may wait for tokens; [`Station::arrive`] refuses more.
    pub const WAITING_MAX: usize = 1 << 22;

    /// An idle station at time zero.
    #[must_use]
    pub fn new(model: ServiceModel, gate: Gate) -> Self {
        let mut station = Station::default();
        station.begin(model, gate);
        station
    }

    /// Begins anew with the same memory.
    pub fn begin(&mut self, model: ServiceModel, gate: Gate) {
        self.free_at_ns.clear();
        self.free_at_ns.resize(model.servers.max(1) as usize, 0.0);
        self.active.span = 0;
        self.active.count = 0;
        self.active.seen_in.clear();
        self.model = model;
        self.gate = gate;
        self.waiting.clear();
        self.head_leaves_at = None;
        self.left_ns = 0.0;
    }

    /// What lets messages pass from now on may be changed here; call [`Station::advance`] with the instant of the
    /// change before.
    pub fn gate_mut(&mut self) -> &mut Gate {
        self.head_leaves_at = None;
        &mut self.gate
    }

    /// What lets messages pass.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Messages that wait for tokens.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Messages that nobody will see any more: those that wait for tokens, thrown away.
    pub fn lose_waiting(&mut self) -> u64 {
        let lost = self.waiting.len() as u64;
        self.waiting.clear();
        self.head_leaves_at = None;
        lost
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
        mut gone: impl FnMut(Left),
    ) -> u16 {
        if !self.waiting.is_empty() {
            self.advance(at_ns, &mut gone);
        }
        let mut cost_ns = self.model.per_message_ns + self.model.per_batch_ns;
        if self.model.per_active_connection_ns > 0.0 {
            let together = self.active.count(at_ns, publisher);
            cost_ns += self.model.per_active_connection_ns * f64::from(together);
        }
        let mut refused = 0;
        for _ in 0..messages {
            let served_ns = self.serve(at_ns as f64, cost_ns);
            cost_ns = self.model.per_message_ns;
            if self.waiting.is_empty() && self.passes(at_ns) {
                self.leave(due_ns, served_ns, 0.0, &mut gone);
            } else if self.waiting.len() < Self::WAITING_MAX {
                self.waiting.push_back(Waiting {
                    arrived_ns: at_ns,
                    due_ns,
                    served_ns,
                });
            } else {
                refused += 1;
            }
        }
        refused
    }

    /// A publish command of another topic, which takes servers but no token of this topic.
    #[inline]
    pub fn occupy(&mut self, at_ns: u64, messages: u16) {
        let mut cost_ns = self.model.per_message_ns * f64::from(messages) + self.model.per_batch_ns;
        if self.model.per_active_connection_ns > 0.0 {
            self.active.enter(at_ns);
            self.active.count += 1;
            cost_ns += self.model.per_active_connection_ns * f64::from(self.active.count);
        }
        self.serve(at_ns as f64, cost_ns);
    }

    /// Lets those pass whose tokens have come by `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, mut gone: impl FnMut(Left)) {
        let now = Instant::from_nanos(now_ns);
        while let Some(&head) = self.waiting.front() {
            let arrived = Instant::from_nanos(head.arrived_ns);
            let token_at = match &mut self.gate {
                Gate::Shut => return,
                Gate::Open => arrived,
                Gate::Bucket(bucket) => {
                    let leaves_at = *self
                        .head_leaves_at
                        .get_or_insert_with(|| bucket.departure(arrived, 1.0));
                    if leaves_at > now {
                        return;
                    }
                    self.head_leaves_at = None;
                    bucket.take(arrived, 1.0)
                }
            };
            self.waiting.pop_front();
            self.leave(
                head.due_ns,
                head.served_ns,
                token_at.as_nanos() as f64,
                &mut gone,
            );
        }
    }

    /// Whether a message that nobody waits before has its token at its arrival.
    #[inline]
    fn passes(&mut self, at_ns: u64) -> bool {
        match &mut self.gate {
            Gate::Open => true,
            Gate::Bucket(bucket) => bucket.try_take(Instant::from_nanos(at_ns), 1.0),
            Gate::Shut => false,
        }
    }

    #[inline]
    fn leave(&mut self, due_ns: u64, served_ns: f64, token_ns: f64, gone: &mut impl FnMut(Left)) {
        self.left_ns = self.left_ns.max(served_ns).max(token_ns);
        gone(Left {
            due_ns,
            left_ns: self.left_ns,
            waited_ns: (token_ns - served_ns).max(0.0),
        });
    }

    /// When work that arrived at `arrived_ns` is done on the server that is free first.
    #[inline]
    fn serve(&mut self, arrived_ns: f64, cost_ns: f64) -> f64 {
        let mut first = 0;
        for server in 1..self.free_at_ns.len() {
            if self.free_at_ns[server] < self.free_at_ns[first] {
                first = server;
            }
        }
        let done_ns = self.free_at_ns[first].max(arrived_ns) + cost_ns;
        self.free_at_ns[first] = done_ns;
        done_ns
    }
}

impl Gate {
    /// A bucket of this share that is full at time zero, as theory begins; open without one.
    #[must_use]
    pub fn full(share: Option<(Rate, Burst)>) -> Self {
        share.map_or(Gate::Open, |(rate, burst)| {
            Gate::Bucket(TokenBucket::full(rate, burst, Instant::ZERO))
        })
    }
}

impl Active {
    #[inline]
    fn enter(&mut self, at_ns: u64) {
        let span = at_ns / ACTIVE_SPAN_NS + 1;
        if span != self.span {
            self.span = span;
            self.count = 0;
        }
    }

    /// Publishers seen in the span of `at_ns` so far, `publisher` included.
    fn count(&mut self, at_ns: u64, publisher: PublisherIndex) -> u32 {
        self.enter(at_ns);
        let place = publisher.0 as usize;
        if self.seen_in.len() <= place {
            self.seen_in.resize(place + 1, 0);
        }
        if self.seen_in[place] != self.span {
            self.seen_in[place] = self.span;
            self.count += 1;
        }
        self.count
    }
}
