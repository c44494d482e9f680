//! From a topic's queue through its limit to its channels, and from a channel to its consumers.
//!
//! One run serves every topic that something has happened to since the last run. A message leaves
//! the limiter at max(arrival, time of its tokens), the departure of the G/D/1 queue in equation
//! (2) of SRTM-long, appendix A, and not before an emulated service is done with it; a message that
//! is not due yet asks for a wake-up at that instant.

use clock::Instant;

use super::agenda::{Agenda, Target};
use super::bounds::Bounds;
use super::channel::{Channel, ChannelKey};
use super::effects::Effects;
use super::fullness::{do_all_take, put_into_all};
use super::latency::{Probe, Stage, StageHistograms};
use super::limiter::TopicLimiter;
use super::log::{ChannelLog, UNLOGGED};
use super::store::{Store, Stored};
use super::topic::{Topic, TopicKey};
use super::tree::Tree;
use crate::arena::Arena;

/// One message for one consumer.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The message.
    pub message: &'a Stored,
    /// Times that it has been delivered on its channel, this one included.
    pub attempts: u16,
    /// Which of the connection's subscriptions it is for.
    pub number: u32,
}

/// Where messages go out: the shell's connections.
pub trait Outlet {
    /// Takes one message for `connection`, in whatever frame that wants; says whether it has room for another.
    fn deliver(&mut self, connection: u64, delivery: Delivery<'_>) -> bool;

    /// A number below `bound`, drawn at random, for sampling.
    fn draw(&mut self, bound: u8) -> u8;

    /// Asked to follow the message that `connection` was just given until its subscriber has it.
    fn follow(&mut self, connection: u64, probe: Probe) {
        let _ = (connection, probe);
    }
}

/// The parts that a run of a topic goes through.
pub(super) struct Pump<'a> {
    pub(super) tree: &'a mut Tree,
    pub(super) store: &'a mut Store,
    pub(super) agenda: &'a mut Agenda,
    pub(super) effects: &'a mut Effects,
    pub(super) bounds: &'a Bounds,
    /// The broker stops.
    pub(super) is_ending: bool,
    /// A topic without a limit may have one that is not known here.
    pub(super) may_hide_limits: bool,
    /// Releases logged of each topic at most.
    pub(super) releases_max: usize,
}

impl Pump<'_> {
    /// Passes messages of a topic on and delivers them, until it is about `messages_max` of them; if there are more, the topic is
    /// dirty again.
    pub(super) fn run(
        &mut self,
        key: TopicKey,
        now: Instant,
        messages_max: usize,
        outlet: &mut impl Outlet,
    ) {
        let mut left = messages_max;
        loop {
            let passed = self.pass(key, now, left);
            let mut delivered = 0;
            let mut number = 0;
            while let Some(&channel) = self
                .tree
                .topics
                .get(key)
                .and_then(|topic| topic.channels.get(number))
            {
                self.look_at_fullness(channel, now);
                delivered += self.deliver(channel, now, left, outlet);
                number += 1;
            }
            left = left.saturating_sub(passed.max(delivered));
            if left == 0 {
                self.agenda.mark_dirty(&mut self.tree.topics, key);
                break;
            }
            let topic = self.tree.topics.get(key);
            let is_empty = topic.is_none_or(|topic| topic.depth() == 0);
            if delivered == 0 || is_empty {
                break;
            }
        }
    }

    /// Topic queue → channels, as far as tokens and room go. Gives how many messages it passed on, `messages_max` at most.
    fn pass(&mut self, key: TopicKey, now: Instant, messages_max: usize) -> usize {
        let bounds = &self.bounds.of_flow(self.is_ending);
        let Tree {
            topics, channels, ..
        } = &mut *self.tree;
        let (store, effects) = (&mut *self.store, &mut *self.effects);
        let wakeups = &mut self.agenda.wakeups;
        let Some(topic) = topics.get_mut(key) else {
            return 0;
        };
        if topic.paused || topic.awaited.is_some() || topic.channels.is_empty() {
            return 0;
        }
        let is_unjudged = topic.limiter.is_none() && self.may_hide_limits;
        let mut passed = 0;
        while let Some(&message) = topic
            .waiting
            .queue
            .front()
            .filter(|_| passed < messages_max)
        {
            // What is deferred needs no room in a queue now.
            let needs_room = store.get(message).due <= now;
            if needs_room && !do_all_take(topic, channels, bounds, now, (wakeups, effects)) {
                break;
            }
            let stored = store.get_mut(message);
            let departure = departure(topic.limiter.as_mut(), stored, now);
            if departure.max(stored.served) > now {
                let head = (departure, stored.served);
                let last = topic
                    .waiting
                    .queue
                    .back()
                    .map_or(Instant::ZERO, |&last| store.get(last).served);
                if let Some(at) = topic.sleep(head, last, now) {
                    wakeups.push(at, Target::Topic(key));
                }
                break;
            }
            if let Some(limiter) = topic.limiter.as_mut().filter(|_| !stored.has_paid) {
                limiter.take(&stored.arrival, stored.body.len(), stored.has_waited, now);
            }
            passed += 1;
            stored.released = now;
            let due = stored.due;
            topic.waiting.queue.pop_front();
            topic.note_release(stored, departure, now);
            if is_unjudged {
                let unjudged = topic.reported.unjudged.get_or_insert_default();
                unjudged.note(now, stored.body.len());
            }
            topic.observed.log_release(now, self.releases_max);
            let keys = &topic.channels;
            let log = topic.log.as_deref_mut();
            put_into_all(
                keys,
                (channels, store, log),
                message,
                (due, now),
                bounds,
                wakeups,
            );
            store.release(message);
        }
        if let Some(log) = topic.log.as_mut().filter(|_| passed > 0) {
            effects.note_log(key, log);
        }
        passed
    }

    /// Channel → consumers that are ready, in turn. Gives how many messages left the queue, `messages_max` at most.
    fn deliver(
        &mut self,
        key: ChannelKey,
        now: Instant,
        messages_max: usize,
        outlet: &mut impl Outlet,
    ) -> usize {
        let Tree {
            topics,
            channels,
            consumers,
            ..
        } = &mut *self.tree;
        let (store, wakeups) = (&mut *self.store, &mut self.agenda.wakeups);
        let Some(channel) = channels.get_mut(key) else {
            return 0;
        };
        if channel.paused || channel.queue.front().is_none() {
            return 0;
        }
        let (mut latency, mut log) = watch(topics, channel, self.effects);
        let messages_max = log.hold_back(messages_max);
        let mut delivered = 0;
        while let (Some(&queued), Some(&next)) = (channel.queue.front(), channel.ready.front())
            && delivered < messages_max
        {
            let Some(consumer) = consumers
                .get_mut(next)
                .filter(|consumer| consumer.is_ready())
            else {
                channel.ready.pop_front();
                if let Some(consumer) = consumers.get_mut(next) {
                    consumer.enlisted = false;
                }
                continue;
            };
            channel.queue.pop_front();
            delivered += 1;
            let sample_rate = consumer.subscription.sample_rate;
            if sample_rate > 0 && outlet.draw(100) >= sample_rate {
                channel.dropped_count += 1;
                log.end(store.get(queued.message).id);
                store.release(queued.message);
                continue;
            }
            let stored = store.get(queued.message);
            let flight = consumer.send(next, queued, stored, now, outlet);
            let is_finished = consumer.subscription.is_finished_when_sent;
            if is_finished {
                consumer.finish_sent();
                channel.finish_count += 1;
            }
            let flown = match is_finished {
                true => Ok(None),
                false => consumer.fly(&mut channel.in_flight, stored.id, flight),
            };
            if let Ok(Some(at)) = flown {
                wakeups.push(at, Target::Consumer(next));
            }
            if let Some(latency) = &mut latency {
                latency.record(Stage::Queue, now - queued.since, 1);
                if let Some(weight) = latency.record_delivery(stored, queued.attempts, now) {
                    let probe = Probe::new(channel.topic, &stored.arrival, now, weight);
                    outlet.follow(consumer.subscription.connection, probe);
                }
            }
            channel.dropped_count += u64::from(flown.is_err());
            log.deliver(stored.id, flight.attempts, is_finished || flown.is_err());
            if is_finished || flown.is_err() {
                store.release(queued.message);
            }
            if channel.ready.len() > 1 {
                channel.ready.rotate_left(1);
            }
        }
        debug_assert!(channel.is_conserved(), "{channel:?}");
        delivered
    }

    /// Keeps a channel's books at a run of its topic.
    fn look_at_fullness(&mut self, key: ChannelKey, now: Instant) {
        let Some(channel) = self.tree.channels.get_mut(key) else {
            return;
        };
        if let Some(news) = channel.look_at_fullness(self.bounds, now)
            && let Some(topic) = self.tree.topics.get(channel.topic)
        {
            self.effects
                .note_full(&topic.name, &channel.name, Some(news));
        }
    }
}

/// Where it is noted what a channel delivers.
#[inline]
fn watch<'a>(
    topics: &'a mut Arena<Topic>,
    channel: &Channel,
    effects: &mut Effects,
) -> (Option<&'a mut StageHistograms>, ChannelLog<'a>) {
    let Some(topic) = topics.get_mut(channel.topic) else {
        return (None, ChannelLog::default());
    };
    let log = topic.log.as_deref_mut();
    let mut log = log.filter(|_| channel.log_number != UNLOGGED);
    if let Some(log) = &mut log {
        effects.note_log(channel.topic, log);
    }
    let log = ChannelLog {
        log,
        channel: channel.log_number,
    };
    (topic.observed.latency.as_mut(), log)
}

/// When the message at the head has its tokens; its arrival where it needs none.
#[inline]
fn departure(limiter: Option<&mut TopicLimiter>, stored: &mut Stored, now: Instant) -> Instant {
    let arrival = stored.arrival.at;
    let Some(limiter) = limiter.filter(|_| !stored.has_paid) else {
        return arrival;
    };
    let departure = limiter.departure(arrival, stored.body.len(), now);
    stored.has_waited |= limiter.has_waited(arrival, departure, now);
    departure
}
