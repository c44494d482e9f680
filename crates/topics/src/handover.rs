//! Queues handed over to another broker: messages are lifted, and either gone for good or put back; and what comes from another.
//!
//! A lifted message still counts as one that is here until its new owner has confirmed it. Of a queue one batch is lifted at a time.
//! Left alone are ephemeral queues, which are where their consumers are, what is in flight, and what flows: a queue with consumers, or that
//! passes messages on, gives away only what has waited for as long as the caller's patience.

mod lift;
mod take;

use std::time::Duration;

use bytes::Bytes;
use clock::Instant;
use wire::{ChannelName, TopicName};

use super::store::MessageRef;
use super::table::{Target, TopicTable};
use super::topic::Topic;
pub use take::{Batch, NotTaken};

/// Queues named in one look at most.
const QUEUES_MAX: usize = 1024;
/// Senders of batches that a queue knows at most; the one it has not heard of for longest gives way.
const STREAMS_MAX: usize = 16;

/// A queue: a topic's own, or a channel's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueName {
    /// The topic.
    pub topic: TopicName,
    /// The channel; `None`: what waits in the topic itself.
    pub channel: Option<ChannelName>,
}

/// A message between two brokers; its fields are those of [`wire::handover::HandedMessage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// When it was published, nanoseconds since the Unix epoch.
    pub published_ns: i64,
    /// Time until it may be delivered.
    pub delay: Duration,
    /// Deliveries so far.
    pub attempts: u16,
    /// The limit of its topic was asked already.
    pub has_paid: bool,
    /// The body.
    pub body: Bytes,
}

/// What a queue has handed over and taken, kept for its books.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Messages on their way, in the order of the queue.
    lifted: Vec<Lifted>,
    /// Messages that another broker has.
    over: u64,
    /// Messages that came from others.
    taken: u64,
    /// The last batch of each sender.
    streams: Vec<(u64, u64)>,
}

/// A message on its way; `due` is set for one whose delay had not passed.
#[derive(Clone, Copy, Debug)]
struct Lifted {
    message: MessageRef,
    attempts: u16,
    since: Instant,
    due: Option<Instant>,
}

impl Ledger {
    /// Messages on their way.
    pub(super) fn lifted(&self) -> usize {
        self.lifted.len()
    }

    /// Of those on their way, the ones that a consumer had given back for later.
    pub(super) fn lifted_again(&self) -> usize {
        let lifted = self.lifted.iter();
        let again = lifted.filter(|lifted| lifted.due.is_some() && lifted.attempts > 0);
        again.count()
    }

    /// Messages that came from other brokers.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Messages that other brokers have.
    pub(super) fn over(&self) -> u64 {
        self.over
    }

    /// Gives up what is on its way; whatever becomes of it is nothing to this queue any more.
    pub(super) fn discard(&mut self) -> impl Iterator<Item = MessageRef> {
        self.lifted.drain(..).map(|lifted| lifted.message)
    }

    /// Whether a batch is new; notes it, if so.
    fn begins(&mut self, stream: u64, number: u64) -> bool {
        let known = self.streams.iter().position(|(known, _)| *known == stream);
        let last = known.map_or(0, |index| self.streams.remove(index).1);
        if known.is_none() && self.streams.len() >= STREAMS_MAX {
            self.streams.remove(0);
        }
        self.streams.push((stream, last.max(number)));
        number > last
    }
}

impl TopicTable {
    /// Queues with messages to hand over: all that wait where nobody takes them, and what has waited for `patience` elsewhere.
    /// At most 1,024 of them.
    #[must_use]
    pub fn stranded(&self, patience: Duration, now: Instant) -> Vec<QueueName> {
        let lasting = self.topics.iter().map(|(_, topic)| topic);
        let lasting = lasting.filter(|topic| !topic.name.is_ephemeral());
        let of_topic = |topic: &Topic| {
            let keys = topic.channels.iter();
            let channels = keys.filter_map(|&key| self.channels.get(key));
            let channels = channels.filter(|channel| channel.is_stranded(patience, now));
            let names = channels.map(|channel| Some(channel.name.clone()));
            let own = topic
                .is_stranded(&self.store, patience, now)
                .then_some(None);
            let queues = names.chain(own).map(|channel| QueueName {
                topic: topic.name.clone(),
                channel,
            });
            queues.collect::<Vec<_>>()
        };
        lasting.flat_map(of_topic).take(QUEUES_MAX).collect()
    }

    /// Lifts the next batch of a queue; empty if there is none, or one is on its way.
    pub fn lift(&mut self, queue: &QueueName, patience: Duration, now: Instant) -> Vec<Handed> {
        let Some(key) = self.find(queue.topic.as_str()) else {
            return Vec::new();
        };
        let store = &self.store;
        match &queue.channel {
            None => {
                let topic = self.topics.get_mut(key);
                topic.map_or_else(Vec::new, |topic| topic.lift(store, patience, now))
            }
            Some(name) => {
                let Some(key) = self.find_channel(key, name) else {
                    return Vec::new();
                };
                let channel = self.channels.get_mut(key);
                channel.map_or_else(Vec::new, |channel| channel.lift(store, patience, now))
            }
        }
    }

    /// The batch of a queue that was lifted is with another broker, or is put back to where it was. Nothing happens to a queue that is gone or was
    /// emptied meanwhile.
    pub fn settle(&mut self, queue: &QueueName, is_taken: bool, now: Instant) {
        let Some(key) = self.find(queue.topic.as_str()) else {
            return;
        };
        let channel_key = match &queue.channel {
            None => None,
            Some(name) => match self.find_channel(key, name) {
                None => return,
                found => found,
            },
        };
        let ledger = match channel_key {
            None => self.topics.get_mut(key).map(|topic| &mut topic.handing),
            Some(key) => self
                .channels
                .get_mut(key)
                .map(|channel| &mut channel.handing),
        };
        let Some(ledger) = ledger else {
            return;
        };
        let lifted = std::mem::take(&mut ledger.lifted);
        if is_taken {
            ledger.over += lifted.len() as u64;
            lifted
                .iter()
                .for_each(|lifted| self.store.release(lifted.message));
        } else if let Some(channel_key) = channel_key {
            if let Some(channel) = self.channels.get_mut(channel_key)
                && let Some(at) = channel.put_back(lifted, now)
            {
                self.wakeups.push(at, Target::Channel(channel_key));
            }
        } else if let Some(topic) = self.topics.get_mut(key) {
            topic.put_back(&lifted, &self.store);
        }
        self.mark_dirty(key);
    }
}
