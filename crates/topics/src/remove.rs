//! What goes: topics and channels that are deleted, messages that are discarded.

use clock::Instant;
use link::TopicChange;

use super::channel::ChannelKey;
use super::spill::{BacklogOrder, QueueKey};
use super::table::{TopicKey, TopicTable};

impl TopicTable {
    /// Deletes a topic with its channels and messages.
    ///
    /// Under a controller a topic with a limit stays, empty: the next publish would make it anew, without the limit.
    pub fn delete(&mut self, key: TopicKey) {
        let Some(topic) = self.topics.get(key) else {
            return;
        };
        let channels = topic.channels.clone();
        self.tell(key, TopicChange::TopicDeleted);
        for channel in channels {
            self.remove_channel(channel);
        }
        if self.has_granted_limit(key) {
            self.discard_queue(key);
            // Whoever was told, or gave the order, takes it for gone.
            return self.tell_anyway(key, TopicChange::TopicCreated);
        }
        self.remove_topic(key);
    }

    fn remove_topic(&mut self, key: TopicKey) {
        let Some(mut topic) = self.topics.remove(key) else {
            return;
        };
        self.by_name.remove(&topic.name);
        self.note_gone(&topic);
        let task = topic.task.map(|task| (topic.name.clone(), task));
        self.effects.ended.extend(task);
        if topic.waiting.queue.forget_outside().is_some() {
            self.effects
                .backlog
                .push(BacklogOrder::ForgetAll(QueueKey::Topic(key)));
        }
        for message in topic
            .waiting
            .queue
            .drain()
            .chain(topic.waiting.fresh.drain(..).map(|fresh| fresh.message))
            .chain(topic.handing.discard())
        {
            self.store.release(message);
        }
        self.effects.orphans.extend(topic.publishers.held.drain(..));
        self.effects.catalog_changed = true;
    }

    /// Deletes a channel with its messages; its consumers' connections are to be closed.
    pub fn delete_channel(&mut self, key: ChannelKey) {
        let Some(channel) = self.channels.get(key) else {
            return;
        };
        let (owner, channel) = (channel.topic, channel.name.to_string());
        self.tell(owner, TopicChange::ChannelDeleted { channel });
        self.remove_channel(key);
        let Some(topic) = self.topics.get(owner) else {
            return;
        };
        let is_last = topic.channels.is_empty() && topic.name.is_ephemeral();
        if is_last && !self.has_granted_limit(owner) {
            self.delete(owner);
        } else {
            self.mark_dirty(owner);
        }
    }

    fn remove_channel(&mut self, key: ChannelKey) {
        self.discard_channel(key);
        let Some(channel) = self.channels.remove(key) else {
            return;
        };
        for consumer in channel.consumers {
            if let Some(consumer) = self.consumers.remove(consumer) {
                self.effects.close.push(consumer.subscription.connection);
            }
        }
        self.effects.catalog_changed = true;
        if let Some(topic) = self.topics.get_mut(channel.topic) {
            topic.channels.retain(|&other| other != key);
        }
    }

    /// Discards what waits in the topic's own queue.
    pub fn empty(&mut self, key: TopicKey) {
        self.tell(key, TopicChange::TopicEmptied);
        self.discard_queue(key);
    }

    fn discard_queue(&mut self, key: TopicKey) {
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
        if let Some(outside) = topic.waiting.queue.forget_outside() {
            topic.counts.dropped += outside as u64;
            let order = BacklogOrder::ForgetAll(QueueKey::Topic(key));
            self.effects.backlog.push(order);
        }
        for message in topic
            .waiting
            .queue
            .drain()
            .chain(topic.waiting.fresh.drain(..).map(|fresh| fresh.message))
            .chain(topic.handing.discard())
        {
            topic.counts.dropped += 1;
            self.store.release(message);
        }
        topic.waiting.bytes = 0;
        if let Some(limiter) = &mut topic.limiter {
            limiter.forget_head();
        }
        self.mark_dirty(key);
    }

    /// Discards all messages of a channel: waiting, deferred and in flight.
    pub fn empty_channel(&mut self, key: ChannelKey) {
        if let Some(channel) = self.channels.get(key) {
            let (topic, channel) = (channel.topic, channel.name.to_string());
            self.tell(topic, TopicChange::ChannelEmptied { channel });
        }
        self.discard_channel(key);
    }

    fn discard_channel(&mut self, key: ChannelKey) {
        let TopicTable {
            channels,
            consumers,
            store,
            effects,
            ..
        } = self;
        let Some(channel) = channels.get_mut(key) else {
            return;
        };
        if let Some(outside) = channel.queue.forget_outside() {
            channel.dropped_count += outside as u64;
            let order = BacklogOrder::ForgetAll(QueueKey::Channel(key));
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
        for &consumer_key in &channel.consumers {
            let Some(consumer) = consumers.get_mut(consumer_key) else {
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
        let topic = channel.topic;
        self.mark_dirty(topic);
    }

    /// Whether the topic's limit is one that a controller shares out.
    fn has_granted_limit(&self, key: TopicKey) -> bool {
        let topic = self.topics.get(key);
        self.is_controlled && topic.is_some_and(|topic| topic.limiter.is_some())
    }
}
