//! The topics of one reactor: a state machine of parts, and what flows between them.
//!
//! Time comes in as an argument, deliveries go out through an [`Outlet`](super::pump::Outlet), and what only the shell can
//! do (close a connection, let a held publisher go on) is left in [`Effects`] for it to collect. Here is what there is and how it is
//! made; messages on their way are in `messages`, what is ordered in `orders`, what is asked in `questions`.

mod messages;
mod orders;
mod questions;

use link::TopicChange;
use model::ServiceModel;
use wire::{ChannelName, TopicName};

use super::agenda::Agenda;
use super::awaited::{Awaited, Teller, Telling};
use super::bounds::Bounds;
use super::channel::{Channel, ChannelKey};
use super::consumer::{Consumer, ConsumerKey};
use super::effects::Effects;
use super::ending::Ending;
use super::lease::Leases;
use super::memory::Memory;
use super::message_id::MessageIds;
use super::publish::Intake;
use super::refusal::Refusal;
use super::report::Reports;
use super::service::Service;
use super::settling::Settling;
use super::sharing::Shared;
use super::spill::Outstanding;
use super::topic::{Topic, TopicKey};
use super::tree::Tree;
use crate::budget::MemoryBudget;

/// All topics of one reactor.
#[derive(Debug)]
pub struct TopicTable {
    /// What the shell has to do.
    pub effects: Effects,
    bounds: Bounds,
    /// What there is.
    pub(super) tree: Tree,
    /// Its messages.
    pub(super) memory: Memory,
    /// What is to be done.
    agenda: Agenda,
    intake: Intake,
    /// Releases logged of each topic at most; 0: none.
    releases_max: usize,
    /// Who says what topics have.
    telling: Telling,
    /// Shares that a controller grants.
    leases: Leases,
    /// What it is told.
    reports: Reports,
    /// Limits that brokers share by gossip.
    shared: Shared,
    /// The way on which all topics hear what was said of them.
    settling: Settling,
    /// What is asked for of backlogs.
    outstanding: Outstanding,
    /// Set once the broker stops.
    ending: Option<Ending>,
}

impl TopicTable {
    /// An empty table.
    #[must_use]
    pub fn new(bounds: Bounds, ids: MessageIds) -> TopicTable {
        TopicTable {
            effects: Effects::default(),
            bounds,
            tree: Tree::default(),
            memory: Memory::within(&MemoryBudget::new(u64::MAX)),
            agenda: Agenda::default(),
            intake: Intake { ids, service: None },
            releases_max: 0,
            telling: Telling::default(),
            leases: Leases::default(),
            reports: Reports::default(),
            shared: Shared::default(),
            settling: Settling::default(),
            outstanding: Outstanding::default(),
            ending: None,
        }
    }

    /// The same table on a broker that obeys a controller: a topic with a limit passes nothing without a share of it, one
    /// that is not known nothing before the controller has spoken.
    #[must_use]
    pub fn controlled(mut self) -> TopicTable {
        self.leases.is_controlled = true;
        self.telling.teller = Teller::Silent;
        self.shared = Shared::among(None);
        self
    }

    /// The same table on a broker that finds others by itself: limits that are shared pass nothing before it has.
    #[must_use]
    pub fn gathering(mut self) -> TopicTable {
        self.shared = Shared::among(None);
        self
    }

    /// The same table with messages that take the time that `model` says.
    #[must_use]
    pub fn emulating(mut self, model: &ServiceModel) -> TopicTable {
        self.intake.service = Some(Service::new(model));
        self
    }

    /// The same table with the instants of each topic's releases kept until they are taken, so many at most; what is
    /// beyond goes unlogged.
    #[must_use]
    pub fn logging_releases(self, releases_max: usize) -> TopicTable {
        TopicTable {
            releases_max,
            ..self
        }
    }

    /// The same table, while it is empty, with messages counted against `budget`.
    #[must_use]
    pub fn within(self, budget: &MemoryBudget) -> TopicTable {
        let memory = Memory::within(budget);
        TopicTable { memory, ..self }
    }

    /// The topic of that name, if there is one.
    #[inline]
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TopicKey> {
        self.tree.find(name)
    }

    /// The topic of that name, made if need be.
    ///
    /// # Errors
    /// [`Refusal::Topics`] or [`Refusal::Memory`] at the bound.
    pub fn find_or_create(&mut self, name: &str) -> Result<TopicKey, Refusal> {
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        if self.tree.topics.len() >= self.bounds.topics_max {
            return Err(Refusal::Topics(self.bounds.topics_max));
        }
        if !self.memory.has_room_in(&self.tree) {
            return Err(Refusal::Memory("topic"));
        }
        let name: TopicName = name
            .parse()
            .expect("callers pass names that the decoder found valid");
        let mut topic = Topic::new(name.clone(), &self.bounds);
        self.telling.hold(&mut topic);
        let awaited = topic.awaited;
        let key = self.tree.add_topic(topic);
        self.effects.catalog_changed = true;
        self.tell(key, TopicChange::TopicCreated);
        if awaited == Some(Awaited::Channels) && !self.telling.is_ordered {
            let told = &mut self.effects.told;
            self.telling.ask(name, self.bounds.topics_max, told);
        }
        Ok(key)
    }

    /// The topic itself.
    #[inline]
    #[must_use]
    pub fn topic(&self, key: TopicKey) -> Option<&Topic> {
        self.tree.topics.get(key)
    }

    /// The channel of that name, if there is one.
    #[must_use]
    pub fn find_channel(&self, topic: TopicKey, name: &ChannelName) -> Option<ChannelKey> {
        self.tree.find_channel(topic, name)
    }

    /// The channel of that name, made if need be.
    ///
    /// # Errors
    /// [`Refusal::Channels`] or [`Refusal::Memory`] at the bound.
    ///
    /// # Panics
    /// If `topic` is gone.
    pub fn find_or_create_channel(
        &mut self,
        topic: TopicKey,
        name: &ChannelName,
    ) -> Result<ChannelKey, Refusal> {
        if let Some(key) = self.find_channel(topic, name) {
            return Ok(key);
        }
        let has_memory = self.memory.has_room_in(&self.tree);
        let owner = self.tree.topics.get(topic);
        let owner = owner.expect("the caller just found the topic");
        if owner.channels.len() >= self.bounds.channels_max {
            return Err(Refusal::Channels(self.bounds.channels_max));
        }
        if !has_memory {
            return Err(Refusal::Memory("channel"));
        }
        let queue = self.bounds.queue(name.is_ephemeral());
        let channel = Channel::new(name.clone(), topic, queue);
        let key = self.tree.add_channel(channel);
        self.effects.catalog_changed = true;
        let channel = name.to_string();
        self.tell(topic, TopicChange::ChannelCreated { channel });
        self.mark_dirty(topic);
        Ok(key)
    }

    /// The consumer itself.
    #[inline]
    #[must_use]
    pub fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.tree.consumers.get(key)
    }

    /// Something became of a topic that is there.
    fn tell(&mut self, key: TopicKey, change: TopicChange) {
        if let Some(topic) = self.tree.topics.get(key) {
            let told = &mut self.effects.told;
            self.telling.tell(&topic.name, change, told);
        }
    }

    #[inline]
    fn mark_dirty(&mut self, key: TopicKey) {
        self.agenda.mark_dirty(&mut self.tree.topics, key);
    }
}
