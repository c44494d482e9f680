//! Keeps messages within their memory: who waits for room, and who goes on when there is some.
//!
//! A topic may hold a few times what is free, so that those that take all they can leave room for
//! the others.

use std::collections::VecDeque;

use super::effects::Effects;
use super::store::{Store, charge_of};
use super::topic::{Topic, TopicKey};
use super::traffic::Asked;
use super::tree::Tree;
use crate::arena::Arena;
use crate::budget::{Account, MemoryBudget, Part};

/// Topics that are looked at in one go.
const LOOKS_MAX: usize = 64;

/// What a topic, a channel and a consumer count for, without messages.
const TOPIC_BYTES: u64 = 8 * 1024;
const CHANNEL_BYTES: u64 = 1024;
const CONSUMER_BYTES: u64 = 256;
/// What a channel counts for beside that which measures the time until messages are finished.
pub(super) const PROCESSING_BYTES: u64 = 32 * 1024;

/// The stored bytes, their bound, and the topics whose publishers wait for room.
#[derive(Debug)]
pub(super) struct Memory {
    /// The messages.
    pub(super) store: Store,
    /// The memory that they may take.
    messages: Account,
    /// What topics, channels and consumers may take.
    tree: Account,
    /// What each channel counts for beside [`CHANNEL_BYTES`].
    pub(super) channel_extra_bytes: u64,
    /// Topics with publishers that wait.
    waiting: VecDeque<TopicKey>,
}

impl Memory {
    /// Nothing is stored; what will be counts against `budget`.
    pub(super) fn within(budget: &MemoryBudget) -> Memory {
        Memory {
            store: Store::default(),
            messages: Account::new(budget, Part::Bodies),
            tree: Account::new(budget, Part::Topics),
            channel_extra_bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Whether a topic may have what is asked for; if not, it is remembered as waiting.
    #[inline]
    pub(super) fn has_room(
        &mut self,
        topics: &mut Arena<Topic>,
        key: TopicKey,
        asked: &Asked,
    ) -> bool {
        let more = asked.bytes + asked.messages * charge_of(0);
        self.fits(key, more) || self.makes_room(topics, key, more)
    }

    #[cold]
    fn makes_room(&mut self, topics: &mut Arena<Topic>, key: TopicKey, more: u64) -> bool {
        self.store.shed_all();
        if self.fits(key, more) {
            return true;
        }
        if let Some(topic) = topics.get_mut(key)
            && !topic.name.is_ephemeral()
            && topic.publishers.memory_wanted.replace(more).is_none()
        {
            self.waiting.push_back(key);
            self.messages.note_wait();
        }
        false
    }

    /// Whether waiting publishers of a topic may be tried again.
    pub(super) fn has_room_for_waiting(&mut self, topics: &Arena<Topic>, key: TopicKey) -> bool {
        let wanted = topics
            .get(key)
            .and_then(|topic| topic.publishers.memory_wanted);
        wanted.is_none_or(|wanted| self.fits(key, wanted))
    }

    /// Whether there is memory for messages that another broker hands over; nobody waits for it here.
    pub(super) fn has_room_for_handed(
        &mut self,
        key: TopicKey,
        messages: usize,
        bytes: u64,
    ) -> bool {
        let more = bytes + messages as u64 * charge_of(0);
        if self.fits(key, more) {
            return true;
        }
        self.store.shed_all();
        self.fits(key, more)
    }

    /// Has publishers tried again if their topics may now have the memory that they wait for.
    pub(super) fn offer(&mut self, topics: &mut Arena<Topic>, effects: &mut Effects) {
        for _ in 0..self.waiting.len().min(LOOKS_MAX) {
            let Some(key) = self.waiting.pop_front() else {
                return;
            };
            let may_go_on = self.has_room_for_waiting(topics, key);
            let Some(topic) = topics.get_mut(key) else {
                continue;
            };
            if topic.publishers.waiting.is_empty() {
                topic.publishers.memory_wanted = None;
            } else if may_go_on {
                topic.publishers.memory_wanted = None;
                effects.roomy.push(key);
            } else {
                self.waiting.push_back(key);
            }
        }
    }

    /// Whether publishers wait for memory.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tells the others what is held here; once a turn.
    pub(super) fn tell(&mut self, tree: &Tree) {
        self.messages.set(self.store.memory());
        self.messages.tell();
        self.count(tree);
        self.tree.tell();
    }

    /// Whether there is memory for a topic or a channel more.
    pub(super) fn has_room_in(&mut self, tree: &Tree) -> bool {
        self.count(tree);
        let has_room = self.tree.has_room(0, TOPIC_BYTES, 0);
        if !has_room {
            self.tree.note_wait();
        }
        has_room
    }

    fn count(&mut self, tree: &Tree) {
        let topics = tree.topics.len() as u64 * TOPIC_BYTES;
        let channel_bytes = CHANNEL_BYTES + self.channel_extra_bytes;
        let channels = tree.channels.len() as u64 * channel_bytes;
        let consumers = tree.consumers.len() as u64 * CONSUMER_BYTES;
        self.tree.set(topics + channels + consumers);
    }

    #[inline]
    fn fits(&mut self, key: TopicKey, more: u64) -> bool {
        self.messages.set(self.store.memory());
        let held = self.store.memory_of(key.slot());
        self.messages
            .has_room(held, more, self.store.spare_memory())
    }
}
