//! Who waits until what was published is durable: publishers here and on other reactors, requests of the handle, and other brokers.
//!
//! A command whose messages are in a batch of its topic's log is answered when that is durable. Until then it counts as in transit, as one
//! does that has travelled to another reactor, so what a connection may have under way has the same bound, and its answers come in
//! their order: while something of it is under way it goes on to no other topic.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;
use topics::{LogAnswer, NotTaken, TopicKey};

use super::inbox::Settled;
use crate::connection::ConnectionKey;
use crate::handle::Reply;

/// A command that waits until its messages are durable.
#[derive(Debug)]
pub(super) enum Undurable {
    /// Of a connection of this reactor.
    Here(CommandUnderWay),
    /// Of a connection of that one.
    Away(usize, Settled),
    /// One that came through the handle (HTTP).
    Request(Reply<()>),
    /// A batch of another broker's queue.
    Handed(Reply<Result<(), NotTaken>>),
}

/// A command of a connection of this reactor that was carried out and not answered.
#[derive(Debug)]
pub(super) struct CommandUnderWay {
    pub(super) connection: ConnectionKey,
    pub(super) messages: u32,
    /// Of their bodies.
    pub(super) bytes: usize,
    pub(super) delay: Duration,
}

/// Those who wait at each topic, with the number of the batch that they wait for.
#[derive(Debug, Default)]
pub(super) struct Waiters(FxHashMap<TopicKey, VecDeque<(u64, Undurable)>>);

impl Waiters {
    /// Puts one at the end of those that wait at a topic.
    pub(super) fn push(&mut self, topic: TopicKey, number: u64, waiter: Undurable) {
        self.0.entry(topic).or_default().push_back((number, waiter));
    }

    /// The next one that waits for no later batch.
    pub(super) fn pop(&mut self, answer: LogAnswer) -> Option<Undurable> {
        let waiting = self.0.get_mut(&answer.topic)?;
        let next = waiting.pop_front_if(|(number, _)| *number <= answer.number);
        if waiting.is_empty() {
            self.0.remove(&answer.topic);
        }
        next.map(|(_, waiter)| waiter)
    }
}
