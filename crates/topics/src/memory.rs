//! Messages within the memory that they may have: who waits for room, and who goes on when there is some.
//!
//! A topic may hold a few times what is free, so that those that take all they can leave room for the others.

use std::collections::VecDeque;

use super::store::charge_of;
use super::table::{TopicKey, TopicTable};
use super::traffic::Asked;
use crate::budget::{Account, MemoryBudget, Part};

/// Topics that are looked at in one go.
const LOOKS_MAX: usize = 64;

/// What a topic, a channel and a consumer count for, messages aside.
const TOPIC_BYTES: u64 = 8 * 1024;
const CHANNEL_BYTES: u64 = 1024;
const CONSUMER_BYTES: u64 = 256;

/// What the table may hold, and whose publishers wait for it.
#[derive(Debug)]
pub(super) struct Room {
    messages: Account,
    topics: Account,
    /// Topics with publishers that wait.
    waiting: VecDeque<TopicKey>,
}

impl Room {
    pub(super) fn within(budget: &MemoryBudget) -> Room {
        Room {
            messages: Account::new(budget, Part::Bodies),
            topics: Account::new(budget, Part::Topics),
            waiting: VecDeque::new(),
        }
    }
}

impl TopicTable {
    /// The same table with messages counted against `budget`.
    #[must_use]
    pub fn within(self, budget: &MemoryBudget) -> TopicTable {
        let room = Room::within(budget);
        TopicTable { room, ..self }
    }

    /// Whether a topic may have what is asked for; if not, it is remembered as waiting.
    pub(super) fn has_memory(&mut self, key: TopicKey, asked: &Asked) -> bool {
        let more = asked.bytes + asked.messages * charge_of(0);
        if self.fits(key, more) {
            return true;
        }
        self.store.shed_all();
        if self.fits(key, more) {
            return true;
        }
        if let Some(topic) = self.topics.get_mut(key)
            && !topic.name.is_ephemeral()
            && topic.publishers.memory_wanted.replace(more).is_none()
        {
            self.room.waiting.push_back(key);
            self.room.messages.note_wait();
        }
        false
    }

    /// Whether held publishers of a topic may be tried again.
    pub(super) fn has_memory_for_held(&mut self, key: TopicKey) -> bool {
        let wanted = self
            .topics
            .get(key)
            .and_then(|topic| topic.publishers.memory_wanted);
        wanted.is_none_or(|wanted| self.fits(key, wanted))
    }

    /// Whether there is memory for messages that another broker hands over; nobody waits for it here.
    pub(super) fn has_memory_for_handed(
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

    /// Lets publishers be tried again whose topics may have the memory that they wait for.
    pub fn offer_memory(&mut self) {
        for _ in 0..self.room.waiting.len().min(LOOKS_MAX) {
            let Some(key) = self.room.waiting.pop_front() else {
                return;
            };
            let may_go_on = self.has_memory_for_held(key);
            let Some(topic) = self.topics.get_mut(key) else {
                continue;
            };
            if topic.publishers.held.is_empty() {
                topic.publishers.memory_wanted = None;
            } else if may_go_on {
                topic.publishers.memory_wanted = None;
                self.effects.roomy.push(key);
            } else {
                self.room.waiting.push_back(key);
            }
        }
    }

    /// Whether publishers wait for memory.
    #[must_use]
    pub fn waits_for_memory(&self) -> bool {
        !self.room.waiting.is_empty()
    }

    /// Tells the others what messages of this table hold; once a turn.
    pub fn tell_memory(&mut self) {
        self.room.messages.set(self.store.memory());
        self.room.messages.tell();
        self.count_topics();
        self.room.topics.tell();
    }

    /// Whether there is memory for a topic or a channel more.
    pub(super) fn has_memory_for_topic(&mut self) -> bool {
        self.count_topics();
        let has_room = self.room.topics.has_room(0, TOPIC_BYTES, 0);
        if !has_room {
            self.room.topics.note_wait();
        }
        has_room
    }

    fn count_topics(&mut self) {
        let topics = self.topics.len() as u64 * TOPIC_BYTES;
        let channels = self.channels.len() as u64 * CHANNEL_BYTES;
        let consumers = self.consumers.len() as u64 * CONSUMER_BYTES;
        self.room.topics.set(topics + channels + consumers);
    }

    /// Whether there is memory that [`TopicTable::trim`] may give back.
    #[must_use]
    pub fn has_spare_memory(&self) -> bool {
        self.store.has_spare()
    }

    /// Gives back memory that was not needed since this was called before, a piece of it; says whether there is more.
    pub fn trim(&mut self) -> bool {
        self.store.trim()
    }

    fn fits(&mut self, key: TopicKey, more: u64) -> bool {
        self.room.messages.set(self.store.memory());
        let held = self.store.memory_of(key.slot());
        self.room
            .messages
            .has_room(held, more, self.store.spare_memory())
    }
}
