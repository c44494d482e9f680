//! The topics of one reactor: what exists, how it is made and unmade, and the effects it asks for.
//!
//! A pure state machine. Time comes in as an argument, deliveries go out through an
//! [`Outlet`](super::pump::Outlet), and what only the shell can do (close a connection, let a
//! held publisher go on) is left in [`Effects`] for it to collect.

use std::time::Duration;

use clock::Instant;
use link::{OnFull, TopicChange};
use model::ServiceModel;
use rustc_hash::FxHashMap;
use wire::{ChannelName, TopicName};

use super::awaited::{Awaited, Teller, Telling};
use super::backlog::BacklogBounds;
use super::channel::{Channel, ChannelKey};
use super::consumer::{Consumer, ConsumerKey};
use super::effects::Effects;
use super::ending::Ending;
use super::memory::Room;
use super::message_id::MessageIds;
use super::queue::Queue;
use super::refusal::Refusal;
use super::report::Reports;
use super::service::Service;
use super::sharing::Shared;
use super::spill::Outstanding;
use super::store::Store;
use super::topic::Topic;
use super::wakeups::Wakeups;
use crate::arena::{Arena, Key};
use crate::budget::MemoryBudget;

/// Names a topic.
pub type TopicKey = Key<Topic>;

/// Bounds that all topics of a table share.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages a topic's queue and a channel's queue hold each.
    pub mem_queue_size: usize,
    /// Messages of a channel that publishers may delay, and as many that consumers may give back with a delay.
    pub deferred_max: usize,
    /// A channel that nobody has consumed for so long drops its oldest message instead of holding its topic up.
    pub abandoned_after: Duration,
    /// Topics in the table.
    pub topics_max: usize,
    /// Channels of one topic.
    pub channels_max: usize,
    /// What queues may have outside of memory; `None`: nothing. Ephemeral ones have nothing in any case.
    pub backlog: Option<BacklogBounds>,
    /// Consumers of one channel, 0 = no bound.
    pub channel_consumers_max: usize,
}

impl Bounds {
    /// A queue of a topic or a channel.
    pub(super) fn queue<T>(&self, is_ephemeral: bool) -> Queue<T> {
        let backlog = self.backlog.filter(|_| !is_ephemeral);
        Queue::new(self.mem_queue_size, backlog)
    }
}

/// Due at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Topic(TopicKey),
    Channel(ChannelKey),
    Abandoned(ChannelKey),
    Consumer(ConsumerKey),
    Backlog(TopicKey),
}

/// All topics of one reactor.
#[derive(Debug)]
pub struct TopicTable {
    /// What the shell has to do.
    pub effects: Effects,
    pub(super) bounds: Bounds,
    /// Set once the broker stops.
    pub(super) ending: Option<Ending>,
    /// Limits are shared by several brokers; what may pass here is for a controller to grant.
    pub(super) is_controlled: bool,
    pub(super) telling: Telling,
    pub(super) sharing: Shared,
    pub(super) service: Option<Service>,
    pub(super) reporting: Reports,
    /// Releases logged of each topic at most; 0: none.
    pub(super) releases_max: usize,
    /// The instant of the latest run.
    pub(super) ran_at: Instant,
    pub(super) ids: MessageIds,
    pub(super) store: Store,
    pub(super) room: Room,
    pub(super) topics: Arena<Topic>,
    pub(super) channels: Arena<Channel>,
    pub(super) consumers: Arena<Consumer>,
    pub(super) by_name: FxHashMap<TopicName, TopicKey>,
    pub(super) dirty: Vec<TopicKey>,
    pub(super) wakeups: Wakeups<Target>,
    /// What is asked for of backlogs.
    pub(super) outstanding: Outstanding,
}

impl TopicTable {
    /// An empty table.
    #[must_use]
    pub fn new(bounds: Bounds, ids: MessageIds) -> TopicTable {
        TopicTable {
            effects: Effects::default(),
            bounds,
            ending: None,
            is_controlled: false,
            telling: Telling::default(),
            sharing: Shared::default(),
            service: None,
            reporting: Reports::default(),
            releases_max: 0,
            ran_at: Instant::ZERO,
            ids,
            store: Store::default(),
            room: Room::within(&MemoryBudget::new(u64::MAX)),
            topics: Arena::default(),
            channels: Arena::default(),
            consumers: Arena::default(),
            by_name: FxHashMap::default(),
            dirty: Vec::new(),
            wakeups: Wakeups::default(),
            outstanding: Outstanding::default(),
        }
    }

    /// The same table on a broker that obeys a controller: a topic with a limit passes nothing without a share of it, one
    /// that is not known nothing before the controller has spoken.
    #[must_use]
    pub fn controlled(mut self) -> TopicTable {
        self.is_controlled = true;
        self.telling.teller = Teller::Silent;
        self.sharing.group = None;
        self
    }

    /// The same table on a broker that finds others by itself: limits that are shared pass nothing before it has.
    #[must_use]
    pub fn gathering(mut self) -> TopicTable {
        self.sharing.group = None;
        self
    }

    /// The same table with messages that take the time that `model` says.
    #[must_use]
    pub fn emulating(self, model: &ServiceModel) -> TopicTable {
        TopicTable {
            service: Some(Service::new(model)),
            ..self
        }
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

    /// The topic of that name, if there is one.
    #[inline]
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TopicKey> {
        self.by_name.get(name).copied()
    }

    /// The topic of that name, made if need be.
    ///
    /// # Errors
    /// [`Refusal::Topics`] or [`Refusal::Memory`] at the bound.
    pub fn find_or_create(&mut self, name: &str) -> Result<TopicKey, Refusal> {
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        if self.topics.len() >= self.bounds.topics_max {
            return Err(Refusal::Topics(self.bounds.topics_max));
        }
        if !self.has_memory_for_topic() {
            return Err(Refusal::Memory("topic"));
        }
        let name: TopicName = name
            .parse()
            .expect("callers pass names that the decoder found valid");
        let awaited = self.telling.teller.awaited();
        let topic = Topic {
            awaited,
            ..Topic::new(name.clone(), &self.bounds)
        };
        let key = self.topics.insert(topic);
        self.by_name.insert(name.clone(), key);
        self.effects.catalog_changed = true;
        self.tell(key, TopicChange::TopicCreated);
        if awaited == Some(Awaited::Channels) && !self.telling.is_ordered {
            self.ask(name);
        }
        Ok(key)
    }

    /// The topic itself.
    #[inline]
    #[must_use]
    pub fn topic(&self, key: TopicKey) -> Option<&Topic> {
        self.topics.get(key)
    }

    /// The channel of that name, if there is one.
    #[must_use]
    pub fn find_channel(&self, topic: TopicKey, name: &ChannelName) -> Option<ChannelKey> {
        let channels = &self.topics.get(topic)?.channels;
        channels.iter().copied().find(|&key| {
            self.channels
                .get(key)
                .is_some_and(|channel| channel.name == *name)
        })
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
        let has_memory = self.has_memory_for_topic();
        let owner = self
            .topics
            .get_mut(topic)
            .expect("the caller just found the topic");
        if owner.channels.len() >= self.bounds.channels_max {
            return Err(Refusal::Channels(self.bounds.channels_max));
        }
        if !has_memory {
            return Err(Refusal::Memory("channel"));
        }
        let queue = self.bounds.queue(name.is_ephemeral());
        let key = self
            .channels
            .insert(Channel::new(name.clone(), topic, queue));
        owner.channels.push(key);
        self.effects.catalog_changed = true;
        let channel = name.to_string();
        self.tell(topic, TopicChange::ChannelCreated { channel });
        self.mark_dirty(topic);
        Ok(key)
    }

    /// Pauses or unpauses a topic.
    pub fn pause(&mut self, key: TopicKey, paused: bool) {
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut topic.paused, paused) == paused {
            return;
        }
        self.effects.catalog_changed = true;
        let change = match paused {
            true => TopicChange::TopicPaused,
            false => TopicChange::TopicResumed,
        };
        self.tell(key, change);
        self.mark_dirty(key);
    }

    /// Pauses or unpauses a channel.
    pub fn pause_channel(&mut self, key: ChannelKey, paused: bool) {
        let Some(owner) = self.channels.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut owner.paused, paused) == paused {
            return;
        }
        let (topic, channel) = (owner.topic, owner.name.to_string());
        self.effects.catalog_changed = true;
        let change = match paused {
            true => TopicChange::ChannelPaused { channel },
            false => TopicChange::ChannelResumed { channel },
        };
        self.tell(topic, change);
        self.mark_dirty(topic);
    }

    /// Declares what becomes of a topic's full channels.
    pub fn set_on_full(&mut self, key: TopicKey, on_full: Option<OnFull>) {
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut topic.declared.on_full, on_full) != on_full {
            self.effects.catalog_changed = true;
            self.mark_dirty(key);
        }
    }

    #[inline]
    pub(super) fn mark_dirty(&mut self, key: TopicKey) {
        if let Some(topic) = self.topics.get_mut(key)
            && !topic.dirty
        {
            topic.dirty = true;
            self.dirty.push(key);
        }
    }
}
