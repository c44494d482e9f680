//! Who has which topics and channels, for consumers that look for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use clock::Instant;
use link::Door;
use wire::TopicName;

use super::catalog::{Catalog, Known};
use super::registry::Brokers;
use super::topics as declared;
use super::{Broker, BrokerNumber, Liveness, Topics, check};
use crate::ControlError;
use crate::handle::{BrokerHoldings, Holdings};
use crate::view::{ChannelView, ChannelViews};

/// Topics and channels by broker, and those that no broker may have, in order of name behind
/// `after`, at most `at_most`. Brokers that are known to be dead, or not yet seen to be where they
/// say, have nothing; a drained one has what it holds messages of, or what is still published
/// there.
pub(super) fn holdings(
    topics: &declared::Topics,
    brokers: &Brokers,
    catalog: &Catalog,
    (after, at_most): (Option<&TopicName>, usize),
    now: Instant,
) -> Holdings {
    let last = end_of_part(topics, brokers, catalog, after, at_most);
    let part = Part {
        after: after.map(TopicName::as_str),
        last: last.as_ref().map(TopicName::as_str),
    };
    let mut known: Topics = part.of(catalog.topics());
    let mut placed: BTreeMap<BrokerNumber, BTreeSet<TopicName>> = BTreeMap::new();
    for (name, topic) in topics.all().range::<str, _>(part.bounds()) {
        let Ok(name) = name.parse::<TopicName>() else {
            continue;
        };
        for number in topic.publishers.places() {
            placed.entry(number).or_default().insert(name.clone());
        }
        known.entry(name).or_default();
    }
    let counted = brokers.numbered();
    let counted = counted.filter(|(_, broker)| broker.counts());
    let brokers = counted.map(|(number, broker)| BrokerHoldings {
        broker: broker.name.clone(),
        tcp_address: broker.tcp_address.clone(),
        http_address: broker.answering(Door::Http).cloned(),
        silent_for: now - broker.reported_at,
        topics: told_topics(broker, &part),
        placed: placed.remove(&number).unwrap_or_default(),
    });
    let mut brokers: Vec<BrokerHoldings> = brokers.collect();
    brokers.sort_by(|a, b| a.broker.cmp(&b.broker));
    Holdings {
        brokers,
        topics: known,
        last,
    }
}

/// The last topic of a part that begins behind `after`; `None` where it reaches the end.
fn end_of_part(
    topics: &declared::Topics,
    brokers: &Brokers,
    catalog: &Catalog,
    after: Option<&TopicName>,
    at_most: usize,
) -> Option<TopicName> {
    let at = at_most.saturating_sub(1);
    let begin = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_str()));
    let behind = (begin, Bound::Unbounded);
    let declared = topics.all().range::<str, _>(behind).nth(at);
    let declared = declared.and_then(|(name, _)| name.parse().ok());
    let known = catalog.topics().range::<str, _>(behind).nth(at);
    let brokers = brokers.iter().filter(|broker| broker.counts());
    let here = brokers
        .filter_map(|broker| broker.inventory.topics().range::<str, _>(behind).nth(at))
        .map(|(name, _)| name.clone());
    let known = known.map(|(name, _)| name.clone());
    here.chain(known).chain(declared).min()
}

/// Channels of a topic over all brokers.
///
/// # Errors
/// [`ControlError::Invalid`] for what is no name; [`ControlError::NotFound`] where neither brokers nor the store know the
/// topic.
pub(super) fn channel_views(
    catalog: &Catalog,
    brokers: &Brokers,
    topic: &str,
) -> Result<ChannelViews, ControlError> {
    check::topic(topic)?;
    let known = catalog.get(topic).ok_or_else(|| {
        ControlError::NotFound(format!(
            "no broker has a topic {topic:?}, and the controller knows none; GET /v1/topics/{topic} shows whether it is declared"
        ))
    })?;
    let alive = brokers.iter();
    let alive = alive.filter(|broker| broker.liveness != Liveness::Dead);
    let (mut named, mut channels) = (Vec::new(), known.channels.clone());
    for broker in alive {
        if let Some(here) = broker.inventory.topics().get(topic) {
            named.push(broker.name.clone());
            for channel in here {
                channels.entry(channel.clone()).or_default();
            }
        }
    }
    named.sort();
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
        brokers: named,
    })
}

/// Names behind one, up to and with another.
struct Part<'a> {
    after: Option<&'a str>,
    last: Option<&'a str>,
}

impl Part<'_> {
    fn bounds(&self) -> (Bound<&str>, Bound<&str>) {
        (
            self.after.map_or(Bound::Unbounded, Bound::Excluded),
            self.last.map_or(Bound::Unbounded, Bound::Included),
        )
    }

    /// What is known of the topics of this part.
    fn of(&self, known: &BTreeMap<TopicName, Known>) -> Topics {
        let known = known.range::<str, _>(self.bounds());
        known
            .map(|(topic, known)| (topic.clone(), known.channels.keys().cloned().collect()))
            .collect()
    }
}

/// Topics of a part that consumers find here.
fn told_topics(broker: &Broker, part: &Part<'_>) -> Topics {
    let all = broker.inventory.topics().range::<str, _>(part.bounds());
    let is_told = |topic: &TopicName| {
        let carried = broker.reports.get(topic.as_str());
        carried.is_some_and(|carried| carried.report.unfinished > 0 || carried.rate > 0.0)
    };
    let told = all.filter(|(topic, _)| !broker.is_draining || is_told(topic));
    told.map(|(topic, channels)| (topic.clone(), channels.clone()))
        .collect()
}
