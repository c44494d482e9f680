//! The topics of one reactor: a state machine of parts, and the flow between them.
//!
//! Time comes in as an argument, deliveries go out through an [`Outlet`](super::pump::Outlet), and
//! what only the shell can do (close a connection, let a waiting publisher go on) is left in
//! [`Effects`] for it to collect. This file has the parts and how they are made; the flow of
//! messages is in `messages`, orders are in `orders`, questions in `questions`.

mod messages;
mod orders;
mod questions;

use std::net::IpAddr;
use std::time::Duration;

use clock::Instant;
use link::{Durability, TopicChange};
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
use super::log::{KnownLog, LogAnswer, LogBatch, Logbook, Logging};
use super::memory::{Memory, PROCESSING_BYTES};
use super::message_id::MessageIds;
use super::names::{NameBudget, Naming};
use super::processing::{Processing, ProcessingOrder};
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
    /// Work for the shell.
    pub effects: Effects,
    bounds: Bounds,
    /// What there is.
    pub(super) tree: Tree,
    /// Its messages.
    pub(super) memory: Memory,
    /// Work to do.
    agenda: Agenda,
    intake: Intake,
    /// Releases logged of each topic at most; 0: none.
    releases_max: usize,
    /// The source of what topics have.
    telling: Telling,
    /// Shares that a controller grants.
    leases: Leases,
    /// Reports to the controller.
    reports: Reports,
    /// Limits that brokers share by gossip.
    shared: Shared,
    /// The way on which all topics hear what was said of them.
    settling: Settling,
    /// Outstanding orders of backlogs.
    outstanding: Outstanding,
    /// What durable topics have logged.
    logging: Logging,
    /// On whose behalf topics and channels are made.
    naming: Naming,
    /// Set once the broker stops.
    ending: Option<Ending>,
    /// What is told of the time from arrival to FIN; `None`: that is not measured.
    processing: Option<ProcessingOrder>,
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
            logging: Logging::default(),
            naming: Naming::default(),
            ending: None,
            processing: None,
        }
    }

    /// The same table on a broker that obeys a controller: a topic with a limit passes nothing
    /// without a share of it, an unknown one nothing before the controller has spoken.
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

    /// The same table that keeps the instants of each topic's releases until they are taken, at
    /// most this many; further ones are not logged.
    #[must_use]
    pub fn logging_releases(self, releases_max: usize) -> TopicTable {
        TopicTable {
            releases_max,
            ..self
        }
    }

    /// The same table, while it is empty, with the time from arrival to FIN measured per channel: told are these `percentiles`
    /// (each above 0 and at most 1) over the last `window`.
    #[must_use]
    pub fn measuring_processing(self, percentiles: &[f64], window: Duration) -> TopicTable {
        let percentiles = percentiles.into();
        let mut table = TopicTable {
            processing: Some(ProcessingOrder {
                percentiles,
                window,
            }),
            ..self
        };
        table.memory.channel_extra_bytes = PROCESSING_BYTES;
        table
    }

    /// The same table, while it is empty, with messages counted against `budget`.
    #[must_use]
    pub fn within(self, budget: &MemoryBudget) -> TopicTable {
        let mut memory = Memory::within(budget);
        memory.channel_extra_bytes = self.memory.channel_extra_bytes;
        TopicTable { memory, ..self }
    }

    /// The same table with topics and channels counted against their makers in `budget`.
    #[must_use]
    pub fn counting_names(mut self, budget: &NameBudget) -> TopicTable {
        self.naming.budget = Some(budget.clone());
        self
    }

    /// What is made until the next such word counts against this maker; `None`: against nobody.
    pub fn make_for(&mut self, maker: Option<IpAddr>, now: Instant) {
        self.naming.maker = maker.map(|maker| (maker, now));
    }

    /// Whether `maker` may make one more topic or channel; who is refused here is not counted as refused.
    #[must_use]
    pub fn may_make_for(&self, maker: Option<IpAddr>, now: Instant) -> bool {
        self.naming.has_room(maker, now)
    }

    /// The same table, while it is empty, on a broker that has found these logs: their topics take them up.
    #[must_use]
    pub fn knowing(mut self, logs: impl IntoIterator<Item = KnownLog>) -> TopicTable {
        self.logging.know(logs);
        self
    }

    /// Whether topics may be durable: there is somewhere to write.
    #[must_use]
    pub fn may_log(&self) -> bool {
        self.bounds.backlog.is_some()
    }

    /// Whether what a topic has is in a log.
    #[must_use]
    pub fn is_logged(&self, key: TopicKey) -> bool {
        let topic = self.tree.topics.get(key);
        topic.is_some_and(|topic| topic.log.is_some())
    }

    /// The batch with which all that was logged of a topic is durable; none where nothing is under way.
    #[must_use]
    pub fn undurable(&self, key: TopicKey) -> Option<u64> {
        let log = self.tree.topics.get(key)?.log.as_ref()?;
        log.awaited()
    }

    /// Has topics take up the logs that were found, those included that no contract speaks of yet, before their queues take up what they
    /// had. Topics and channels are made if need be. Gives what was refused.
    pub fn restore_logs(&mut self) -> Vec<Refusal> {
        let mut refused = Vec::new();
        for name in self.logging.unclaimed() {
            match self.find_or_create(name.as_str()) {
                Ok(key) => {
                    let known = self.logging.take_known(&name);
                    self.logbook().begin(key, Durability::Fsync, known);
                }
                Err(refusal) => refused.push(refusal),
            }
        }
        for slot in 0..self.tree.topics.slots() {
            let Some(key) = self.tree.topics.key_at(slot) else {
                continue;
            };
            let log = self
                .tree
                .topics
                .get(key)
                .and_then(|topic| topic.log.as_ref());
            for name in log.map_or_else(Vec::new, |log| log.channel_names()) {
                refused.extend(self.find_or_create_channel(key, &name).err());
            }
        }
        refused
    }

    /// Ends the logs of topics that nobody wants to be durable any more, once their queues know what they have there. Where a controller
    /// says what topics want it is waited for.
    pub fn end_unwanted_logs(&mut self) {
        for slot in 0..self.tree.topics.slots() {
            if let Some(key) = self.tree.topics.key_at(slot)
                && !self.leases.is_controlled
            {
                self.begin_or_end_log(key);
            }
        }
    }

    /// Gives a topic a log or takes it away, as it is declared to be durable or not.
    fn begin_or_end_log(&mut self, key: TopicKey) {
        self.logbook().begin_or_end(key);
        // What a log held back goes on without it.
        self.mark_dirty(key);
    }

    /// Takes what is to be written of a topic that is in [`Effects::logged`].
    pub fn take_logged(&mut self, key: TopicKey) -> Vec<LogBatch> {
        let topic = self.tree.topics.get_mut(key);
        topic.map_or_else(Vec::new, |topic| self.logging.take(key, topic))
    }

    /// Takes the answer to batches of a topic; deliveries that waited for it make the topic dirty.
    pub fn hear_log(&mut self, answer: LogAnswer) {
        if self.logbook().hear(answer) {
            self.mark_dirty(answer.topic);
        }
    }

    fn logbook(&mut self) -> Logbook<'_> {
        Logbook {
            may_log: self.may_log(),
            logging: &mut self.logging,
            tree: &mut self.tree,
            store: &self.memory.store,
            effects: &mut self.effects,
        }
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
    /// [`Refusal::Topics`], [`Refusal::Memory`] or [`Refusal::Names`] at the bound.
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
        topic.name_share = self.naming.take()?;
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
    /// [`Refusal::Channels`], [`Refusal::Memory`] or [`Refusal::Names`] at the bound.
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
        let mut channel = Channel::new(name.clone(), topic, queue);
        channel.name_share = self.naming.take()?;
        if let Some(owner) = self.tree.topics.get_mut(topic)
            && let Some(log) = &mut owner.log
        {
            self.effects.note_log(topic, log);
            channel.log_number = log.number_of((topic, &owner.name), name);
        }
        let order = self.processing.as_ref();
        channel.processing = order.map(|order| Box::new(Processing::new(order.window)));
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
