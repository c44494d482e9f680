//! A channel: it gets every message of its topic and gives each to one of its consumers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use clock::Instant;
use wire::ChannelName;

use super::bounds::Bounds;
use super::consumer::ConsumerKey;
use super::fullness::{FullNews, Fullness};
use super::handover::{Handed, HandoverAccount, QueueName};
use super::in_flight::InFlight;
use super::log::UNLOGGED;
use super::names::NameShare;
use super::processing::Processing;
use super::queue::Queue;
use super::spill::{QueueKey, SpilledQueue};
use super::store::MessageRef;
use super::topic::{Topic, TopicKey};
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

/// The effect of a new message on a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Put {
    /// The message that the channel holds no longer, itself perhaps.
    pub(super) gone: Option<MessageRef>,
    /// The time to wake the channel up at, if that is a new one.
    pub(super) wake_at: Option<Instant>,
}

/// Queue, flights and consumers of one channel.
///
/// Three bounds that do not touch each other: new messages enter the queue while it is shorter than `mem_queue_size`; so many are
/// in flight as consumers are ready for; of deferred ones there are `deferred_max` that publishers delay, and as many that
/// consumers gave back with a delay. What comes back from flight or delay always fits into the queue, so that holds at most all three.
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
    /// Discarded: by a full queue, sampled away, or emptied.
    pub dropped_count: u64,
    /// Of those, the oldest of a full queue that gave way to newer ones.
    pub dropped_oldest_count: u64,
    /// REQs with a delay that were refused because as many messages as may be were deferred.
    pub refused_requeue_count: u64,
    /// Finished by consumers.
    pub finish_count: u64,
    /// Messages that it had outside when this life of the broker began.
    pub restored_count: u64,
    pub(super) queue: Queue<Queued>,
    pub(super) deferred: BinaryHeap<Reverse<Deferred>>,
    /// Of the deferred, those that consumers gave back.
    pub(super) deferred_again: usize,
    pub(super) fullness: Fullness,
    pub(super) in_flight: InFlight,
    pub(super) consumers: Vec<ConsumerKey>,
    pub(super) ready: VecDeque<ConsumerKey>,
    pub(super) wake_at: Option<Instant>,
    pub(super) deferrals: u64,
    pub(super) handing: HandoverAccount,
    /// What it is called in the log of its topic.
    pub(super) log_number: u32,
    /// Counts against its maker while it is there.
    pub(super) name_share: Option<NameShare>,
    /// How long its messages take until they are finished, where that is asked for.
    pub(super) processing: Option<Box<Processing>>,
}

impl Channel {
    pub(super) fn new(name: ChannelName, topic: TopicKey, queue: Queue<Queued>) -> Channel {
        Channel {
            name,
            topic,
            paused: false,
            message_count: 0,
            requeue_count: 0,
            timeout_count: 0,
            dropped_count: 0,
            dropped_oldest_count: 0,
            refused_requeue_count: 0,
            finish_count: 0,
            restored_count: 0,
            queue,
            deferred: BinaryHeap::new(),
            deferred_again: 0,
            fullness: Fullness::default(),
            in_flight: InFlight::default(),
            consumers: Vec::new(),
            ready: VecDeque::new(),
            wake_at: None,
            deferrals: 0,
            handing: HandoverAccount::default(),
            log_number: UNLOGGED,
            name_share: None,
            processing: None,
        }
    }

    /// Its queue, as orders call it.
    pub(super) fn spilled(&self, key: ChannelKey, topic: &Topic) -> SpilledQueue {
        SpilledQueue {
            key: QueueKey::Channel(key),
            name: QueueName {
                topic: topic.name.clone(),
                channel: Some(self.name.clone()),
            },
        }
    }

    /// Messages waiting for a consumer.
    #[inline]
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

    /// When the first of those is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.deferred.peek().map(|Reverse(deferred)| deferred.due)
    }

    /// Messages that are here in whatever state.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        let with_consumers = self.in_flight_count() + self.deferred_count();
        (self.depth() + with_consumers + self.handing.lifted()) as u64
    }

    /// Room for one more message in the queue. An ephemeral channel always takes one: it drops at its bound.
    #[inline]
    #[must_use]
    pub fn has_room(&self, mem_queue_size: usize) -> bool {
        self.queue.has_room(mem_queue_size) || self.name.is_ephemeral()
    }

    /// Whether as many messages are deferred as publishers may delay.
    pub(super) fn is_full_of_delays(&self, deferred_max: usize) -> bool {
        self.deferred.len() - self.deferred_again >= deferred_max
    }

    /// Room for all of these, in its queue and among messages that are delayed, by publishers or by consumers.
    pub(super) fn has_room_for(&self, messages: &[Handed], bounds: &Bounds) -> bool {
        let count =
            |is_meant: fn(&Handed) -> bool| messages.iter().filter(|each| is_meant(each)).count();
        let at_once = count(|each| each.delay.is_zero());
        let later = count(|each| !each.delay.is_zero() && each.attempts == 0);
        let again = messages.len() - at_once - later;
        let deferred = self.deferred.len() - self.deferred_again;
        let deferred_again = self.deferred_again + self.handing.lifted_again();
        (at_once == 0 || self.queue.has_room_for(at_once, bounds.mem_queue_size))
            && deferred + later <= bounds.deferred_max
            && deferred_again + again <= bounds.deferred_max
    }

    /// Takes a new message, deferred until `due` if that is ahead. At a bound one is dropped: in a full queue the oldest, in an
    /// ephemeral channel the new one.
    #[inline]
    pub(super) fn put(
        &mut self,
        message: MessageRef,
        due: Instant,
        now: Instant,
        bounds: &Bounds,
    ) -> Put {
        self.message_count += 1;
        if due > now {
            if self.name.is_ephemeral() && self.is_full_of_delays(bounds.deferred_max) {
                self.dropped_count += 1;
                let gone = Some(message);
                return Put {
                    gone,
                    wake_at: None,
                };
            }
            let wake_at = self.defer(message, 0, due);
            return Put {
                gone: None,
                wake_at,
            };
        }
        let is_full = !self.queue.has_room(bounds.mem_queue_size);
        let gone = is_full.then(|| self.give_way(message)).flatten();
        if gone != Some(message) {
            self.queue.push_back(Queued {
                message,
                attempts: 0,
                since: now,
            });
        }
        let wake_at = None;
        Put { gone, wake_at }
    }

    /// Lets the oldest message that waits give way to `message`, in a queue that is full; gives the one that went. A full
    /// ephemeral queue keeps what it has.
    fn give_way(&mut self, message: MessageRef) -> Option<MessageRef> {
        self.dropped_count += 1;
        if self.name.is_ephemeral() {
            return Some(message);
        }
        self.dropped_oldest_count += 1;
        self.queue.pop_oldest().map(|oldest| oldest.message)
    }

    /// Keeps the books of its episodes of fullness and of its consumers' absence at every run of its topic; gives what is to be
    /// logged.
    pub(super) fn look_at_fullness(&mut self, bounds: &Bounds, now: Instant) -> Option<FullNews> {
        if self.consumers.is_empty() {
            self.fullness.vacant_since.get_or_insert(now);
        }
        if self.fullness.full.is_none() || !self.queue.is_half_empty(bounds.mem_queue_size) {
            return None;
        }
        self.fullness.end(self.dropped_oldest_count, now)
    }

    /// Defers a message; gives the time to wake up at, if that is a new one.
    pub(super) fn defer(
        &mut self,
        message: MessageRef,
        attempts: u16,
        due: Instant,
    ) -> Option<Instant> {
        self.deferrals += 1;
        self.deferred_again += usize::from(attempts > 0);
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
            self.deferred_again -= usize::from(attempts > 0);
            self.queue.push_back(Queued {
                message,
                attempts,
                since: due,
            });
        }
        self.wake_at = self.next_due();
        self.wake_at
    }

    /// Conservation: what came in is finished, dropped, handed over, or still here: queued, deferred, in flight or on its way.
    pub(super) fn is_conserved(&self) -> bool {
        let gone = self.finish_count + self.dropped_count + self.handing.over();
        let come = self.message_count + self.restored_count + self.handing.taken();
        come == gone + self.unfinished()
    }
}
