//! One channel: every message of its topic, each to one of its consumers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use clock::Instant;
use wire::ChannelName;

use super::consumer::ConsumerKey;
use super::handover::Ledger;
use super::in_flight::InFlight;
use super::store::MessageRef;
use super::table::TopicKey;
use crate::arena::Key;

/// Names a channel.
pub type ChannelKey = Key<Channel>;

/// A message waiting for a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// The message.
    pub message: MessageRef,
    /// Deliveries so far on this channel.
    pub attempts: u16,
    /// Since when it could have been delivered.
    pub since: Instant,
}

/// A message waiting for its delay to pass; `sequence` keeps equal times in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deferred {
    pub(super) due: Instant,
    pub(super) sequence: u64,
    pub(super) message: MessageRef,
    pub(super) attempts: u16,
}

/// Queue, flights and consumers of one channel.
///
/// Bound: new messages enter while `queue + deferred < mem_queue_size`. What a consumer gives back
/// always fits, so the channel holds at most that plus what was in flight.
#[derive(Debug)]
pub struct Channel {
    /// Its name.
    pub name: ChannelName,
    /// Its topic.
    pub topic: TopicKey,
    /// No deliveries while set.
    pub paused: bool,
    /// Messages put in since its creation.
    pub message_count: u64,
    /// Requeued by consumers.
    pub requeue_count: u64,
    /// Requeued by timeouts.
    pub timeout_count: u64,
    /// Discarded: full ephemeral queue, sampled away, or emptied.
    pub dropped_count: u64,
    /// Finished by consumers.
    pub finish_count: u64,
    pub(super) queue: VecDeque<Queued>,
    pub(super) deferred: BinaryHeap<Reverse<Deferred>>,
    pub(super) in_flight: InFlight,
    pub(super) consumers: Vec<ConsumerKey>,
    pub(super) ready: VecDeque<ConsumerKey>,
    pub(super) wake_at: Option<Instant>,
    pub(super) deferrals: u64,
    pub(super) handing: Ledger,
}

impl Channel {
    pub(super) fn new(name: ChannelName, topic: TopicKey) -> Channel {
        Channel {
            name,
            topic,
            paused: false,
            message_count: 0,
            requeue_count: 0,
            timeout_count: 0,
            dropped_count: 0,
            finish_count: 0,
            queue: VecDeque::new(),
            deferred: BinaryHeap::new(),
            in_flight: InFlight::default(),
            consumers: Vec::new(),
            ready: VecDeque::new(),
            wake_at: None,
            deferrals: 0,
            handing: Ledger::default(),
        }
    }

    /// Messages waiting for a consumer.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.queue.len()
    }

    /// Messages sent and not finished.
    #[must_use]
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Messages waiting for their delay to pass.
    #[must_use]
    pub fn deferred_count(&self) -> usize {
        self.deferred.len()
    }

    /// Messages that are here in whatever state.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        let with_consumers = self.in_flight_count() + self.deferred_count();
        (self.depth() + with_consumers + self.handing.lifted()) as u64
    }

    /// Room for one more message. An ephemeral channel always takes one: it drops at its bound.
    #[must_use]
    pub fn has_room(&self, mem_queue_size: usize) -> bool {
        self.name.is_ephemeral() || self.queue.len() + self.deferred.len() < mem_queue_size
    }

    pub(super) fn is_full(&self, mem_queue_size: usize) -> bool {
        self.queue.len() + self.deferred.len() >= mem_queue_size
    }

    /// Takes a new message, deferred until `due` if that is ahead, or drops it at the bound (only an
    /// ephemeral channel is ever offered one there). Gives the time to wake up at, if that is new.
    pub(super) fn put(
        &mut self,
        message: MessageRef,
        due: Instant,
        now: Instant,
        mem_queue_size: usize,
    ) -> Option<Instant> {
        self.message_count += 1;
        if self.is_full(mem_queue_size) {
            self.dropped_count += 1;
            return None;
        }
        if due > now {
            return self.defer(message, 0, due);
        }
        self.queue.push_back(Queued {
            message,
            attempts: 0,
            since: now,
        });
        None
    }

    /// Defers a message; gives the time to wake up at, if that is a new one.
    pub(super) fn defer(
        &mut self,
        message: MessageRef,
        attempts: u16,
        due: Instant,
    ) -> Option<Instant> {
        self.deferrals += 1;
        self.deferred.push(Reverse(Deferred {
            due,
            sequence: self.deferrals,
            message,
            attempts,
        }));
        let earlier = self.wake_at.is_none_or(|at| due < at);
        if earlier {
            self.wake_at = Some(due);
        }
        earlier.then_some(due)
    }

    /// Moves what is due to the queue; gives the next time to wake up at.
    pub(super) fn queue_due(&mut self, now: Instant) -> Option<Instant> {
        while let Some(Reverse(deferred)) = self.deferred.peek() {
            if deferred.due > now {
                break;
            }
            let Deferred {
                due,
                message,
                attempts,
                ..
            } = *deferred;
            self.deferred.pop();
            self.queue.push_back(Queued {
                message,
                attempts,
                since: due,
            });
        }
        self.wake_at = self.deferred.peek().map(|Reverse(deferred)| deferred.due);
        self.wake_at
    }

    /// Conservation: what came in is finished, dropped, handed over, or still here.
    pub(super) fn is_conserved(&self) -> bool {
        let gone = self.finish_count + self.dropped_count + self.handing.over();
        self.message_count + self.handing.taken() == gone + self.unfinished()
    }
}
