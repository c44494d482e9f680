//! The topics of one reactor: what exists, how it is made and unmade, and the effects it asks for.
//!
//! A pure state machine. Time comes in as an argument, deliveries go out through an
//! [`Outlet`](super::pump::Outlet), and what only the shell can do (close a connection, let a
//! held publisher go on) is left in [`Effects`] for it to collect.

use std::collections::VecDeque;

use clock::Instant;
use kernel::{Share, TaskId};
use limit::Holder;
use limit::adaptor::Window;
use placement::ServiceModel;
use rustc_hash::FxHashMap;
use wire::{ChannelName, TopicName};

use super::channel::{Channel, ChannelKey};
use super::consumer::{Consumer, ConsumerKey};
use super::effects::Effects;
use super::held::Held;
use super::latency::StageHistograms;
use super::limiter::TopicLimiter;
use super::message_id::MessageIds;
use super::refusal::Refusal;
use super::service::Service;
use super::sharing::Group;
use super::store::{MessageRef, Store};
use super::trace::Trace;
use super::traffic::Traffic;
use super::wakeups::Wakeups;
use crate::arena::{Arena, Key};

/// Names a topic.
pub type TopicKey = Key<Topic>;

/// Bounds that all topics of a table share.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages a topic's queue and a channel's queue hold each.
    pub mem_queue_size: usize,
    /// Topics in the table.
    pub topics_max: usize,
    /// Channels of one topic.
    pub channels_max: usize,
    /// Consumers of one channel, 0 = no bound.
    pub channel_consumers_max: usize,
}

/// One topic: a queue, perhaps a limit, and the channels that get a copy of everything.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Nothing is passed to the channels while set.
    pub paused: bool,
    /// Accepted from publishers, dropped ones included.
    pub message_count: u64,
    /// Body bytes of those.
    pub message_bytes: u64,
    /// Passed on to the channels.
    pub passed_count: u64,
    /// Discarded by a limit with `drop`, by a full ephemeral queue, or by an order to empty.
    pub dropped_count: u64,
    /// Publish commands refused by a limit with `reject`.
    pub rejected_count: u64,
    /// Messages that waited for a token.
    pub delayed_count: u64,
    /// The share of its reactor's time that it is entitled to; none: an equal part of what others leave.
    pub cpu_share: Option<Share>,
    /// Its task in the reactor's schedule, once it has been served.
    pub task: Option<TaskId>,
    /// Accepted from connections that are not known as publishers of it: nobody can move those.
    pub fixed_count: u64,
    pub(super) channels: Vec<ChannelKey>,
    pub(super) queue: VecDeque<MessageRef>,
    pub(super) fresh: Vec<Fresh>,
    pub(super) limiter: Option<TopicLimiter>,
    pub(super) held: VecDeque<Held>,
    pub(super) release_at: Option<Instant>,
    pub(super) dirty: bool,
    pub(super) latency: Option<StageHistograms>,
    /// Arrivals within the profiling window.
    pub(super) trace: Option<Box<Trace>>,
    /// Arrivals since somebody asked for them over HTTP; none of a controller's business.
    pub(super) recording: Option<Box<Trace>>,
    /// Body bytes of what waits in the topic itself.
    pub(super) waiting_bytes: u64,
    /// Instants of releases, nanoseconds, where they are logged.
    pub(super) releases: Vec<u64>,
    /// What a controller is told; none without one.
    pub(super) traffic: Option<Box<Traffic>>,
}

/// A message of a limited topic, or of any under emulated service, not yet put into its order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) at: Instant,
    pub(super) id: u64,
    pub(super) message: MessageRef,
    /// The first of its command.
    pub(super) is_first: bool,
}

/// Due at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Topic(TopicKey),
    Channel(ChannelKey),
    Consumer(ConsumerKey),
}

/// All topics of one reactor.
#[derive(Debug)]
pub struct TopicTable {
    /// What the shell has to do.
    pub effects: Effects,
    pub(super) bounds: Bounds,
    /// Limits are shared by several brokers; what may pass here is for a controller to grant.
    pub(super) is_controlled: bool,
    /// Who shares limits by gossip; `None`: a controller is to say.
    pub(super) group: Option<Group>,
    pub(super) service: Option<Service>,
    /// Reports sent lately, for limits that come between a report and its answer.
    pub(super) reports: Holder,
    /// Releases logged of each topic at most; 0: none.
    pub(super) releases_max: usize,
    /// The instant of the latest run.
    pub(super) ran_at: Instant,
    pub(super) ids: MessageIds,
    pub(super) store: Store,
    pub(super) topics: Arena<Topic>,
    pub(super) channels: Arena<Channel>,
    pub(super) consumers: Arena<Consumer>,
    pub(super) by_name: FxHashMap<TopicName, TopicKey>,
    pub(super) dirty: Vec<TopicKey>,
    pub(super) wakeups: Wakeups<Target>,
    /// Length of the history of traffic that reports tell of.
    pub history_window: Window,
}

impl TopicTable {
    /// An empty table.
    #[must_use]
    pub fn new(bounds: Bounds, ids: MessageIds) -> TopicTable {
        TopicTable {
            effects: Effects::default(),
            bounds,
            is_controlled: false,
            group: Some(Group::ALONE),
            service: None,
            reports: Holder::new(),
            releases_max: 0,
            ran_at: Instant::ZERO,
            ids,
            store: Store::default(),
            topics: Arena::default(),
            channels: Arena::default(),
            consumers: Arena::default(),
            by_name: FxHashMap::default(),
            dirty: Vec::new(),
            wakeups: Wakeups::default(),
            history_window: Window::default(),
        }
    }

    /// The same table on a broker that obeys a controller: a topic with a limit passes nothing without a share of it.
    #[must_use]
    pub fn controlled(self) -> TopicTable {
        TopicTable {
            is_controlled: true,
            group: None,
            ..self
        }
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
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TopicKey> {
        self.by_name.get(name).copied()
    }

    /// The topic of that name, made if need be.
    ///
    /// # Errors
    /// [`Refusal::Topics`] at the bound.
    pub fn find_or_create(&mut self, name: &str) -> Result<TopicKey, Refusal> {
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        if self.topics.len() >= self.bounds.topics_max {
            return Err(Refusal::Topics(self.bounds.topics_max));
        }
        let name: TopicName = name
            .parse()
            .expect("callers pass names that the decoder found valid");
        let key = self.topics.insert(Topic::new(name.clone()));
        self.by_name.insert(name, key);
        self.effects.catalog_changed = true;
        Ok(key)
    }

    /// The topic itself.
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
    /// [`Refusal::Channels`] at the bound.
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
        let owner = self
            .topics
            .get_mut(topic)
            .expect("the caller just found the topic");
        if owner.channels.len() >= self.bounds.channels_max {
            return Err(Refusal::Channels(self.bounds.channels_max));
        }
        let key = self.channels.insert(Channel::new(name.clone(), topic));
        owner.channels.push(key);
        self.effects.catalog_changed = true;
        self.mark_dirty(topic);
        Ok(key)
    }

    /// Deletes a topic with its channels and messages.
    ///
    /// Under a controller a topic with a limit stays, empty: the next publish would make it anew, without the limit.
    pub fn delete(&mut self, key: TopicKey) {
        let Some(topic) = self.topics.get(key) else {
            return;
        };
        for channel in topic.channels.clone() {
            self.delete_channel(channel);
        }
        if self.has_granted_limit(key) {
            return self.empty(key);
        }
        // The last channel of an ephemeral topic has taken the topic with it.
        let Some(mut topic) = self.topics.remove(key) else {
            return;
        };
        self.by_name.remove(&topic.name);
        self.effects.ended.extend(topic.task);
        for message in topic
            .queue
            .drain(..)
            .chain(topic.fresh.drain(..).map(|fresh| fresh.message))
        {
            self.store.release(message);
        }
        self.effects.orphans.extend(topic.held.drain(..));
        self.effects.catalog_changed = true;
    }

    /// Deletes a channel with its messages; its consumers' connections are to be closed.
    pub fn delete_channel(&mut self, key: ChannelKey) {
        self.empty_channel(key);
        let Some(channel) = self.channels.remove(key) else {
            return;
        };
        for consumer in channel.consumers {
            if let Some(consumer) = self.consumers.remove(consumer) {
                self.effects.close.push(consumer.subscription.connection);
            }
        }
        self.effects.catalog_changed = true;
        let Some(topic) = self.topics.get_mut(channel.topic) else {
            return;
        };
        topic.channels.retain(|&other| other != key);
        let is_last = topic.channels.is_empty() && topic.name.is_ephemeral();
        if is_last && !self.has_granted_limit(channel.topic) {
            self.delete(channel.topic);
        } else {
            self.mark_dirty(channel.topic);
        }
    }

    /// Discards what waits in the topic's own queue.
    pub fn empty(&mut self, key: TopicKey) {
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        for message in topic
            .queue
            .drain(..)
            .chain(topic.fresh.drain(..).map(|fresh| fresh.message))
        {
            topic.dropped_count += 1;
            self.store.release(message);
        }
        topic.waiting_bytes = 0;
        if let Some(limiter) = &mut topic.limiter {
            limiter.forget_head();
        }
        self.mark_dirty(key);
    }

    /// Discards all messages of a channel: waiting, deferred and in flight.
    pub fn empty_channel(&mut self, key: ChannelKey) {
        let TopicTable {
            channels,
            consumers,
            store,
            ..
        } = self;
        let Some(channel) = channels.get_mut(key) else {
            return;
        };
        let mut discard = |message| {
            channel.dropped_count += 1;
            store.release(message);
        };
        channel
            .queue
            .drain(..)
            .for_each(|queued| discard(queued.message));
        channel
            .deferred
            .drain()
            .for_each(|deferred| discard(deferred.0.message));
        for &consumer_key in &channel.consumers {
            let Some(consumer) = consumers.get_mut(consumer_key) else {
                continue;
            };
            while let Some(flight) = channel
                .in_flight
                .take_due(&mut consumer.flights, Instant::MAX)
            {
                discard(flight.message);
            }
            consumer.in_flight_count = 0;
            if consumer.is_ready() && !consumer.enlisted {
                consumer.enlisted = true;
                channel.ready.push_back(consumer_key);
            }
        }
        let topic = channel.topic;
        self.mark_dirty(topic);
    }

    /// Pauses or unpauses a topic.
    pub fn pause(&mut self, key: TopicKey, paused: bool) {
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        topic.paused = paused;
        self.effects.catalog_changed = true;
        self.mark_dirty(key);
    }

    /// Pauses or unpauses a channel.
    pub fn pause_channel(&mut self, key: ChannelKey, paused: bool) {
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        channel.paused = paused;
        let topic = channel.topic;
        self.effects.catalog_changed = true;
        self.mark_dirty(topic);
    }

    /// Takes the first publisher held at a topic.
    pub fn pop_held(&mut self, key: TopicKey) -> Option<Held> {
        self.topics.get_mut(key)?.held.pop_front()
    }

    /// Puts a publisher at the end of those held, or (`first`) back at their head.
    pub fn hold(&mut self, key: TopicKey, held: Held, first: bool) {
        let Some(topic) = self.topics.get_mut(key) else {
            self.effects.orphans.push(held);
            return;
        };
        if first {
            topic.held.push_front(held);
        } else {
            topic.held.push_back(held);
        }
    }

    /// Whether somebody waits already, so that a newcomer must queue up behind.
    #[must_use]
    pub fn has_held(&self, key: TopicKey) -> bool {
        self.topics
            .get(key)
            .is_some_and(|topic| !topic.held.is_empty())
    }

    /// Whether the topic's limit is one that a controller shares out.
    fn has_granted_limit(&self, key: TopicKey) -> bool {
        let topic = self.topics.get(key);
        self.is_controlled && topic.is_some_and(|topic| topic.limiter.is_some())
    }

    pub(super) fn mark_dirty(&mut self, key: TopicKey) {
        if let Some(topic) = self.topics.get_mut(key)
            && !topic.dirty
        {
            topic.dirty = true;
            self.dirty.push(key);
        }
    }
}

impl Topic {
    fn new(name: TopicName) -> Topic {
        Topic {
            name,
            paused: false,
            message_count: 0,
            message_bytes: 0,
            passed_count: 0,
            dropped_count: 0,
            rejected_count: 0,
            delayed_count: 0,
            cpu_share: None,
            task: None,
            fixed_count: 0,
            channels: Vec::new(),
            queue: VecDeque::new(),
            fresh: Vec::new(),
            limiter: None,
            held: VecDeque::new(),
            release_at: None,
            dirty: false,
            latency: None,
            trace: None,
            recording: None,
            waiting_bytes: 0,
            releases: Vec::new(),
            traffic: None,
        }
    }

    /// Messages waiting in the topic itself.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.queue.len() + self.fresh.len()
    }

    /// Conservation: what was accepted is passed on, dropped, or still here.
    pub(super) fn is_conserved(&self) -> bool {
        self.message_count == self.passed_count + self.dropped_count + self.depth() as u64
    }
}
