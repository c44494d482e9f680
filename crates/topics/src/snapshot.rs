//! Copies of the counters and of the catalog, topic by topic: the caller can do other things in
//! between.

use std::vec;

use clock::Instant;
use link::{ChannelState, Contract, TopicState};

use super::awaited::Awaited;
use super::channel::{Channel, ChannelKey};
use super::consumer::{Consumer, ConsumerKey, Subscription};
use super::histogram::Histogram;
use super::latency::StageHistograms;
use super::limiter::TopicLimiter;
use super::processing::{Processing, ProcessingOrder};
use super::sharing::SharedLimit;
use super::topic::{Topic, TopicKey};
use super::tree::Tree;
use crate::stats::{
    CatalogChannel, CatalogTopic, ChannelStats, ClientStats, StatsFilter, TopicStats,
};

/// Channels and consumers of one topic that one step covers. A topic with no more of them is shown
/// as of one instant.
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
    /// How long messages of all channels took, in microseconds; `None` before the first that measures it.
    processing_us: Option<Box<Histogram>>,
}

#[derive(Debug)]
struct OpenChannel {
    stats: ChannelStats,
    consumers: vec::IntoIter<ConsumerKey>,
}

/// The result of a step of a [`Walk`].
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

    /// Goes a step on; see [`TopicTable::walk`](super::TopicTable::walk). `settle` has a topic hear what was said of all.
    pub(super) fn step(
        &mut self,
        tree: &mut Tree,
        (now, processing): (Instant, Option<&ProcessingOrder>),
        settle: impl FnMut(TopicKey, &mut Topic),
        client: impl Fn(&Subscription) -> ClientStats,
    ) -> Step {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match self.open_next(tree, now, settle) {
                Ok(open) => open,
                Err(step) => return step,
            },
        };
        for _ in 0..STEP_PIECES_MAX {
            if !open.tell_piece(tree, &self.filter, (now, processing), &client) {
                let sum = processing.zip(open.processing_us.as_deref());
                open.stats.processing = sum.map(|(order, sum)| order.stats(sum));
                return Step::Topic(open.stats);
            }
        }
        self.open = Some(open);
        Step::Part
    }

    /// Begins with the next topic; if there is none, the step is done.
    fn open_next(
        &mut self,
        tree: &mut Tree,
        now: Instant,
        mut settle: impl FnMut(TopicKey, &mut Topic),
    ) -> Result<OpenTopic, Step> {
        let key = match self.filter.topic.as_str() {
            _ if self.slot >= tree.topics.slots() => return Err(Step::End),
            "" => tree.topics.key_at(self.slot),
            name => {
                // It is the only one.
                self.slot = tree.topics.slots();
                tree.find(name)
            }
        };
        self.slot += 1;
        let key = key.ok_or(Step::Part)?;
        let topic = tree.topics.get_mut(key).ok_or(Step::Part)?;
        settle(key, topic);
        Ok(OpenTopic {
            stats: Box::new(topic.stats(now)),
            channels: topic.channels.clone().into_iter(),
            channel: None,
            processing_us: None,
        })
    }
}

impl OpenTopic {
    /// Tells of one channel or consumer more; false where there is none.
    fn tell_piece(
        &mut self,
        tree: &Tree,
        filter: &StatsFilter,
        (now, processing): (Instant, Option<&ProcessingOrder>),
        client: &impl Fn(&Subscription) -> ClientStats,
    ) -> bool {
        match &mut self.channel {
            None => {
                let Some(key) = self.channels.next() else {
                    return false;
                };
                let wanted = |channel: &&Channel| {
                    filter.channel.is_empty() || channel.name.as_str() == filter.channel
                };
                let channel = tree.channels.get(key);
                let processing = processing
                    .zip(channel.and_then(|channel| channel.processing.as_deref()))
                    .map(|(order, measured)| order.stats(&self.add_processing(measured, now)));
                let channel = channel.filter(wanted);
                self.channel = channel.map(|channel| OpenChannel {
                    stats: ChannelStats {
                        processing,
                        ..channel.stats()
                    },
                    consumers: match filter.include_clients {
                        true => channel.consumers.clone().into_iter(),
                        false => Vec::new().into_iter(),
                    },
                });
            }
            Some(channel) => match channel.consumers.next() {
                Some(key) => {
                    let consumer = tree.consumers.get(key);
                    let told = consumer.map(|consumer| consumer_stats(consumer, client));
                    channel.stats.clients.extend(told);
                }
                None => {
                    let told = self.channel.take();
                    self.stats.channels.extend(told.map(|told| told.stats));
                }
            },
        }
        true
    }
}

impl OpenTopic {
    /// Adds what a channel has measured to the topic's; gives the channel's own.
    fn add_processing(&mut self, measured: &Processing, now: Instant) -> Histogram {
        let mut own = Histogram::default();
        measured.add_to(&mut own, now);
        self.processing_us.get_or_insert_default().add(&own);
        own
    }
}

fn consumer_stats(
    consumer: &Consumer,
    client: impl Fn(&Subscription) -> ClientStats,
) -> ClientStats {
    ClientStats {
        ready_count: u64::from(consumer.ready_count),
        in_flight_count: u64::from(consumer.in_flight_count),
        message_count: consumer.message_count,
        finish_count: consumer.finish_count,
        requeue_count: consumer.requeue_count,
        ..client(&consumer.subscription)
    }
}

/// What outlives a restart of a topic, if it does; its channels in no order.
pub(super) fn catalog_topic(tree: &Tree, key: TopicKey) -> Option<CatalogTopic> {
    let topic = tree.topics.get(key)?;
    if topic.name.is_ephemeral() {
        return None;
    }
    let lasting = tree.channels_of(topic);
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
            durability: topic.declared.durability,
        },
    })
}

/// A topic with all its channels.
pub(super) fn topic_state(tree: &Tree, key: TopicKey) -> Option<TopicState> {
    let topic = tree.topics.get(key)?;
    let channels = tree.channels_of(topic).map(|channel| ChannelState {
        channel: channel.name.to_string(),
        is_paused: channel.paused,
    });
    Some(TopicState {
        topic: topic.name.to_string(),
        is_paused: topic.paused,
        channels: channels.collect(),
    })
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
            held_publishers: self.publishers.waiting.len() as u64,
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
            durability: self.declared.durability,
            tokens: limiter.map(|limiter| limiter.tokens_at(now)),
            window_excess: limiter.map(TopicLimiter::window_excess),
            latency: latency.unwrap_or_default(),
            processing: None,
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
            processing: None,
        }
    }
}
