//! The logs of a table: how they begin and end, and what of all of them waits.

use link::Durability;
use rustc_hash::FxHashMap;
use wire::TopicName;

use super::{KnownLog, LogAnswer, LogBatch, TopicLog, UNLOGGED};
use crate::effects::Effects;
use crate::store::Store;
use crate::topic::{Topic, TopicKey};
use crate::tree::Tree;

/// Bytes of all durable topics of a table that may wait to be durable; with as many the publishers of these topics wait.
pub const LOGS_WAITING_BYTES: u64 = 64 * 1024 * 1024;

/// The logs of a table.
#[derive(Debug, Default)]
pub(crate) struct Logging {
    /// The number of the first batch of the next log: answers to a former log of a topic are not to be taken for one to the next.
    next_number: u64,
    /// Those that no topic has taken up yet.
    known: FxHashMap<TopicName, KnownLog>,
    /// Bytes of all topics that wait to be durable, but for batches that are not taken yet.
    waiting_bytes: u64,
    /// Topics with publishers that wait because of that.
    waiting: Vec<TopicKey>,
}

/// The logs of a table, with what they are about.
pub(crate) struct Logbook<'a> {
    pub(crate) logging: &'a mut Logging,
    pub(crate) tree: &'a mut Tree,
    pub(crate) store: &'a Store,
    pub(crate) effects: &'a mut Effects,
    /// There is somewhere to write.
    pub(crate) may_log: bool,
}

impl Logbook<'_> {
    /// Begins the log of a topic that is to be durable, with what it has already; ends that of one that is not to be.
    pub(crate) fn begin_or_end(&mut self, key: TopicKey) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        let durability = topic.declared.durability;
        let wants = self.may_log && !durability.is_memory() && !topic.name.is_ephemeral();
        match (&mut topic.log, wants) {
            (Some(log), true) => log.durability = durability,
            (None, true) => {
                let known = self.logging.take_known(&topic.name);
                self.begin(key, durability, known);
            }
            (Some(_), false) => self.end(key),
            (None, false) => {}
        }
    }

    /// Begins the log of a topic, or goes on with one that was found.
    pub(crate) fn begin(&mut self, key: TopicKey, durability: Durability, known: Option<KnownLog>) {
        let Some(topic) = self.tree.topics.get(key) else {
            return;
        };
        let is_new = known.is_none();
        let channels = known.map_or_else(Vec::new, |known| known.channels);
        let number = self.logging.next_number.max(1);
        let mut log = Box::new(TopicLog::new(durability, channels, number));
        for &channel in &topic.channels {
            if let Some(channel) = self.tree.channels.get_mut(channel) {
                channel.log_number = log.number_of((key, &topic.name), &channel.name);
            }
        }
        if is_new {
            log.adopt(self.tree, key, self.store);
        }
        self.effects.note_log(key, &mut log);
        if let Some(topic) = self.tree.topics.get_mut(key) {
            topic.log = Some(log);
        }
    }

    fn end(&mut self, key: TopicKey) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        let Some(log) = topic.log.take() else {
            return;
        };
        for &channel in &topic.channels {
            if let Some(channel) = self.tree.channels.get_mut(channel) {
                channel.log_number = UNLOGGED;
            }
        }
        self.effects.undurable.push(log.farewell(key));
        self.effects.log_ends.push(topic.name.clone());
        let roomy = self.logging.forget(&log);
        self.effects.roomy.extend(roomy);
        self.effects.roomy.push(key);
    }

    /// Takes the answer to batches of a topic. Whether deliveries that were held back may go on.
    pub(crate) fn hear(&mut self, answer: LogAnswer) -> bool {
        let topic = self.tree.topics.get_mut(answer.topic);
        let Some(log) = topic.and_then(|topic| topic.log.as_mut()) else {
            return false;
        };
        let goes_on = log.lag.hear(answer.number);
        if !answer.is_durable {
            return goes_on;
        }
        for key in self.logging.hear(answer, log) {
            let topic = self.tree.topics.get(key);
            if topic.is_some_and(|topic| !topic.publishers.waiting.is_empty()) {
                self.effects.roomy.push(key);
            }
        }
        goes_on
    }
}

impl Logging {
    /// Has these taken up by their topics.
    pub(crate) fn know(&mut self, logs: impl IntoIterator<Item = KnownLog>) {
        let logs = logs.into_iter();
        self.known.extend(logs.map(|log| (log.topic.clone(), log)));
    }

    /// The log of a topic that was found.
    pub(crate) fn take_known(&mut self, name: &TopicName) -> Option<KnownLog> {
        self.known.remove(name)
    }

    /// Topics whose logs nobody has taken up.
    pub(crate) fn unclaimed(&self) -> Vec<TopicName> {
        self.known.keys().cloned().collect()
    }

    /// Whether publishers of a durable topic have to wait because of what all of them wait for.
    pub(crate) fn is_full(&mut self, key: TopicKey) -> bool {
        let is_full = self.waiting_bytes >= LOGS_WAITING_BYTES;
        if is_full && self.waiting.last() != Some(&key) {
            self.waiting.push(key);
        }
        is_full
    }

    /// Takes what waits to be written of a topic.
    pub(crate) fn take(&mut self, key: TopicKey, topic: &mut Topic) -> Vec<LogBatch> {
        let Some(log) = &mut topic.log else {
            return Vec::new();
        };
        let (batches, bytes) = log.take(key, &topic.name);
        self.waiting_bytes += bytes;
        batches
    }

    /// Takes an answer; gives the topics whose publishers may go on.
    pub(crate) fn hear(&mut self, answer: LogAnswer, log: &mut TopicLog) -> Vec<TopicKey> {
        self.free(
            log.hear(answer.number),
            (!log.is_full()).then_some(answer.topic),
        )
    }

    /// A log is given up.
    pub(crate) fn forget(&mut self, log: &TopicLog) -> Vec<TopicKey> {
        self.next_number = self.next_number.max(log.number + 1);
        let waiting = log
            .sent
            .iter()
            .filter(|(number, _)| *number < log.first_untaken());
        let bytes = waiting.map(|(_, bytes)| bytes).sum();
        self.free(bytes, None)
    }

    fn free(&mut self, bytes: u64, roomy: Option<TopicKey>) -> Vec<TopicKey> {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        let mut all: Vec<TopicKey> = roomy.into_iter().collect();
        if self.waiting_bytes <= LOGS_WAITING_BYTES / 2 {
            all.append(&mut self.waiting);
        }
        all
    }
}
