//! What consumers that look for topics are told: who has what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clock::Instant;
use link::Door;
use wire::TopicName;

use super::{Broker, BrokerNumber, Core, Liveness, Topics, check};
use crate::ControlError;
use crate::handle::{BrokerHoldings, Holdings};
use crate::view::{ChannelView, ChannelViews};

impl Core {
    /// Topics and channels by broker, and those that no broker may have. Brokers that are dead for certain, or not yet seen to be
    /// where they say, have nothing; one that
    /// is drained has what it holds messages of, or what is still published there.
    #[must_use]
    pub fn holdings(&self, now: Instant) -> Holdings {
        let mut placed = self.placed_topics();
        let counted = (0u32..)
            .zip(&self.brokers)
            .filter(|(_, broker)| broker.counts());
        let brokers = counted.map(|(number, broker)| BrokerHoldings {
            broker: broker.name.clone(),
            tcp_address: broker.tcp_address.clone(),
            http_address: broker.answering(Door::Http).cloned(),
            silent_for: now - broker.reported_at,
            topics: broker.told_topics(),
            placed: placed.remove(&number).unwrap_or_default(),
        });
        let mut brokers: Vec<BrokerHoldings> = brokers.collect();
        brokers.sort_by(|a, b| a.broker.cmp(&b.broker));
        let known = self.catalog.iter();
        let known = known.map(|(topic, known)| {
            let channels = known.channels.keys().cloned().collect();
            (topic.clone(), channels)
        });
        let mut topics: Topics = known.collect();
        let declared = self.topics.keys().filter_map(|name| name.parse().ok());
        for topic in declared {
            topics.entry(topic).or_default();
        }
        Holdings { brokers, topics }
    }

    /// Channels of a topic over all brokers.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no name; [`ControlError::NotFound`] where neither brokers nor the store know the
    /// topic.
    pub fn channel_views(&self, topic: &str) -> Result<ChannelViews, ControlError> {
        check::topic(topic)?;
        let known = self.catalog.get(topic).ok_or_else(|| {
            ControlError::NotFound(format!(
                "no broker has a topic {topic:?}, and none is known; GET /v1/topics/{topic} shows whether it is declared"
            ))
        })?;
        let alive = self.brokers.iter();
        let alive = alive.filter(|broker| broker.liveness != Liveness::Dead);
        let (mut brokers, mut channels) = (Vec::new(), known.channels.clone());
        for broker in alive {
            if let Some(here) = broker.inventory.topics().get(topic) {
                brokers.push(broker.name.clone());
                for channel in here {
                    channels.entry(channel.clone()).or_default();
                }
            }
        }
        brokers.sort();
        let channels = channels
            .into_iter()
            .map(|(channel, is_paused)| ChannelView {
                channel: channel.to_string(),
                is_paused,
            });
        Ok(ChannelViews {
            topic: topic.to_owned(),
            is_paused: known.is_paused,
            channels: channels.collect(),
            brokers,
        })
    }

    /// Topics whose publishers are placed on each broker: consumers may be there before them.
    fn placed_topics(&self) -> BTreeMap<BrokerNumber, BTreeSet<TopicName>> {
        let mut placed: BTreeMap<BrokerNumber, BTreeSet<TopicName>> = BTreeMap::new();
        for (name, topic) in &self.topics {
            let Ok(name) = name.parse::<TopicName>() else {
                continue;
            };
            for number in topic.publishers.places() {
                placed.entry(number).or_default().insert(name.clone());
            }
        }
        placed
    }
}

impl Broker {
    /// Messages that it holds, all topics: whoever stops it now loses them.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        let topics = self.topics.values();
        topics.fold(0, |sum: u64, carried| {
            sum.saturating_add(carried.report.unfinished)
        })
    }

    /// Topics that consumers find here.
    fn told_topics(&self) -> Arc<Topics> {
        let all = self.inventory.topics();
        if !self.is_draining {
            return Arc::clone(all);
        }
        let topics = all.iter().filter(|(topic, _)| {
            let carried = self.topics.get(topic.as_str());
            carried.is_some_and(|carried| carried.report.unfinished > 0 || carried.rate > 0.0)
        });
        let topics = topics.map(|(topic, channels)| (topic.clone(), channels.clone()));
        Arc::new(topics.collect())
    }
}
