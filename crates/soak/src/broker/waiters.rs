//! Who waits until messages are durable (`broker/reactor/durable.rs`).

use std::collections::{BTreeMap, VecDeque};

use topics::{LogAnswer, TopicKey};

use crate::event::StreamId;
use crate::laws::delivery::Key;

/// Those who wait at each topic, with the number of the batch that they wait for.
#[derive(Debug, Default)]
pub(super) struct Waiters(BTreeMap<u64, VecDeque<(u64, Waiter)>>);

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) who: Who,
    pub(super) keys: Vec<Key>,
    /// They are to outlive the power of their host, too.
    pub(super) is_synced: bool,
}

/// See [`Waiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// A publisher, with so many messages.
    Publisher(StreamId, u32),
    /// A broker that hands over.
    Broker(StreamId),
}

impl Waiters {
    /// Puts one at the end of those that wait at a topic.
    pub(super) fn push(&mut self, topic: TopicKey, number: u64, waiter: Waiter) {
        let waiting = self.0.entry(topic.to_bits()).or_default();
        waiting.push_back((number, waiter));
    }

    /// The next one that waits for no later batch.
    pub(super) fn pop(&mut self, answer: LogAnswer) -> Option<Waiter> {
        let waiting = self.0.get_mut(&answer.topic.to_bits())?;
        let next = waiting.pop_front_if(|(number, _)| *number <= answer.number);
        next.map(|(_, waiter)| waiter)
    }
}
