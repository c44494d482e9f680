//! Copies of the counters and of the catalog, topic by topic: who takes them can do other things in between.

use std::vec;

use clock::Instant;
use link::{ChannelState, Contract, TopicState};

use super::awaited::Awaited;
use super::channel::{Channel, ChannelKey};
use super::consumer::ConsumerKey;
use super::latency::StageHistograms;
use super::limiter::TopicLimiter;
use super::sharing::SharedLimit;
use super::table::{TopicKey, TopicTable};
use super::topic::Topic;
use crate::stats::{
    CatalogChannel, CatalogTopic, ChannelStats, ClientStats, StatsFilter, TopicStats,
};

/// Channels and consumers of one topic that are told of in one step. A topic with no more of them is told of as of one instant.
const STEP_PIECES_MAX: usize = 64;

/// A way through all topics of a table, a step at a time. Meets every topic that is there from its beginning to its end.
#[derive(Debug, Default)]
pub struct Walk {
    filter: StatsFilter,
    slot: usize,
    open: Option<OpenTopic>,
}

/// A topic that was begun to be told of.
#[derive(Debug)]
struct OpenTopic {
    stats: Box<TopicStats>,
    channels: vec::IntoIter<ChannelKey>,
    channel: Option<OpenChannel>,
}

#[derive(Debug)]
struct OpenChannel {
    stats: ChannelStats,
    consumers: vec::IntoIter<ConsumerKey>,
}

/// What a step of a [`Walk`] came to.
#[derive(Debug)]
pub enum Step {
    /// All of a topic.
    Topic(Box<TopicStats>),
    /// Part of one, or nothing.
    Part,
    /// There is no more.
    End,
}

impl Walk {
    /// A walk that tells of what `filter` names.
    #[must_use]
    pub fn new(filter: StatsFilter) -> Walk {
        Walk {
            filter,
            ..Walk::default()
        }
    }
}

impl TopicTable {
    /// Goes a step on; `client` fills in what only the connection knows. Channels of a topic are in no order.
    pub fn walk(
        &mut self,
        walk: &mut Walk,
        now: Instant,
        client: impl Fn(&TopicTable, ConsumerKey) -> ClientStats,
    ) -> Step {
        let mut open = match walk.open.take() {
            Some(open) => open,
            None => match self.open_next(walk, now) {
                Ok(open) => open,
                Err(step) => return step,
            },
        };
        for _ in 0..STEP_PIECES_MAX {
            if !self.tell_piece(&mut open, &walk.filter, &client) {
                return Step::Topic(open.stats);
            }
        }
        walk.open = Some(open);
        Step::Part
    }

    /// Slots that topics stand in, free ones included; see [`TopicTable::topic_at`].
    #[must_use]
    pub fn topic_slots(&self) -> usize {
        self.topics.slots()
    }

    /// The topic in a slot, if there is one.
    #[must_use]
    pub fn topic_at(&self, slot: usize) -> Option<TopicKey> {
        self.topics.key_at(slot)
    }

    /// What outlives a restart of a topic, if it does; its channels in no order.
    #[must_use]
    pub fn catalog_topic(&self, key: TopicKey) -> Option<CatalogTopic> {
        let topic = self.topics.get(key)?;
        if topic.name.is_ephemeral() {
            return None;
        }
        let lasting = self.channels_of(topic);
        let lasting = lasting.filter(|channel| !channel.name.is_ephemeral());
        let channels = lasting.map(|channel| CatalogChannel {
            name: channel.name.as_str().to_string(),
            paused: channel.paused,
        });
        Some(CatalogTopic {
            name: topic.name.as_str().to_string(),
            paused: topic.paused,
            channels: channels.collect(),
            contract: Contract {
                limit: topic.limiter.as_ref().map(|limiter| *limiter.limit()),
                cpu_share: topic.declared.cpu_share,
                on_full: topic.declared.on_full,
            },
        })
    }

    /// A topic with all its channels.
    #[must_use]
    pub fn topic_state(&self, key: TopicKey) -> Option<TopicState> {
        let topic = self.topics.get(key)?;
        let channels = self.channels_of(topic).map(|channel| ChannelState {
            channel: channel.name.to_string(),
            is_paused: channel.paused,
        });
        Some(TopicState {
            topic: topic.name.to_string(),
            is_paused: topic.paused,
            channels: channels.collect(),
        })
    }

    /// Messages that the store holds, and their body bytes.
    #[must_use]
    pub fn stored(&self) -> (u64, u64) {
        (self.store.len() as u64, self.store.bytes())
    }

    pub(super) fn channels_of(&self, topic: &Topic) -> impl Iterator<Item = &Channel> {
        let keys = topic.channels.iter();
        keys.filter_map(|&key| self.channels.get(key))
    }

    /// Begins with the next topic; without one there is nothing more to be done in the step.
    fn open_next(&mut self, walk: &mut Walk, now: Instant) -> Result<OpenTopic, Step> {
        let key = match walk.filter.topic.as_str() {
            _ if walk.slot >= self.topics.slots() => return Err(Step::End),
            "" => self.topics.key_at(walk.slot),
            name => {
                // It is the only one.
                walk.slot = self.topics.slots();
                self.find(name)
            }
        };
        walk.slot += 1;
        let topic = key.and_then(|key| self.topics.get_mut(key));
        let topic = topic.ok_or(Step::Part)?;
        Ok(OpenTopic {
            stats: Box::new(topic.stats(now)),
            channels: topic.channels.clone().into_iter(),
            channel: None,
        })
    }

    /// Tells of one channel or consumer more; false where there is none.
    fn tell_piece(
        &self,
        open: &mut OpenTopic,
        filter: &StatsFilter,
        client: &impl Fn(&TopicTable, ConsumerKey) -> ClientStats,
    ) -> bool {
        match &mut open.channel {
            None => {
                let Some(key) = open.channels.next() else {
                    return false;
                };
                let wanted = |channel: &&Channel| {
                    filter.channel.is_empty() || channel.name.as_str() == filter.channel
                };
                let channel = self.channels.get(key).filter(wanted);
                open.channel = channel.map(|channel| OpenChannel {
                    stats: channel.stats(),
                    consumers: match filter.include_clients {
                        true => channel.consumers.clone().into_iter(),
                        false => Vec::new().into_iter(),
                    },
                });
            }
            Some(channel) => match channel.consumers.next() {
                Some(key) => {
                    let told = self.consumer_stats(key, client);
                    channel.stats.clients.extend(told);
                }
                None => {
                    let told = open.channel.take();
                    open.stats.channels.extend(told.map(|told| told.stats));
                }
            },
        }
        true
    }

    fn consumer_stats(
        &self,
        key: ConsumerKey,
        client: &impl Fn(&TopicTable, ConsumerKey) -> ClientStats,
    ) -> Option<ClientStats> {
        let consumer = self.consumers.get(key)?;
        Some(ClientStats {
            ready_count: u64::from(consumer.ready_count),
            in_flight_count: u64::from(consumer.in_flight_count),
            message_count: consumer.message_count,
            finish_count: consumer.finish_count,
            requeue_count: consumer.requeue_count,
            ..client(self, key)
        })
    }
}

impl Topic {
    /// Its counters, without its channels.
    fn stats(&mut self, now: Instant) -> TopicStats {
        let latency = self.observed.latency.as_mut().map(StageHistograms::summary);
        let limiter = self.limiter.as_ref();
        TopicStats {
            topic: self.name.as_str().to_string(),
            channels: Vec::with_capacity(self.channels.len()),
            depth: self.depth() as u64,
            backlog_depth: self.waiting.queue.outside() as u64,
            message_count: self.counts.messages,
            message_bytes: self.counts.bytes,
            dropped_count: self.counts.dropped,
            rejected_count: self.counts.rejected,
            delayed_count: self.counts.delayed,
            held_publishers: self.publishers.held.len() as u64,
            paused: self.paused,
            held: self.awaited.map(Awaited::text),
            limit: limiter.map(|limiter| *limiter.limit()),
            share: limiter
                .filter(|limiter| limiter.is_part())
                .and_then(|limiter| limiter.share(now)),
            sharing: limiter
                .and_then(TopicLimiter::gossiped)
                .map(SharedLimit::stats),
            cpu_share: self.declared.cpu_share,
            on_full: self.declared.on_full,
            tokens: limiter.map(|limiter| limiter.tokens_at(now)),
            window_excess: limiter.map(TopicLimiter::window_excess),
            latency: latency.unwrap_or_default(),
        }
    }
}

impl Channel {
    /// Its counters, without its consumers.
    fn stats(&self) -> ChannelStats {
        ChannelStats {
            channel: self.name.as_str().to_string(),
            depth: self.depth() as u64,
            backlog_depth: self.queue.outside() as u64,
            in_flight_count: self.in_flight_count() as u64,
            deferred_count: self.deferred_count() as u64,
            message_count: self.message_count,
            requeue_count: self.requeue_count,
            timeout_count: self.timeout_count,
            dropped_count: self.dropped_count,
            dropped_oldest_count: self.dropped_oldest_count,
            refused_requeue_count: self.refused_requeue_count,
            full: self.fullness.full,
            full_episodes: self.fullness.episodes,
            clients: Vec::new(),
            client_count: self.consumers.len() as u64,
            paused: self.paused,
        }
    }
}
