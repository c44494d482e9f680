//! What a durable topic has logged: its messages as they come, and each step of what becomes of them.
//!
//! What is logged within a turn of the shell is one batch, which it takes at the end of that turn and has written. Batches are
//! numbered, and written in their order. The answer to one says that all messages up to its end are as durable as the topic's contract
//! wants them: publishers hear of theirs then and not before. Consumers are given messages meanwhile: what a crash makes unsaid to its
//! publisher may have been delivered, as it may be where a connection ends before the answer.
//!
//! What waits to be written is bounded for each topic and for all; at either bound publishers of durable topics wait as at a full queue.
//! So is what consumers have finished and the log does not know: at that bound the topic delivers nothing.

mod lag;
mod logging;

use std::collections::{BTreeMap, VecDeque};

use clock::Instant;
use link::Durability;
use wire::{ChannelName, TopicName};

use super::channel::Channel;
use super::effects::Effects;
use super::handover::QueueName;
use super::segment::{Segment, head_of};
use super::store::{MessageRef, Store, Stored};
use super::topic::{Topic, TopicKey};
use super::tree::Tree;
pub use lag::FINISHED_WAITING_MAX;
use lag::Lag;
pub use logging::LOGS_WAITING_BYTES;
pub(super) use logging::{Logbook, Logging};

/// Bytes of one topic that may wait to be durable; with as many its publishers wait.
pub const LOG_WAITING_BYTES: u64 = 4 * 1024 * 1024;

/// What a message counts for beside its body.
const MESSAGE_BYTES: u64 = 128;

/// What a channel's number is that is not logged. It is also that of a topic's own queue.
pub(super) const UNLOGGED: u32 = 0;

/// Something that became of a message or a channel. Channels are called by their numbers in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogStep {
    /// There is a channel.
    Channel(u32, ChannelName),
    /// It is gone, with its messages.
    ChannelGone(u32),
    /// A message left the topic's own queue for all channels.
    Passed(u64),
    /// A message left the topic's own queue for nowhere.
    Discarded(u64),
    /// A message was given to a consumer of a channel, so often by now.
    Delivered {
        /// The channel.
        channel: u32,
        /// The message.
        id: u64,
        /// Deliveries so far.
        attempts: u16,
    },
    /// A message of a channel waits until then.
    Deferred {
        /// The channel.
        channel: u32,
        /// The message.
        id: u64,
        /// Deliveries so far.
        attempts: u16,
        /// When it is due.
        due: Instant,
    },
    /// A channel is done with a message.
    Finished {
        /// The channel.
        channel: u32,
        /// The message.
        id: u64,
    },
    /// A channel's queue is empty, or (0) the topic's own. The last step of its batch.
    Emptied(u32),
    /// All that the topic had when its log began is in it, once the adopted queues of this batch are.
    Whole,
}

/// That a queue has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedStanding {
    /// The channel's number; 0: the topic's own queue.
    pub queue: u32,
    /// Deliveries so far.
    pub attempts: u16,
    /// When it is due, if that is not what the message says.
    pub due: Option<Instant>,
}

/// What is to be written in one go.
#[derive(Debug)]
pub struct LogBatch {
    /// For the answer.
    pub topic: TopicKey,
    /// Whose log it is for.
    pub name: TopicName,
    /// Its number: one more than that of the batch before.
    pub number: u64,
    /// Its messages are durable only once the disk has confirmed them.
    pub is_synced: bool,
    /// It is answered once it is written as well, or the disk was found not to take it: deliveries may wait for that.
    pub is_word_wanted: bool,
    /// New messages.
    pub messages: Segment,
    /// The queues that these are in, by their places among them; a message without any is in the topic's own.
    pub standings: Vec<(usize, LoggedStanding)>,
    /// What became of these and earlier ones, in order.
    pub steps: Vec<LogStep>,
    /// Queues whose messages outside of memory, if there are any, are to be logged as well, with their numbers: before all that is new
    /// in this batch.
    pub adopted: Vec<(u32, QueueName)>,
}

/// Something to be done with logs, in this order.
#[derive(Debug)]
pub enum LogOrder {
    /// Write this; answered once its messages are durable.
    Write(Box<LogBatch>),
    /// That topic has no log any more. What of its queues is in it and nowhere else is kept until it was read.
    End(TopicName),
}

/// How far the log of a topic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogAnswer {
    /// The topic.
    pub topic: TopicKey,
    /// The number of the last batch that this is said of.
    pub number: u64,
    /// All that wants to be durable is. Otherwise what became of messages is written, or the disk takes nothing.
    pub is_durable: bool,
}

/// A log that was found when the broker began: the channels of its topic, with their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLog {
    /// The topic.
    pub topic: TopicName,
    /// Its channels.
    pub channels: Vec<(u32, ChannelName)>,
}

/// The log of a topic.
#[derive(Debug)]
pub(super) struct TopicLog {
    pub(super) durability: Durability,
    /// Some of it waits to be taken, and the shell knows.
    pub(super) is_listed: bool,
    messages: Segment,
    standings: Vec<(usize, LoggedStanding)>,
    steps: Vec<LogStep>,
    adopted: Vec<(u32, QueueName)>,
    /// Bytes of the open batch.
    bytes: u64,
    /// Its number.
    number: u64,
    closed: Vec<LogBatch>,
    /// Batches that somebody may wait for and that are not durable, with the bytes of their messages.
    sent: VecDeque<(u64, u64)>,
    sent_bytes: u64,
    lag: Lag,
    channels: Vec<(u32, ChannelName)>,
    highest_channel: u32,
}

/// What is logged of a channel, if anything is.
#[derive(Debug, Default)]
pub(super) struct ChannelLog<'a> {
    pub(super) log: Option<&'a mut TopicLog>,
    /// Its number.
    pub(super) channel: u32,
}

impl ChannelLog<'_> {
    /// How many of so many messages may be delivered: none where the log has to know more of what is finished first.
    #[inline]
    pub(super) fn hold_back(&mut self, messages: usize) -> usize {
        let waits = self.log.as_mut().is_some_and(|log| log.lag.hold());
        if waits { 0 } else { messages }
    }

    /// It is done with a message that no consumer had.
    #[inline]
    pub(super) fn end(&mut self, id: u64) {
        if let Some(log) = &mut self.log {
            log.end(self.channel, id);
        }
    }

    /// A message was given to a consumer, so often by now; `is_over`: and that was all.
    #[inline]
    pub(super) fn deliver(&mut self, id: u64, attempts: u16, is_over: bool) {
        let channel = self.channel;
        let Some(log) = &mut self.log else {
            return;
        };
        match is_over {
            true => log.finish(channel, id),
            false => log.step(LogStep::Delivered {
                channel,
                id,
                attempts,
            }),
        }
    }
}

impl TopicLog {
    /// A log whose batches have numbers from that one on.
    pub(super) fn new(
        durability: Durability,
        channels: Vec<(u32, ChannelName)>,
        number: u64,
    ) -> TopicLog {
        let numbers = channels.iter().map(|(number, _)| *number);
        TopicLog {
            durability,
            is_listed: false,
            messages: Segment::default(),
            standings: Vec::new(),
            steps: Vec::new(),
            adopted: Vec::new(),
            bytes: 0,
            number,
            closed: Vec::new(),
            sent: VecDeque::new(),
            sent_bytes: 0,
            lag: Lag::default(),
            highest_channel: numbers.max().unwrap_or(UNLOGGED),
            channels,
        }
    }

    /// Logs a message that the topic's own queue has.
    pub(super) fn append(&mut self, message: &Stored) {
        self.push(message, &[]);
    }

    /// Logs a message that some queues have.
    pub(super) fn push(&mut self, message: &Stored, standings: &[LoggedStanding]) {
        let place = self.messages.messages().len();
        let all = standings.iter().map(|&standing| (place, standing));
        self.standings.extend(all);
        let head = head_of(message, (message.arrival.read, 0));
        self.messages.push(head, &message.body);
        self.bytes += message.body.len() as u64 + MESSAGE_BYTES;
    }

    /// Logs what became of something.
    #[inline]
    pub(super) fn step(&mut self, step: LogStep) {
        self.steps.push(step);
    }

    /// Logs that a consumer has finished a message.
    #[inline]
    pub(super) fn finish(&mut self, channel: u32, id: u64) {
        self.end(channel, id);
        self.lag.finish();
    }

    /// Logs that a channel is done with a message that no consumer had.
    pub(super) fn end(&mut self, channel: u32, id: u64) {
        self.steps.push(LogStep::Finished { channel, id });
    }

    /// Logs that a queue was emptied. What comes is of the next batch.
    pub(super) fn empty(&mut self, key: TopicKey, name: &TopicName, queue: u32) {
        self.steps.push(LogStep::Emptied(queue));
        self.close(key, name);
    }

    /// The number of a channel, which is logged from now on. Messages that it has are of the next batch.
    pub(super) fn number_of(
        &mut self,
        (key, topic): (TopicKey, &TopicName),
        name: &ChannelName,
    ) -> u32 {
        if name.is_ephemeral() {
            return UNLOGGED;
        }
        let known = self.channels.iter().find(|(_, known)| known == name);
        if let Some((number, _)) = known {
            return *number;
        }
        self.highest_channel += 1;
        let number = self.highest_channel;
        self.channels.push((number, name.clone()));
        self.steps.push(LogStep::Channel(number, name.clone()));
        self.close(key, topic);
        number
    }

    /// Its channels.
    pub(super) fn channel_names(&self) -> Vec<ChannelName> {
        self.channels.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Logs that a channel is gone.
    pub(super) fn remove_channel(&mut self, key: TopicKey, name: &TopicName, number: u32) {
        self.channels.retain(|(known, _)| *known != number);
        self.steps.push(LogStep::ChannelGone(number));
        self.close(key, name);
    }

    /// The batch that what was logged last is in; none where all is durable.
    pub(super) fn awaited(&self) -> Option<u64> {
        match self.has_awaited() {
            false => self.sent.back().map(|(number, _)| *number),
            true => Some(self.number),
        }
    }

    /// What those hear who wait for it, where it is given up.
    pub(super) fn farewell(&self, topic: TopicKey) -> LogAnswer {
        LogAnswer {
            topic,
            number: self.number,
            is_durable: true,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.sent_bytes + self.bytes >= LOG_WAITING_BYTES
    }

    /// Somebody may wait until the open batch is durable.
    fn has_awaited(&self) -> bool {
        self.messages.messages().len() > 0 || !self.adopted.is_empty()
    }

    fn is_blank(&self) -> bool {
        self.steps.is_empty() && !self.has_awaited()
    }

    fn close(&mut self, key: TopicKey, name: &TopicName) {
        if self.is_blank() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        if self.has_awaited() {
            self.sent.push_back((self.number, bytes));
            self.sent_bytes += bytes;
        }
        self.closed.push(LogBatch {
            topic: key,
            name: name.clone(),
            number: self.number,
            is_synced: self.durability == Durability::Fsync,
            is_word_wanted: self.lag.close(self.number),
            messages: std::mem::take(&mut self.messages),
            standings: std::mem::take(&mut self.standings),
            steps: std::mem::take(&mut self.steps),
            adopted: std::mem::take(&mut self.adopted),
        });
        self.number += 1;
    }

    /// Takes what waits to be written, and how many bytes of messages that are.
    fn take(&mut self, key: TopicKey, name: &TopicName) -> (Vec<LogBatch>, u64) {
        let first = self.first_untaken();
        self.close(key, name);
        self.is_listed = false;
        let sent = self.sent.iter().rev();
        let new = sent.take_while(|(number, _)| *number >= first);
        let bytes = new.map(|(_, bytes)| bytes).sum();
        (std::mem::take(&mut self.closed), bytes)
    }

    /// The number of the first batch that was not taken.
    fn first_untaken(&self) -> u64 {
        self.closed
            .first()
            .map_or(self.number, |batch| batch.number)
    }

    /// All batches up to that one are durable; gives their bytes.
    fn hear(&mut self, number: u64) -> u64 {
        let mut bytes = 0;
        while let Some((_, durable)) = self.sent.pop_front_if(|(sent, _)| *sent <= number) {
            bytes += durable;
        }
        self.sent_bytes -= bytes;
        bytes
    }

    /// Has logged what a restored queue has outside: a contract that was in force before has begun a log without that.
    pub(super) fn adopt_restored(
        topic: &mut Topic,
        (key, number): (TopicKey, u32),
        name: &QueueName,
        effects: &mut Effects,
    ) {
        let Some(log) = &mut topic.log else {
            return;
        };
        log.adopted.push((number, name.clone()));
        if log.steps.last() != Some(&LogStep::Whole) {
            log.steps.push(LogStep::Whole);
        }
        effects.note_log(key, log);
    }

    /// Logs what a topic has in memory, and has what it has outside logged; in a batch of its own, for it may have some of the same
    /// messages.
    pub(super) fn adopt(&mut self, tree: &Tree, key: TopicKey, store: &Store) {
        let Some(topic) = tree.topics.get(key) else {
            return;
        };
        let mut held: BTreeMap<u64, (MessageRef, Vec<LoggedStanding>)> = BTreeMap::new();
        let mut add = |message: MessageRef, standing: LoggedStanding| {
            let id = store.get(message).id;
            let held = held.entry(id).or_insert_with(|| (message, Vec::new()));
            held.1.push(standing);
        };
        let own = LoggedStanding {
            queue: UNLOGGED,
            attempts: 0,
            due: None,
        };
        topic.waiting.iter().for_each(|message| add(message, own));
        topic
            .handing
            .iter()
            .for_each(|(message, _, _)| add(message, own));
        let mut adopted = vec![(UNLOGGED, topic.spilled(key).name)];
        for channel_key in &topic.channels {
            let Some(channel) = tree.channels.get(*channel_key) else {
                continue;
            };
            if channel.log_number == UNLOGGED {
                continue;
            }
            channel.each_held(tree, |message, attempts, due| {
                let queue = channel.log_number;
                add(
                    message,
                    LoggedStanding {
                        queue,
                        attempts,
                        due,
                    },
                );
            });
            let name = channel.spilled(*channel_key, topic).name;
            adopted.push((channel.log_number, name));
        }
        for (message, standings) in held.into_values() {
            self.push(store.get(message), &standings);
        }
        self.close(key, &topic.name);
        self.adopted = adopted;
        self.steps.push(LogStep::Whole);
    }
}

impl Channel {
    /// Every message that it has in memory, with its deliveries, and when it is due if it is deferred.
    pub(super) fn each_held(
        &self,
        tree: &Tree,
        mut see: impl FnMut(MessageRef, u16, Option<Instant>),
    ) {
        for queued in self.queue.iter() {
            see(queued.message, queued.attempts, None);
        }
        for deferred in &self.deferred {
            see(
                deferred.0.message,
                deferred.0.attempts,
                Some(deferred.0.due),
            );
        }
        for (message, attempts, due) in self.handing.iter() {
            see(message, attempts, due);
        }
        for &key in &self.consumers {
            if let Some(consumer) = tree.consumers.get(key) {
                let flights = self.in_flight.iter(&consumer.flights);
                flights.for_each(|flight| see(flight.message, flight.attempts, None));
            }
        }
    }
}
