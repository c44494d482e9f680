//! Commands of consumers: subscribe, finish, requeue, touch, leave.

use std::time::Duration;

use clock::Instant;

use super::agenda::{Agenda, Target};
use super::channel::{ChannelKey, Queued};
use super::consumer::{Consumer, ConsumerKey, Subscription};
use super::effects::Effects;
use super::in_flight::{Flight, FlightError};
use super::latency::Stage;
use super::log::{LogStep, UNLOGGED};
use super::refusal::Refusal;
use super::store::Store;
use super::tree::Tree;

/// Adds a consumer to a channel that is there, which has `most` at most; 0: as many as come.
pub(super) fn subscribe(
    tree: &mut Tree,
    channel: ChannelKey,
    subscription: Subscription,
    most: usize,
) -> Result<ConsumerKey, Refusal> {
    let owner = tree
        .channels
        .get_mut(channel)
        .expect("the caller just found or made it");
    if most != 0 && owner.consumers.len() >= most {
        let topic = tree.topics.get(owner.topic);
        return Err(Refusal::Consumers {
            topic: topic.map_or_else(String::new, |topic| topic.name.to_string()),
            channel: owner.name.to_string(),
            limit: most,
        });
    }
    let key = tree.consumers.insert(Consumer::new(channel, subscription));
    owner.consumers.push(key);
    owner.fullness.vacant_since = None;
    Ok(key)
}

/// Takes a consumer out; what it had in flight goes back to the queue at once. Gives its channel, if that is there, and whether
/// nobody is left to keep it for.
pub(super) fn unsubscribe(
    tree: &mut Tree,
    key: ConsumerKey,
    now: Instant,
) -> Option<(ChannelKey, bool)> {
    let mut consumer = tree.consumers.remove(key)?;
    let channel = tree.channels.get_mut(consumer.channel)?;
    while let Some(flight) = channel
        .in_flight
        .take_due(&mut consumer.flights, Instant::MAX)
    {
        channel.queue.push_back(Queued {
            message: flight.message,
            attempts: flight.attempts,
            since: now,
        });
    }
    channel.consumers.retain(|&other| other != key);
    channel.ready.retain(|&other| other != key);
    let is_vacant = channel.consumers.is_empty();
    channel.fullness.vacant_since = is_vacant.then_some(now);
    Some((consumer.channel, is_vacant && channel.name.is_ephemeral()))
}

/// Finishes a message.
#[inline]
pub(super) fn finish(
    (tree, effects): (&mut Tree, &mut Effects),
    store: &mut Store,
    key: ConsumerKey,
    id: u64,
    now: Instant,
) -> Result<(), FlightError> {
    let (channel_key, flight) = take_flight(tree, key, id)?;
    let channel = tree
        .channels
        .get_mut(channel_key)
        .expect("its flight was just taken");
    channel.finish_count += 1;
    if let Some(processing) = &mut channel.processing {
        processing.record(store.get(flight.message).arrival.at, now);
    }
    if let Some(topic) = tree.topics.get_mut(channel.topic) {
        if let Some(latency) = topic.observed.latency.as_mut() {
            latency.record(Stage::Fin, now - flight.delivered, 1);
        }
        if let Some(log) = topic
            .log
            .as_mut()
            .filter(|_| channel.log_number != UNLOGGED)
        {
            effects.note_log(channel.topic, log);
            let channel = channel.log_number;
            log.finish(channel, id);
        }
    }
    if let Some(consumer) = tree.consumers.get_mut(key) {
        consumer.finish_count += 1;
    }
    store.release(flight.message);
    Ok(())
}

/// Gives a message back, to be delivered again after `delay`. At the bound of deferred messages it stays in flight.
pub(super) fn requeue(
    (tree, agenda, effects): (&mut Tree, &mut Agenda, &mut Effects),
    (key, id): (ConsumerKey, u64),
    delay: Duration,
    deferred_max: usize,
    now: Instant,
) -> Result<(), FlightError> {
    if !delay.is_zero() {
        check_deferrals(tree, key, id, deferred_max)?;
    }
    let (channel_key, flight) = take_flight(tree, key, id)?;
    let channel = tree
        .channels
        .get_mut(channel_key)
        .expect("its flight was just taken");
    channel.requeue_count += 1;
    let topic = channel.topic;
    if delay.is_zero() {
        channel.queue.push_back(Queued {
            message: flight.message,
            attempts: flight.attempts,
            since: now,
        });
    } else {
        let due = now + delay;
        if let Some(at) = channel.defer(flight.message, flight.attempts, due) {
            agenda.wakeups.push(at, Target::Channel(channel_key));
        }
        if channel.log_number != UNLOGGED
            && let Some(log) = tree
                .topics
                .get_mut(topic)
                .and_then(|topic| topic.log.as_mut())
        {
            effects.note_log(topic, log);
            log.step(LogStep::Deferred {
                channel: channel.log_number,
                id,
                attempts: flight.attempts,
                due,
            });
        }
    }
    if let Some(consumer) = tree.consumers.get_mut(key) {
        consumer.requeue_count += 1;
    }
    agenda.enlist(tree, key);
    agenda.mark_dirty(&mut tree.topics, topic);
    Ok(())
}

/// Starts a message's timeout anew, up to `timeout_max` after its delivery.
pub(super) fn touch(
    tree: &mut Tree,
    key: ConsumerKey,
    id: u64,
    timeout_max: Duration,
    now: Instant,
) -> Result<(), FlightError> {
    let consumer = tree.consumers.get_mut(key).ok_or(FlightError::UnknownId)?;
    let channel = tree
        .channels
        .get_mut(consumer.channel)
        .ok_or(FlightError::UnknownId)?;
    let wanted = now + consumer.subscription.msg_timeout;
    let deadline = |flight: &Flight| wanted.min(flight.delivered + timeout_max);
    channel
        .in_flight
        .touch(&mut consumer.flights, id, key, deadline)
}

/// Whether a consumer may defer a message that it has in flight.
fn check_deferrals(
    tree: &mut Tree,
    key: ConsumerKey,
    id: u64,
    deferred_max: usize,
) -> Result<(), FlightError> {
    let consumer = tree.consumers.get(key).ok_or(FlightError::UnknownId)?;
    let channel = tree.channels.get_mut(consumer.channel).filter(|channel| {
        let away = channel.handing.lifted_again();
        channel.deferred_again + away >= deferred_max
    });
    let Some(channel) = channel else {
        return Ok(());
    };
    channel.in_flight.find(id, key)?;
    channel.refused_requeue_count += 1;
    Err(FlightError::TooManyDeferred)
}

#[inline]
fn take_flight(
    tree: &mut Tree,
    key: ConsumerKey,
    id: u64,
) -> Result<(ChannelKey, Flight), FlightError> {
    let consumer = tree.consumers.get_mut(key).ok_or(FlightError::UnknownId)?;
    let channel = tree
        .channels
        .get_mut(consumer.channel)
        .ok_or(FlightError::UnknownId)?;
    let flight = channel.in_flight.take(&mut consumer.flights, id, key)?;
    consumer.in_flight_count -= 1;
    Ok((consumer.channel, flight))
}
