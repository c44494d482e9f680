//! Handing queues over to another broker: messages are lifted, and then either gone for good or put
//! back; and receiving such messages.
//!
//! A lifted message still counts as here until its new owner has confirmed it. One batch of a queue
//! is lifted at a time. Left alone are ephemeral queues, which belong where their consumers are,
//! messages in flight, and queues that flow: one with consumers, or one that passes messages on,
//! gives away only what has waited for as long as the caller's patience.

mod lift;
mod take;

use std::time::Duration;

use bytes::Bytes;
use clock::Instant;
use wire::{ChannelName, TopicName};

use super::agenda::{Agenda, Target};
use super::effects::Effects;
use super::log::LogStep;
use super::store::{MessageRef, Store};
use super::topic::{Topic, TopicKey};
use super::tree::Tree;
pub use take::{Batch, NotTaken};
pub(super) use take::{is_ephemeral, take_over_channel, take_over_topic};

/// Queues named in one look at most.
const QUEUES_MAX: usize = 1024;
/// Channels of one topic that are looked at in one step.
const STEP_CHANNELS_MAX: usize = 64;
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

/// Messages that a queue has handed over and taken, for its books.
#[derive(Debug, Default)]
pub(super) struct HandoverAccount {
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

impl HandoverAccount {
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

    /// What is on its way: each message, its deliveries, and when it is due if it is deferred.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageRef, u16, Option<Instant>)> {
        let lifted = self.lifted.iter();
        lifted.map(|each| (each.message, each.attempts, each.due))
    }

    /// Takes what is on its way: each message, since when it waits, its deliveries, and when it is due if it is deferred.
    pub(super) fn take_lifted(
        &mut self,
    ) -> impl Iterator<Item = (MessageRef, Instant, u16, Option<Instant>)> {
        let lifted = self.lifted.drain(..);
        lifted.map(|each| (each.message, each.since, each.attempts, each.due))
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

/// A search for queues with messages to hand over, a topic at a time: all that wait where nobody
/// takes them, and elsewhere those that have waited for as long as the patience. Later queues are
/// for the next search.
#[derive(Debug)]
pub struct StrandedWalk {
    patience: Duration,
    slot: usize,
    /// A topic with more channels than are looked at in one step, and how many were.
    open: Option<(TopicKey, usize)>,
    queues: Vec<QueueName>,
}

impl StrandedWalk {
    /// A look for what has waited for `patience`.
    #[must_use]
    pub fn new(patience: Duration) -> StrandedWalk {
        StrandedWalk {
            patience,
            slot: 0,
            open: None,
            queues: Vec::new(),
        }
    }

    /// The queues found, at most 1,024.
    #[must_use]
    pub fn queues(self) -> Vec<QueueName> {
        self.queues
    }

    /// Looks at one topic, or at some of its channels; see
    /// [`TopicTable::stranded_next`](super::TopicTable::stranded_next). `settle` has it hear all
    /// announcements.
    pub(super) fn step(
        &mut self,
        tree: &mut Tree,
        store: &Store,
        now: Instant,
        settle: impl FnOnce(TopicKey, &mut Topic),
    ) -> bool {
        if self.queues.len() >= QUEUES_MAX || self.slot >= tree.topics.slots() {
            return false;
        }
        let key = tree.topics.key_at(self.slot);
        let open = self.open.take().filter(|(open, _)| Some(*open) == key);
        let first = open.map_or(0, |(_, first)| first);
        if let Some(key) = key
            && let Some(topic) = tree.topics.get_mut(key)
            && !topic.name.is_ephemeral()
        {
            settle(key, topic);
            let channels = topic.channels.iter().skip(first).take(STEP_CHANNELS_MAX);
            for channel in channels.filter_map(|&key| tree.channels.get(key)) {
                if channel.is_stranded(self.patience, now) {
                    self.queues.push(QueueName {
                        topic: topic.name.clone(),
                        channel: Some(channel.name.clone()),
                    });
                }
            }
            if first + STEP_CHANNELS_MAX < topic.channels.len() {
                self.open = Some((key, first + STEP_CHANNELS_MAX));
                return true;
            }
            if topic.is_stranded(store, self.patience, now) {
                self.queues.push(QueueName {
                    topic: topic.name.clone(),
                    channel: None,
                });
            }
        }
        self.slot += 1;
        self.queues.truncate(QUEUES_MAX);
        true
    }
}

/// Lifts the next batch of a queue; empty if there is none, or one is on its way.
pub(super) fn lift(
    tree: &mut Tree,
    store: &Store,
    queue: &QueueName,
    patience: Duration,
    now: Instant,
) -> Vec<Handed> {
    let Some(key) = tree.find(queue.topic.as_str()) else {
        return Vec::new();
    };
    match &queue.channel {
        None => {
            let topic = tree.topics.get_mut(key);
            topic.map_or_else(Vec::new, |topic| topic.lift(store, patience, now))
        }
        Some(name) => {
            let Some(key) = tree.find_channel(key, name) else {
                return Vec::new();
            };
            let channel = tree.channels.get_mut(key);
            channel.map_or_else(Vec::new, |channel| channel.lift(store, patience, now))
        }
    }
}

/// The batch of a queue that was lifted is with another broker, or is put back to where it was. Nothing happens to a queue that is gone or was
/// emptied meanwhile.
pub(super) fn settle(
    (tree, agenda, effects): (&mut Tree, &mut Agenda, &mut Effects),
    store: &mut Store,
    queue: &QueueName,
    is_taken: bool,
    now: Instant,
) {
    let Some(key) = tree.find(queue.topic.as_str()) else {
        return;
    };
    let channel_key = match &queue.channel {
        None => None,
        Some(name) => match tree.find_channel(key, name) {
            None => return,
            found => found,
        },
    };
    let account = match channel_key {
        None => tree.topics.get_mut(key).map(|topic| &mut topic.handing),
        Some(key) => tree
            .channels
            .get_mut(key)
            .map(|channel| &mut channel.handing),
    };
    let Some(account) = account else {
        return;
    };
    let lifted = std::mem::take(&mut account.lifted);
    if is_taken {
        account.over += lifted.len() as u64;
        let channel = channel_key.and_then(|key| tree.channels.get(key));
        let channel = channel.map(|channel| channel.log_number);
        if let Some(topic) = tree.topics.get_mut(key)
            && let Some(log) = &mut topic.log
        {
            effects.note_log(key, log);
            for id in lifted.iter().map(|lifted| store.get(lifted.message).id) {
                log.step(match channel {
                    None => LogStep::Discarded(id),
                    Some(channel) => LogStep::Finished { channel, id },
                });
            }
        }
        lifted
            .iter()
            .for_each(|lifted| store.release(lifted.message));
    } else if let Some(channel_key) = channel_key {
        if let Some(channel) = tree.channels.get_mut(channel_key)
            && let Some(at) = channel.put_back(lifted, now)
        {
            agenda.wakeups.push(at, Target::Channel(channel_key));
        }
    } else if let Some(topic) = tree.topics.get_mut(key) {
        topic.put_back(&lifted, store);
    }
    agenda.mark_dirty(&mut tree.topics, key);
}
