//! Copies of the counters and of the catalog.

use clock::Instant;
use link::{ChannelState, TopicState};

use super::awaited::Awaited;
use super::channel::Channel;
use super::consumer::ConsumerKey;
use super::limiter::TopicLimiter;
use super::sharing::SharedLimit;
use super::table::{Topic, TopicTable};
use crate::stats::{
    Catalog, CatalogChannel, CatalogTopic, ChannelStats, ClientStats, ReactorStats, StatsFilter,
    TopicStats,
};

impl TopicTable {
    /// Counters of the topics that `filter` names; `client` fills in what only the connection knows.
    pub fn topic_stats(
        &self,
        filter: &StatsFilter,
        now: Instant,
        client: impl Fn(ConsumerKey) -> ClientStats,
    ) -> Vec<TopicStats> {
        let wanted =
            |topic: &&Topic| filter.topic.is_empty() || topic.name.as_str() == filter.topic;
        let stats = |topic: &Topic| self.stats_of(topic, filter, now, &client);
        self.topics
            .iter()
            .map(|(_, topic)| topic)
            .filter(wanted)
            .map(stats)
            .collect()
    }

    /// Topics and channels that outlive a restart, ordered by name.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        let lasting = self
            .topics
            .iter()
            .filter(|(_, topic)| !topic.name.is_ephemeral());
        let mut topics: Vec<CatalogTopic> = lasting
            .map(|(_, topic)| self.catalog_topic(topic))
            .collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Catalog { topics }
    }

    /// Every topic that is here, with all its channels.
    #[must_use]
    pub fn inventory(&self) -> Vec<TopicState> {
        let topics = self.topics.iter().map(|(_, topic)| topic);
        let state = |topic: &Topic| {
            let keys = topic.channels.iter();
            let channels = keys.filter_map(|&key| self.channels.get(key));
            TopicState {
                topic: topic.name.to_string(),
                is_paused: topic.paused,
                channels: channels
                    .map(|channel| ChannelState {
                        channel: channel.name.to_string(),
                        is_paused: channel.paused,
                    })
                    .collect(),
            }
        };
        topics.map(state).collect()
    }

    /// Adds what the table knows to a reactor's counters.
    pub fn count_store(&self, stats: &mut ReactorStats) {
        stats.messages_stored = self.store.len() as u64;
        stats.bytes_stored = self.store.bytes();
    }

    fn stats_of(
        &self,
        topic: &Topic,
        filter: &StatsFilter,
        now: Instant,
        client: &impl Fn(ConsumerKey) -> ClientStats,
    ) -> TopicStats {
        let channels = topic
            .channels
            .iter()
            .filter_map(|&key| self.channels.get(key));
        let wanted = |channel: &&Channel| {
            filter.channel.is_empty() || channel.name.as_str() == filter.channel
        };
        let mut channels: Vec<ChannelStats> = channels
            .filter(wanted)
            .map(|channel| self.channel_stats(channel, filter, client))
            .collect();
        channels.sort_by(|a, b| a.channel.cmp(&b.channel));
        TopicStats {
            topic: topic.name.as_str().to_string(),
            channels,
            depth: topic.depth() as u64,
            message_count: topic.message_count,
            message_bytes: topic.message_bytes,
            dropped_count: topic.dropped_count,
            rejected_count: topic.rejected_count,
            delayed_count: topic.delayed_count,
            held_publishers: topic.held.len() as u64,
            paused: topic.paused,
            held: topic.awaited.map(Awaited::text),
            limit: topic.limiter.as_ref().map(|limiter| *limiter.limit()),
            share: topic
                .limiter
                .as_ref()
                .filter(|limiter| limiter.is_part())
                .and_then(|limiter| limiter.share(now)),
            sharing: topic
                .limiter
                .as_ref()
                .and_then(TopicLimiter::gossiped)
                .map(SharedLimit::stats),
            cpu_share: topic.cpu_share,
            on_full: topic.on_full,
            tokens: topic.limiter.as_ref().map(|limiter| limiter.tokens_at(now)),
            window_excess: topic.limiter.as_ref().map(TopicLimiter::window_excess),
            latency: topic
                .latency
                .as_ref()
                .map(super::latency::StageHistograms::snapshot)
                .unwrap_or_default(),
        }
    }

    fn channel_stats(
        &self,
        channel: &Channel,
        filter: &StatsFilter,
        client: &impl Fn(ConsumerKey) -> ClientStats,
    ) -> ChannelStats {
        let consumer = |&key: &ConsumerKey| {
            let mut stats = client(key);
            if let Some(consumer) = self.consumers.get(key) {
                stats.ready_count = u64::from(consumer.ready_count);
                stats.in_flight_count = u64::from(consumer.in_flight_count);
                stats.message_count = consumer.message_count;
                stats.finish_count = consumer.finish_count;
                stats.requeue_count = consumer.requeue_count;
            }
            stats
        };
        let shown = if filter.include_clients {
            &channel.consumers[..]
        } else {
            &[]
        };
        ChannelStats {
            channel: channel.name.as_str().to_string(),
            depth: channel.depth() as u64,
            in_flight_count: channel.in_flight_count() as u64,
            deferred_count: channel.deferred_count() as u64,
            message_count: channel.message_count,
            requeue_count: channel.requeue_count,
            timeout_count: channel.timeout_count,
            dropped_count: channel.dropped_count,
            dropped_oldest_count: channel.dropped_oldest_count,
            refused_requeue_count: channel.refused_requeue_count,
            full: channel.fullness.full,
            full_episodes: channel.fullness.episodes,
            clients: shown.iter().map(consumer).collect(),
            client_count: channel.consumers.len() as u64,
            paused: channel.paused,
        }
    }

    fn catalog_topic(&self, topic: &Topic) -> CatalogTopic {
        let channels = topic
            .channels
            .iter()
            .filter_map(|&key| self.channels.get(key));
        let lasting = channels.filter(|channel| !channel.name.is_ephemeral());
        let mut channels: Vec<CatalogChannel> = lasting
            .map(|channel| CatalogChannel {
                name: channel.name.as_str().to_string(),
                paused: channel.paused,
            })
            .collect();
        channels.sort_by(|a, b| a.name.cmp(&b.name));
        let limit = topic.limiter.as_ref().map(|limiter| *limiter.limit());
        CatalogTopic {
            name: topic.name.as_str().to_string(),
            paused: topic.paused,
            channels,
            limit,
            cpu_share: topic.cpu_share,
            on_full: topic.on_full,
        }
    }
}
