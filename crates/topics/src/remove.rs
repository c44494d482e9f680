//! Removal: messages discarded with their queues, or alone.

use clock::Instant;

use super::agenda::Agenda;
use super::channel::ChannelKey;
use super::effects::Effects;
use super::log::UNLOGGED;
use super::spill::BacklogOrder;
use super::store::Store;
use super::topic::{Topic, TopicKey};
use super::tree::Tree;

/// Takes all messages of a topic that is gone, and gives up its publishers.
pub(super) fn clear_topic(
    key: TopicKey,
    mut topic: Topic,
    store: &mut Store,
    effects: &mut Effects,
) {
    let task = topic.task.map(|task| (topic.name.clone(), task));
    effects.ended.extend(task);
    if topic.waiting.queue.forget_outside().is_some() {
        let order = BacklogOrder::ForgetAll(topic.spilled(key));
        effects.backlog.push(order);
    }
    let waiting = topic.waiting.drain();
    for message in waiting.chain(topic.handing.discard()) {
        store.release(message);
    }
    effects
        .without_topic
        .extend(topic.publishers.waiting.drain(..));
    effects.catalog_changed = true;
    if let Some(log) = topic.log {
        effects.undurable.push(log.farewell(key));
        effects.log_ends.push(topic.name);
    }
}

/// Discards what waits in a topic's own queue.
pub(super) fn discard_queue(
    (key, topic): (TopicKey, &mut Topic),
    store: &mut Store,
    agenda: &mut Agenda,
    effects: &mut Effects,
) {
    if let Some(outside) = topic.waiting.queue.forget_outside() {
        topic.counts.dropped += outside as u64;
        let order = BacklogOrder::ForgetAll(topic.spilled(key));
        effects.backlog.push(order);
    }
    let waiting = topic.waiting.drain();
    for message in waiting.chain(topic.handing.discard()) {
        topic.counts.dropped += 1;
        store.release(message);
    }
    if let Some(log) = &mut topic.log {
        effects.note_log(key, log);
        log.empty(key, &topic.name, UNLOGGED);
    }
    topic.waiting.bytes = 0;
    if let Some(limiter) = &mut topic.limiter {
        limiter.forget_head();
    }
    agenda.mark(key, topic);
}

/// Takes out a channel with its messages; its consumers' connections are to be closed.
pub(super) fn remove_channel(
    tree: &mut Tree,
    key: ChannelKey,
    store: &mut Store,
    agenda: &mut Agenda,
    effects: &mut Effects,
) {
    discard_channel(tree, key, store, agenda, effects);
    let Some(channel) = tree.remove_channel(key) else {
        return;
    };
    if channel.log_number != UNLOGGED
        && let Some(topic) = tree.topics.get_mut(channel.topic)
        && let Some(log) = &mut topic.log
    {
        effects.note_log(channel.topic, log);
        log.remove_channel(channel.topic, &topic.name, channel.log_number);
    }
    for consumer in channel.consumers {
        if let Some(consumer) = tree.consumers.remove(consumer) {
            effects.close.push(consumer.subscription.connection);
        }
    }
    effects.catalog_changed = true;
}

/// Discards all messages of a channel: waiting, deferred and in flight.
pub(super) fn discard_channel(
    tree: &mut Tree,
    key: ChannelKey,
    store: &mut Store,
    agenda: &mut Agenda,
    effects: &mut Effects,
) {
    let Some(channel) = tree.channels.get_mut(key) else {
        return;
    };
    if let Some(outside) = channel.queue.forget_outside()
        && let Some(topic) = tree.topics.get(channel.topic)
    {
        channel.dropped_count += outside as u64;
        let order = BacklogOrder::ForgetAll(channel.spilled(key, topic));
        effects.backlog.push(order);
    }
    let mut discard = |message| {
        channel.dropped_count += 1;
        store.release(message);
    };
    channel
        .queue
        .drain()
        .for_each(|queued| discard(queued.message));
    channel
        .deferred
        .drain()
        .for_each(|deferred| discard(deferred.0.message));
    channel.handing.discard().for_each(&mut discard);
    channel.deferred_again = 0;
    if channel.log_number != UNLOGGED
        && let Some(topic) = tree.topics.get_mut(channel.topic)
        && let Some(log) = &mut topic.log
    {
        effects.note_log(channel.topic, log);
        log.empty(channel.topic, &topic.name, channel.log_number);
    }
    for &consumer_key in &channel.consumers {
        let Some(consumer) = tree.consumers.get_mut(consumer_key) else {
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
    agenda.mark_dirty(&mut tree.topics, channel.topic);
}
