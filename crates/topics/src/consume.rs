//! What consumers do: subscribe, say they are ready, finish, requeue, touch, leave.

use std::time::Duration;

use clock::Instant;
use wire::ChannelName;

use super::channel::{ChannelKey, Queued};
use super::consumer::{Consumer, ConsumerKey, Subscription};
use super::in_flight::{Flight, FlightError};
use super::latency::Stage;
use super::refusal::Refusal;
use super::table::{Target, TopicTable};

impl TopicTable {
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
        let topic_key = self.find_or_create(topic)?;
        let channel_key = self.find_or_create_channel(topic_key, channel)?;
        let most = self.bounds.channel_consumers_max;
        let owner = self
            .channels
            .get_mut(channel_key)
            .expect("just found or made");
        if most != 0 && owner.consumers.len() >= most {
            let (topic, channel) = (topic.to_string(), channel.as_str().to_string());
            return Err(Refusal::Consumers {
                topic,
                channel,
                limit: most,
            });
        }
        let key = self
            .consumers
            .insert(Consumer::new(channel_key, subscription));
        owner.consumers.push(key);
        owner.fullness.vacant_since = None;
        Ok(key)
    }

    /// The consumer itself.
    #[inline]
    #[must_use]
    pub fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.consumers.get(key)
    }

    /// Takes a consumer out; what it had in flight goes back to the queue at once.
    pub fn unsubscribe(&mut self, key: ConsumerKey, now: Instant) {
        let Some(mut consumer) = self.consumers.remove(key) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(consumer.channel) else {
            return;
        };
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
        let topic = channel.topic;
        channel.fullness.vacant_since = channel.consumers.is_empty().then_some(now);
        if channel.consumers.is_empty() && channel.name.is_ephemeral() {
            self.delete_channel(consumer.channel);
        } else {
            self.mark_dirty(topic);
        }
    }

    /// Sets a consumer's RDY count.
    pub fn set_ready(&mut self, key: ConsumerKey, count: u32) {
        if let Some(consumer) = self.consumers.get_mut(key) {
            consumer.ready_count = count;
            self.enlist(key);
        }
    }

    /// Says whether a consumer's output has room.
    pub fn set_writable(&mut self, key: ConsumerKey, writable: bool) {
        if let Some(consumer) = self.consumers.get_mut(key) {
            consumer.writable = writable;
            self.enlist(key);
        }
    }

    /// Finishes a message.
    ///
    /// # Errors
    /// [`FlightError`], for the non-fatal `E_FIN_FAILED`.
    pub fn finish(&mut self, key: ConsumerKey, id: u64, now: Instant) -> Result<(), FlightError> {
        let (channel_key, flight) = self.take_flight(key, id)?;
        let channel = self
            .channels
            .get_mut(channel_key)
            .expect("its flight was just taken");
        channel.finish_count += 1;
        if let Some(latency) = self
            .topics
            .get_mut(channel.topic)
            .and_then(|topic| topic.observed.latency.as_mut())
        {
            latency.record(Stage::Fin, now - flight.delivered, 1);
        }
        if let Some(consumer) = self.consumers.get_mut(key) {
            consumer.finish_count += 1;
        }
        self.store.release(flight.message);
        self.enlist(key);
        Ok(())
    }

    /// Gives a message back, to be delivered again after `delay`. At the bound of deferred messages it stays in flight:
    /// nothing is lost, nobody else waits, and who defers so much is slowed down by its own RDY count.
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
        if !delay.is_zero() {
            self.check_deferrals(key, id)?;
        }
        let (channel_key, flight) = self.take_flight(key, id)?;
        let channel = self
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
        } else if let Some(at) = channel.defer(flight.message, flight.attempts, now + delay) {
            self.wakeups.push(at, Target::Channel(channel_key));
        }
        if let Some(consumer) = self.consumers.get_mut(key) {
            consumer.requeue_count += 1;
        }
        self.enlist(key);
        self.mark_dirty(topic);
        Ok(())
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
        let consumer = self.consumers.get_mut(key).ok_or(FlightError::UnknownId)?;
        let channel = self
            .channels
            .get_mut(consumer.channel)
            .ok_or(FlightError::UnknownId)?;
        let wanted = now + consumer.subscription.msg_timeout;
        let deadline = |flight: &Flight| wanted.min(flight.delivered + timeout_max);
        channel
            .in_flight
            .touch(&mut consumer.flights, id, key, deadline)
    }

    /// Records that `count` messages of a consumer waited `latency` for its socket.
    pub fn record_write(&mut self, key: ConsumerKey, latency: Duration, count: u32) {
        let Some(channel) = self
            .consumers
            .get(key)
            .and_then(|consumer| self.channels.get(consumer.channel))
        else {
            return;
        };
        if let Some(latencies) = self
            .topics
            .get_mut(channel.topic)
            .and_then(|topic| topic.observed.latency.as_mut())
        {
            latencies.record(Stage::Write, latency, count);
        }
    }

    /// Whether a consumer may defer a message that it has in flight.
    fn check_deferrals(&mut self, key: ConsumerKey, id: u64) -> Result<(), FlightError> {
        let deferred_max = self.bounds.deferred_max;
        let consumer = self.consumers.get(key).ok_or(FlightError::UnknownId)?;
        let channel = self.channels.get_mut(consumer.channel).filter(|channel| {
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

    fn take_flight(
        &mut self,
        key: ConsumerKey,
        id: u64,
    ) -> Result<(ChannelKey, Flight), FlightError> {
        let consumer = self.consumers.get_mut(key).ok_or(FlightError::UnknownId)?;
        let channel = self
            .channels
            .get_mut(consumer.channel)
            .ok_or(FlightError::UnknownId)?;
        let flight = channel.in_flight.take(&mut consumer.flights, id, key)?;
        consumer.in_flight_count -= 1;
        Ok((consumer.channel, flight))
    }
}
