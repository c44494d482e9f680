//! One topic at a broker: its bucket, and the messages that wait for it.

use std::collections::VecDeque;

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};

use super::servers::Servers;
use crate::PublisherIndex;

/// Messages of one topic that may wait for tokens.
pub(super) const WAITING_MAX: usize = 1 << 22;

/// A message that has left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// What [`Station::arrive`](crate::Station::arrive) was told of it: when it was due, in nanoseconds.
    pub due_ns: u64,
    /// When it left, `base_ns` not included.
    pub left_ns: f64,
    /// How long it had been served already when its token came; 0 where the limit did not hold it.
    pub waited_ns: f64,
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

/// One topic's way through a broker, but for the servers, which others use too.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) gate: Gate,
    /// Messages that wait for a token.
    waiting: VecDeque<Waiting>,
    /// When the head of those that wait gets its token, as the bucket stands.
    head_leaves_at: Option<Instant>,
    left_ns: f64,
}

impl Lane {
    /// Begins anew with the same memory.
    pub(super) fn begin(&mut self, gate: Gate) {
        self.gate = gate;
        self.waiting.clear();
        self.head_leaves_at = None;
        self.left_ns = 0.0;
    }

    /// The gate, to be changed.
    pub(super) fn gate_mut(&mut self) -> &mut Gate {
        self.head_leaves_at = None;
        &mut self.gate
    }

    /// Messages that wait for tokens.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Throws away those that wait.
    pub(super) fn lose_waiting(&mut self) -> u64 {
        let lost = self.waiting.len() as u64;
        self.waiting.clear();
        self.head_leaves_at = None;
        lost
    }

    /// A publish command of `messages` arrives, as [`super::Station::arrive`] has it.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        servers: &mut Servers,
        (at_ns, due_ns): (u64, u64),
        publisher: PublisherIndex,
        messages: u16,
        mut gone: impl FnMut(Left),
    ) -> u16 {
        if !self.waiting.is_empty() {
            self.advance(at_ns, &mut gone);
        }
        let mut cost_ns = servers.first_cost_ns(at_ns, publisher);
        let mut refused = 0;
        for _ in 0..messages {
            let served_ns = servers.serve(at_ns as f64, cost_ns);
            cost_ns = servers.model.per_message_ns;
            if self.waiting.is_empty() && self.passes(at_ns) {
                self.leave(due_ns, served_ns, 0.0, &mut gone);
            } else if self.waiting.len() < WAITING_MAX {
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

    /// Lets those pass whose tokens have come by `now_ns`.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64, mut gone: impl FnMut(Left)) {
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
