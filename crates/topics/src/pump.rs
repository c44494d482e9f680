//! From a topic's queue through its limit to its channels, and from a channel to its consumers.
//!
//! One run serves every topic that something happened to since the last. A message leaves the
//! limiter at max(arrival, time of its tokens), the departure of the G/D/1 queue in equation (2) of the
//! long version's appendix A, and not before an emulated service is done with it; what is not due yet asks for a
//! wake-up at that instant.

use clock::Instant;

use super::channel::{ChannelKey, Queued};
use super::consumer::{Consumer, ConsumerKey};
use super::fullness::{do_all_take, put_into_all};
use super::in_flight::{Flight, InFlight};
use super::latency::{Probe, Stage};
use super::limiter::TopicLimiter;
use super::queue;
use super::store::Stored;
use super::table::{Target, TopicKey, TopicTable};

/// One message for one consumer.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The message.
    pub message: &'a Stored,
    /// Times that it has been delivered on its channel, this one included.
    pub attempts: u16,
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

impl TopicTable {
    /// Serves all topics that something happened to, however long it takes.
    #[cfg(test)]
    pub fn run(&mut self, now: Instant, outlet: &mut impl Outlet) {
        self.ran_at = now;
        while let Some(key) = self.pop_dirty() {
            self.run_topic(key, now, usize::MAX, outlet);
        }
    }

    /// Serves one topic that [`Self::pop_dirty`] gave, until about `messages_max` messages have been passed on or delivered;
    /// if there are more, something has happened to it again.
    pub fn run_topic(
        &mut self,
        key: TopicKey,
        now: Instant,
        messages_max: usize,
        outlet: &mut impl Outlet,
    ) {
        self.ran_at = now;
        if let Some(topic) = self.topics.get_mut(key) {
            topic
                .waiting
                .sort_in(self.service.as_mut(), &mut self.store);
            self.do_due(key, now);
            if let Some(topic) = self.topics.get_mut(key) {
                topic.dirty = false;
            }
            self.pump(key, now, messages_max, outlet);
        }
    }

    /// Finds what is due at `now`: tokens there, delays over, flights timed out. It is done when the topics that it is of are
    /// [run](Self::run_topic).
    pub fn wake(&mut self, now: Instant) {
        while let Some((at, target)) = self.wakeups.pop_due(now) {
            match target {
                Target::Topic(key) => {
                    if let Some(topic) = self.topics.get_mut(key)
                        && topic.release_at == Some(at)
                    {
                        topic.release_at = None;
                        self.mark_dirty(key);
                    }
                }
                Target::Channel(key) => {
                    if let Some(channel) = self.channels.get_mut(key)
                        && channel.wake_at == Some(at)
                    {
                        channel.wake_at = None;
                        self.note_due(key, target);
                    }
                }
                Target::Abandoned(key) => {
                    if let Some(channel) = self.channels.get_mut(key)
                        && channel.fullness.wake_at == Some(at)
                    {
                        channel.fullness.wake_at = None;
                        let topic = channel.topic;
                        self.mark_dirty(topic);
                    }
                }
                Target::Backlog(key) => self.mark_dirty(key),
                Target::Consumer(key) => {
                    if let Some(consumer) = self.consumers.get(key) {
                        self.note_due(consumer.channel, target);
                    }
                }
            }
        }
    }

    /// Leaves what is due of a channel or one of its consumers for the turn of their topic.
    fn note_due(&mut self, channel: ChannelKey, target: Target) {
        let Some(channel) = self.channels.get(channel) else {
            return;
        };
        let key = channel.topic;
        if let Some(topic) = self.topics.get_mut(key) {
            topic.due.push(target);
            self.mark_dirty(key);
        }
    }

    fn do_due(&mut self, key: TopicKey, now: Instant) {
        let mut due = match self.topics.get_mut(key) {
            Some(topic) if !topic.due.is_empty() => std::mem::take(&mut topic.due),
            _ => return,
        };
        for target in due.drain(..) {
            match target {
                Target::Topic(_) | Target::Abandoned(_) | Target::Backlog(_) => {}
                Target::Channel(key) => self.wake_channel(key, now),
                Target::Consumer(key) => self.expire(key, now),
            }
        }
        if let Some(topic) = self.topics.get_mut(key) {
            topic.due = due;
        }
    }

    fn pump(&mut self, key: TopicKey, now: Instant, messages_max: usize, outlet: &mut impl Outlet) {
        let mut left = messages_max;
        loop {
            let passed = self.pass(key, now, left);
            let mut delivered = 0;
            let mut number = 0;
            while let Some(&channel) = self
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
                self.mark_dirty(key);
                break;
            }
            let is_empty = self.topics.get(key).is_none_or(|topic| topic.depth() == 0);
            if delivered == 0 || is_empty {
                break;
            }
        }
        if let Some(topic) = self.topics.get(key) {
            debug_assert!(topic.is_conserved(), "{topic:?}");
            let has_room = queue::fit(topic.in_memory(), 1, self.bounds.mem_queue_size);
            if has_room && !topic.publishers.held.is_empty() && self.has_memory_for_held(key) {
                self.effects.roomy.push(key);
            }
        }
        if self.bounds.backlog.is_some() {
            self.look_after_backlogs(key, now);
        }
    }

    /// Topic queue → channels, as far as tokens and room go. Gives how many messages it passed on, `messages_max` at most.
    fn pass(&mut self, key: TopicKey, now: Instant, messages_max: usize) -> usize {
        let bounds = &self.bounds_of_flow();
        let TopicTable {
            topics,
            channels,
            store,
            wakeups,
            effects,
            releases_max,
            telling,
            ..
        } = self;
        let Some(topic) = topics.get_mut(key) else {
            return 0;
        };
        if topic.paused || topic.awaited.is_some() || topic.channels.is_empty() {
            return 0;
        }
        let is_unjudged = topic.limiter.is_none() && telling.teller.may_hide_limits();
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
            if topic.observed.releases.len() < *releases_max {
                topic.observed.releases.push(now.as_nanos());
            }
            let keys = &topic.channels;
            put_into_all(
                keys,
                (channels, store),
                message,
                (due, now),
                bounds,
                wakeups,
            );
            store.release(message);
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
        let TopicTable {
            topics,
            channels,
            consumers,
            store,
            wakeups,
            ..
        } = self;
        let Some(channel) = channels.get_mut(key) else {
            return 0;
        };
        if channel.paused || channel.queue.front().is_none() {
            return 0;
        }
        let mut latency = topics
            .get_mut(channel.topic)
            .and_then(|topic| topic.observed.latency.as_mut());
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
                store.release(queued.message);
                continue;
            }
            let stored = store.get(queued.message);
            let flight = consumer.send(next, queued, stored, now, outlet);
            let is_finished = consumer.subscription.is_finished_when_sent;
            if is_finished {
                consumer.finish_sent();
                channel.finish_count += 1;
            } else if let Some(at) = consumer.fly(&mut channel.in_flight, stored.id, flight) {
                wakeups.push(at, Target::Consumer(next));
            }
            if let Some(latency) = &mut latency {
                latency.record(Stage::Queue, now - queued.since, 1);
                if let Some(weight) = latency.record_delivery(stored, queued.attempts, now) {
                    let probe = Probe::new(channel.topic, &stored.arrival, now, weight);
                    outlet.follow(consumer.subscription.connection, probe);
                }
            }
            if is_finished {
                store.release(queued.message);
            }
            if channel.ready.len() > 1 {
                channel.ready.rotate_left(1);
            }
        }
        debug_assert!(channel.is_conserved(), "{channel:?}");
        delivered
    }

    /// Queues what a channel has deferred for long enough.
    fn wake_channel(&mut self, key: ChannelKey, now: Instant) {
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        let asked = channel.wake_at;
        let next = channel.queue_due(now);
        if let Some(next) = next.filter(|_| next != asked) {
            self.wakeups.push(next, Target::Channel(key));
        }
    }

    /// Requeues what a consumer has held for too long.
    fn expire(&mut self, key: ConsumerKey, now: Instant) {
        let TopicTable {
            channels,
            consumers,
            wakeups,
            ..
        } = self;
        let Some(consumer) = consumers.get_mut(key) else {
            return;
        };
        let Some(channel) = channels.get_mut(consumer.channel) else {
            return;
        };
        while let Some(flight) = channel.in_flight.take_due(&mut consumer.flights, now) {
            channel.timeout_count += 1;
            consumer.in_flight_count -= 1;
            channel.queue.push_back(Queued {
                message: flight.message,
                attempts: flight.attempts,
                since: now,
            });
        }
        let next = channel.in_flight.next_deadline(&consumer.flights);
        consumer.wake_armed = next.is_some();
        if let Some(next) = next {
            wakeups.push(next, Target::Consumer(key));
        }
        self.enlist(key);
    }

    /// Puts a consumer that can take a message among those that are asked in turn.
    pub(super) fn enlist(&mut self, key: ConsumerKey) {
        let Some(consumer) = self.consumers.get_mut(key) else {
            return;
        };
        if consumer.enlisted || !consumer.is_ready() {
            return;
        }
        let Some(channel) = self.channels.get_mut(consumer.channel) else {
            return;
        };
        consumer.enlisted = true;
        channel.ready.push_back(key);
        if channel.queue.front().is_some() {
            let topic = channel.topic;
            self.mark_dirty(topic);
        }
    }
}

impl Consumer {
    /// Notes a message that nobody will speak of again.
    fn finish_sent(&mut self) {
        self.in_flight_count -= 1;
        self.finish_count += 1;
    }

    /// Notes a message in flight; gives when to look after it, unless that is asked for already.
    fn fly(&mut self, in_flight: &mut InFlight, id: u64, flight: Flight) -> Option<Instant> {
        in_flight.insert(&mut self.flights, id, flight);
        let is_armed = std::mem::replace(&mut self.wake_armed, true);
        (!is_armed).then_some(flight.deadline)
    }

    /// Hands a message to this consumer's connection.
    fn send(
        &mut self,
        key: ConsumerKey,
        queued: Queued,
        stored: &Stored,
        now: Instant,
        outlet: &mut impl Outlet,
    ) -> Flight {
        let attempts = queued.attempts.saturating_add(1);
        let delivery = Delivery {
            message: stored,
            attempts,
        };
        self.writable = outlet.deliver(self.subscription.connection, delivery);
        self.in_flight_count += 1;
        self.message_count += 1;
        Flight {
            message: queued.message,
            attempts,
            consumer: key,
            delivered: now,
            deadline: now + self.subscription.msg_timeout,
        }
    }
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
