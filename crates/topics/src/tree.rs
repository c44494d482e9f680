//! Topics, their channels, and the channels' consumers; by key and by name.

use rustc_hash::FxHashMap;
use wire::{ChannelName, TopicName};

use super::channel::{Channel, ChannelKey};
use super::consumer::{Consumer, ConsumerKey};
use super::handover::QueueName;
use super::latency::StageHistograms;
use super::topic::{Topic, TopicKey};
use crate::arena::Arena;

/// All topics of one reactor with what belongs to them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) topics: Arena<Topic>,
    pub(super) channels: Arena<Channel>,
    pub(super) consumers: Arena<Consumer>,
    by_name: FxHashMap<TopicName, TopicKey>,
}

impl Tree {
    /// The topic of that name, if there is one.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<TopicKey> {
        self.by_name.get(name).copied()
    }

    /// The channel of that name, if there is one.
    pub(super) fn find_channel(&self, topic: TopicKey, name: &ChannelName) -> Option<ChannelKey> {
        let channels = &self.topics.get(topic)?.channels;
        channels.iter().copied().find(|&key| {
            self.channels
                .get(key)
                .is_some_and(|channel| channel.name == *name)
        })
    }

    /// Whether the topic of a channel is here and has no such channel.
    pub(super) fn lacks_channel(&self, queue: &QueueName) -> bool {
        let (topic, channel) = (self.find(queue.topic.as_str()), queue.channel.as_ref());
        let both = topic.zip(channel);
        both.is_some_and(|(topic, channel)| self.find_channel(topic, channel).is_none())
    }

    /// The channels of a topic, in no order.
    pub(super) fn channels_of(&self, topic: &Topic) -> impl Iterator<Item = &Channel> {
        let keys = topic.channels.iter();
        keys.filter_map(|&key| self.channels.get(key))
    }

    /// Where the time of a consumer's messages goes is noted there.
    #[inline]
    pub(super) fn latency_at(&mut self, consumer: ConsumerKey) -> Option<&mut StageHistograms> {
        let consumer = self.consumers.get(consumer)?;
        let channel = self.channels.get(consumer.channel)?;
        self.topics
            .get_mut(channel.topic)?
            .observed
            .latency
            .as_mut()
    }

    /// Adds a topic; no other has its name.
    pub(super) fn add_topic(&mut self, topic: Topic) -> TopicKey {
        let name = topic.name.clone();
        let key = self.topics.insert(topic);
        self.by_name.insert(name, key);
        key
    }

    /// Takes out a topic; its channels are gone before.
    pub(super) fn remove_topic(&mut self, key: TopicKey) -> Option<Topic> {
        let topic = self.topics.remove(key)?;
        self.by_name.remove(&topic.name);
        Some(topic)
    }

    /// Puts in a channel of a topic that is there, and has none of that name.
    pub(super) fn add_channel(&mut self, channel: Channel) -> ChannelKey {
        let topic = channel.topic;
        let key = self.channels.insert(channel);
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.channels.push(key);
        }
        key
    }

    /// Takes out a channel; its consumers are left.
    pub(super) fn remove_channel(&mut self, key: ChannelKey) -> Option<Channel> {
        let channel = self.channels.remove(key)?;
        if let Some(topic) = self.topics.get_mut(channel.topic) {
            topic.channels.retain(|&other| other != key);
        }
        Some(channel)
    }
}
