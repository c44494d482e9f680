//! The flow of messages: from publishers into topics, through them, and to consumers and back.

use std::time::Duration;

use clock::Instant;
use wire::ChannelName;

use super::TopicTable;
use crate::consume;
use crate::consumer::{ConsumerKey, Subscription};
use crate::in_flight::FlightError;
use crate::latency::Stage;
use crate::publish::{Command, Published};
use crate::pump::{Outlet, Pump};
use crate::refusal::Refusal;
use crate::store::Arrival;
use crate::topic::{Topic, TopicKey};
use crate::trace::Source;
use crate::traffic::Asked;
use crate::waiting_publishers::WaitingPublisher;

impl TopicTable {
    /// Puts `bodies` into the topic's queue, all or none.
    ///
    /// The queue is full when they do not all fit under `mem_queue_size`; a batch larger than that
    /// enters an empty queue, else it could never be published.
    pub fn publish<'a>(
        &mut self,
        key: TopicKey,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        arrival: Arrival,
        delay: Duration,
    ) -> Published {
        let topics = &mut self.tree.topics;
        let Some(topic) = topics.get(key).filter(|_| self.ending.is_none()) else {
            return Published::Gone;
        };
        if topic.log.is_some()
            && let Some(reason) = self.bounds.too_long_to_log(bodies.clone())
        {
            return self.reject(key, reason);
        }
        let mut asked = Asked::of(bodies.clone());
        let mut is_full = topic.is_full_for(asked.messages as usize, self.bounds.mem_queue_size);
        if let Some(log) = &topic.log
            && (log.is_full() || self.logging.is_full(key))
        {
            is_full = true;
        }
        if !is_full && !self.memory.has_room(topics, key, &asked) {
            is_full = true;
            self.press(key);
        }
        let topics = &self.tree.topics;
        let waits = |topic: &Topic| !topic.name.is_ephemeral();
        if is_full && topics.get(key).is_some_and(waits) {
            return Published::Full;
        }
        if !delay.is_zero()
            && let Some(reason) = self.too_many_delays(key)
        {
            return self.reject(key, reason);
        }
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return Published::Gone;
        };
        topic.hear(self.leases.said(&self.shared));
        // A command that was held back was read long ago; what it finds now is judged now.
        let now = arrival.read.max(self.agenda.ran_at);
        if let Err(reason) = topic.admit(&arrival, bodies.clone(), now) {
            topic.counts.rejected += 1;
            asked.refused_messages = asked.messages;
            asked.refused_bytes = asked.bytes;
            self.note_asked(key, &asked, now);
            return Published::Refused(reason);
        }
        let command = Command {
            arrival,
            delay,
            now,
            is_full,
        };
        let store = &mut self.memory.store;
        self.intake
            .accept((key, topic), store, bodies, &command, &mut asked);
        let mut outcome = Published::Accepted;
        if let Some(log) = &mut topic.log {
            self.effects.note_log(key, log);
            outcome = log.awaited().map_or(outcome, Published::Logged);
        }
        self.note_asked(key, &asked, now);
        self.mark_dirty(key);
        outcome
    }

    #[cold]
    fn reject(&mut self, key: TopicKey, reason: String) -> Published {
        if let Some(topic) = self.tree.topics.get_mut(key) {
            topic.counts.rejected += 1;
        }
        Published::Refused(reason)
    }

    /// Has queues of a topic move more messages outside, where they may, because there is no memory
    /// for what is published to it.
    #[cold]
    fn press(&mut self, key: TopicKey) {
        if self.bounds.backlog.is_some()
            && let Some(topic) = self.tree.topics.get_mut(key)
        {
            topic.is_pressed = true;
            self.agenda.mark(key, topic);
        }
    }

    /// Why no further message may be published with a delay, if so. Those that wait in the topic's queue already come on top.
    fn too_many_delays(&self, key: TopicKey) -> Option<String> {
        let most = self.bounds.deferred_max;
        let mut channels = self.tree.channels_of(self.tree.topics.get(key)?);
        let full = channels
            .find(|channel| !channel.name.is_ephemeral() && channel.is_full_of_delays(most))?;
        let name = &full.name;
        Some(format!(
            "too many messages of channel {name} are deferred (limit {most}); publish without a delay, or later"
        ))
    }

    /// Keeps the figures for a controller, and has it told of a topic that waits for a share.
    #[inline]
    fn note_asked(&mut self, key: TopicKey, asked: &Asked, now: Instant) {
        if !self.leases.is_controlled {
            return;
        }
        if let Some(topic) = self.tree.topics.get_mut(key) {
            topic.note_asked(asked, now);
            self.effects.report_wanted |= topic.asks_for_share(now);
        }
    }

    /// Notes where an accepted publish command came from. `name` is asked for only where a trace meets the
    /// source for the first time.
    #[inline]
    pub fn note_source(
        &mut self,
        key: TopicKey,
        source: Source,
        messages: u32,
        arrival: &Arrival,
        name: impl Fn() -> String,
    ) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        if !source.is_declared {
            topic.counts.fixed += u64::from(messages);
        }
        topic.observed.note_source(source, messages, arrival, name);
    }

    /// About how long the message at the end of the queue waits for its tokens from `now`; a second where there is no
    /// share to take them from yet, or the topic is held. What else holds a queue up, as a pause does, is not in it.
    ///
    /// From the bucket itself and not from what the last run asked to be woken for: a publish may come before the
    /// topic has run, when nobody has asked yet.
    pub fn expected_wait(&mut self, key: TopicKey, now: Instant) -> Duration {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return Duration::ZERO;
        };
        self.telling.catch_up(key, topic, &mut self.agenda);
        topic.hear(self.leases.said(&self.shared));
        topic.expected_wait(&self.memory.store, now)
    }

    /// Takes the first publisher that waits at a topic.
    pub fn pop_waiting(&mut self, key: TopicKey) -> Option<WaitingPublisher> {
        let topic = self.tree.topics.get_mut(key)?;
        topic.publishers.waiting.pop_front()
    }

    /// Puts a publisher at the end of those that wait, or (`first`) back at their head.
    pub fn hold(&mut self, key: TopicKey, publisher: WaitingPublisher, first: bool) {
        match self.tree.topics.get_mut(key) {
            Some(topic) => topic.publishers.hold(publisher, first),
            None => self.effects.without_topic.push(publisher),
        }
    }

    /// Whether somebody waits already, so that a newcomer must queue up behind.
    #[inline]
    #[must_use]
    pub fn has_waiting(&self, key: TopicKey) -> bool {
        let topic = self.tree.topics.get(key);
        topic.is_some_and(|topic| !topic.publishers.waiting.is_empty())
    }

    /// Finds what is due at `now`: tokens there, delays over, flights timed out. It is done when
    /// its topics are [run](Self::run_topic).
    pub fn wake(&mut self, now: Instant) {
        self.agenda.wake(&mut self.tree, now);
    }

    /// Earliest instant at which something is due.
    #[inline]
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.agenda.wakeups.next()
    }

    /// Takes a topic that something happened to and that has not been run since.
    pub fn pop_dirty(&mut self) -> Option<TopicKey> {
        self.agenda.pop_dirty()
    }

    /// Serves all topics that something happened to, however long it takes.
    #[cfg(test)]
    pub fn run(&mut self, now: Instant, outlet: &mut impl Outlet) {
        self.agenda.ran_at = now;
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
        self.agenda.ran_at = now;
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        let service = self.intake.service.as_mut();
        topic.waiting.sort_in(service, &mut self.memory.store);
        self.telling.catch_up(key, topic, &mut self.agenda);
        topic.hear(self.leases.said(&self.shared));
        self.agenda.do_due(&mut self.tree, key, now);
        if let Some(topic) = self.tree.topics.get_mut(key) {
            topic.dirty = false;
        }
        let mut pump = Pump {
            tree: &mut self.tree,
            store: &mut self.memory.store,
            agenda: &mut self.agenda,
            effects: &mut self.effects,
            bounds: &self.bounds,
            is_ending: self.ending.is_some(),
            may_hide_limits: self.telling.teller.may_hide_limits(),
            releases_max: self.releases_max,
        };
        pump.run(key, now, messages_max, outlet);
        self.offer_room(key);
        if self.bounds.backlog.is_some() {
            let store = &self.memory.store;
            let effects = (&mut self.effects, self.ending.is_some());
            self.outstanding
                .look_after(key, &mut self.tree, store, effects, now);
        }
    }

    /// Has publishers that wait at a topic tried again, if there may be room for them.
    fn offer_room(&mut self, key: TopicKey) {
        let topics = &self.tree.topics;
        let Some(topic) = topics.get(key) else {
            return;
        };
        debug_assert!(topic.is_conserved(), "{topic:?}");
        let is_behind = topic.log.as_ref().is_some_and(|log| log.is_full());
        let has_room = !is_behind && !topic.is_full_for(1, self.bounds.mem_queue_size);
        let is_wanted = has_room && !topic.publishers.waiting.is_empty();
        if is_wanted && self.memory.has_room_for_waiting(topics, key) {
            self.effects.roomy.push(key);
        }
    }

    /// Adds a consumer to a channel, making topic and channel if need be.
    ///
    /// # Errors
    /// [`Refusal`] at a bound; its text is for the `E_SUB_FAILED` answer.
    pub fn subscribe(
        &mut self,
        topic: &str,
        channel: &ChannelName,
        subscription: Subscription,
    ) -> Result<ConsumerKey, Refusal> {
        let topic = self.find_or_create(topic)?;
        let channel = self.find_or_create_channel(topic, channel)?;
        let most = self.bounds.channel_consumers_max;
        consume::subscribe(&mut self.tree, channel, subscription, most)
    }

    /// Takes a consumer out; what it had in flight goes back to the queue at once.
    pub fn unsubscribe(&mut self, key: ConsumerKey, now: Instant) {
        let Some((channel, is_over)) = consume::unsubscribe(&mut self.tree, key, now) else {
            return;
        };
        if is_over {
            self.delete_channel(channel);
        } else if let Some(channel) = self.tree.channels.get(channel) {
            self.mark_dirty(channel.topic);
        }
    }

    /// Sets a consumer's RDY count.
    pub fn set_ready(&mut self, key: ConsumerKey, count: u32) {
        if self
            .ending
            .as_ref()
            .is_some_and(|ending| ending.keeps(&self.tree, key))
        {
            return;
        }
        if let Some(consumer) = self.tree.consumers.get_mut(key) {
            consumer.ready_count = count;
            self.agenda.enlist(&mut self.tree, key);
        }
    }

    /// Says whether a consumer's output has room.
    pub fn set_writable(&mut self, key: ConsumerKey, writable: bool) {
        if let Some(consumer) = self.tree.consumers.get_mut(key) {
            consumer.writable = writable;
            self.agenda.enlist(&mut self.tree, key);
        }
    }

    /// Finishes a message.
    ///
    /// # Errors
    /// [`FlightError`], for the non-fatal `E_FIN_FAILED`.
    pub fn finish(&mut self, key: ConsumerKey, id: u64, now: Instant) -> Result<(), FlightError> {
        let (store, effects) = (&mut self.memory.store, &mut self.effects);
        consume::finish((&mut self.tree, effects), store, key, id, now)?;
        self.agenda.enlist(&mut self.tree, key);
        Ok(())
    }

    /// Gives a message back, to be delivered again after `delay`. At the bound of deferred messages it stays in flight:
    /// nothing is lost, nobody else waits, and a consumer that defers so much is slowed down by its own RDY count.
    ///
    /// # Errors
    /// [`FlightError`], for the non-fatal `E_REQ_FAILED`.
    pub fn requeue(
        &mut self,
        key: ConsumerKey,
        id: u64,
        delay: Duration,
        now: Instant,
    ) -> Result<(), FlightError> {
        let parts = (&mut self.tree, &mut self.agenda, &mut self.effects);
        consume::requeue(parts, (key, id), delay, self.bounds.deferred_max, now)
    }

    /// Starts a message's timeout anew, up to `timeout_max` after its delivery.
    ///
    /// # Errors
    /// [`FlightError`], for the non-fatal `E_TOUCH_FAILED`.
    pub fn touch(
        &mut self,
        key: ConsumerKey,
        id: u64,
        timeout_max: Duration,
        now: Instant,
    ) -> Result<(), FlightError> {
        consume::touch(&mut self.tree, key, id, timeout_max, now)
    }

    /// Records that `count` messages of a consumer waited `latency` for its socket.
    pub fn record_write(&mut self, key: ConsumerKey, latency: Duration, count: u32) {
        if let Some(latencies) = self.tree.latency_at(key) {
            latencies.record(Stage::Write, latency, count);
        }
    }
}
