//! Bounds the series: the busiest keep their names, the others become one `other`.

use std::cmp::Reverse;

use crate::stats::{ChannelStats, StageLatency, TopicStats};

/// The name under which the others are summed up. A topic that really has it joins the sum.
pub(super) const OTHER: &str = "other";

/// A bounded number of topics, each with a bounded number of channels.
#[derive(Debug)]
pub(super) struct Summed {
    /// The busiest topics, and `other` last if there is one.
    pub(super) topics: Vec<TopicStats>,
    pub(super) topics_total: usize,
    pub(super) topics_held: usize,
    pub(super) topics_summed: usize,
    pub(super) channels_summed: usize,
}

impl Summed {
    /// Whether `topic` stands for several topics.
    pub(super) fn is_sum(&self, topic: &str) -> bool {
        self.topics_summed > 0 && topic == OTHER
    }
}

/// Keeps `topics_max` topics and `channels_max` channels of each, by message count.
pub(super) fn sum_up(topics: Vec<TopicStats>, topics_max: usize, channels_max: usize) -> Summed {
    let topics_total = topics.len();
    let topics_held = topics.iter().filter(|topic| topic.held.is_some()).count();
    let (mut kept, others) = busiest(topics, topics_max, |topic| {
        (&topic.topic, topic.message_count)
    });
    let topics_summed = others.len();
    let mut channels_summed = 0;
    for topic in &mut kept {
        let channels = std::mem::take(&mut topic.channels);
        let (channels, rest) = busiest(channels, channels_max, |each| {
            (&each.channel, each.message_count)
        });
        topic.channels = channels;
        channels_summed += rest.len();
        topic.channels.extend(sum_of_channels(rest));
    }
    channels_summed += others
        .iter()
        .map(|topic| topic.channels.len())
        .sum::<usize>();
    kept.extend(sum_of_topics(others));
    Summed {
        topics: kept,
        topics_total,
        topics_held,
        topics_summed,
        channels_summed,
    }
}

/// The `max` busiest items in their given order, and the rest.
fn busiest<T>(items: Vec<T>, max: usize, key: fn(&T) -> (&String, u64)) -> (Vec<T>, Vec<T>) {
    if items.len() <= max {
        return (items, Vec::new());
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    // An item that is really called `other` must not have a series beside the sum.
    order.sort_by_key(|&index| {
        let (name, count) = key(&items[index]);
        (name == OTHER, Reverse(count))
    });
    let mut keep = vec![false; items.len()];
    order.iter().take(max).for_each(|&index| keep[index] = true);
    let (mut kept, mut rest) = (Vec::with_capacity(max), Vec::new());
    for (item, keep) in items.into_iter().zip(keep) {
        if keep {
            kept.push(item)
        } else {
            rest.push(item)
        }
    }
    (kept, rest)
}

fn sum_of_topics(topics: Vec<TopicStats>) -> Option<TopicStats> {
    if topics.is_empty() {
        return None;
    }
    let mut sum = TopicStats {
        topic: OTHER.to_owned(),
        ..TopicStats::default()
    };
    let (mut channels, mut latency) = (Vec::new(), Vec::new());
    for topic in topics {
        sum.depth += topic.depth;
        sum.message_count += topic.message_count;
        sum.message_bytes += topic.message_bytes;
        sum.dropped_count += topic.dropped_count;
        sum.rejected_count += topic.rejected_count;
        sum.delayed_count += topic.delayed_count;
        sum.held_publishers += topic.held_publishers;
        channels.extend(topic.channels);
        topic
            .latency
            .iter()
            .for_each(|stage| add_stage(&mut latency, stage));
    }
    sum.latency = latency.into();
    sum.channels.extend(sum_of_channels(channels));
    Some(sum)
}

fn add_stage(stages: &mut Vec<StageLatency>, stage: &StageLatency) {
    match stages.iter_mut().find(|each| each.stage == stage.stage) {
        Some(sum) => {
            sum.count += stage.count;
            sum.sum_us += stage.sum_us;
            sum.max_us = sum.max_us.max(stage.max_us);
        }
        None => stages.push(stage.clone()),
    }
}

fn sum_of_channels(channels: Vec<ChannelStats>) -> Option<ChannelStats> {
    if channels.is_empty() {
        return None;
    }
    let mut sum = ChannelStats {
        channel: OTHER.to_owned(),
        ..ChannelStats::default()
    };
    for channel in channels {
        sum.depth += channel.depth;
        sum.in_flight_count += channel.in_flight_count;
        sum.deferred_count += channel.deferred_count;
        sum.message_count += channel.message_count;
        sum.requeue_count += channel.requeue_count;
        sum.timeout_count += channel.timeout_count;
        sum.dropped_count += channel.dropped_count;
        sum.dropped_oldest_count += channel.dropped_oldest_count;
        sum.refused_requeue_count += channel.refused_requeue_count;
        sum.full_episodes += channel.full_episodes;
        sum.clients.extend(channel.clients);
    }
    Some(sum)
}
