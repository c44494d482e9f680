//! The work list: topics that something happened to, and work that falls due at some instant.

use clock::Instant;

use super::channel::{ChannelKey, Queued};
use super::consumer::ConsumerKey;
use super::topic::{Topic, TopicKey};
use super::tree::Tree;
use super::wakeups::Wakeups;
use crate::arena::Arena;

/// Due at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Topic(TopicKey),
    Channel(ChannelKey),
    Abandoned(ChannelKey),
    Consumer(ConsumerKey),
    Backlog(TopicKey),
}

/// Work to do for the topics of one reactor.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    dirty: Vec<TopicKey>,
    pub(super) wakeups: Wakeups<Target>,
    /// The instant of the latest run.
    pub(super) ran_at: Instant,
}

impl Agenda {
    /// Something happened to a topic: it has to run.
    #[inline]
    pub(super) fn mark(&mut self, key: TopicKey, topic: &mut Topic) {
        if !topic.dirty {
            topic.dirty = true;
            self.dirty.push(key);
        }
    }

    /// The same, by its key alone; nothing happens where it is gone.
    #[inline]
    pub(super) fn mark_dirty(&mut self, topics: &mut Arena<Topic>, key: TopicKey) {
        if let Some(topic) = topics.get_mut(key) {
            self.mark(key, topic);
        }
    }

    /// Takes a topic that something happened to and that has not been run since.
    pub(super) fn pop_dirty(&mut self) -> Option<TopicKey> {
        self.dirty.pop()
    }

    /// Finds what is due at `now`: tokens there, delays over, flights timed out. It is done when
    /// its topics are run ([`Agenda::do_due`]).
    pub(super) fn wake(&mut self, tree: &mut Tree, now: Instant) {
        while let Some((at, target)) = self.wakeups.pop_due(now) {
            match target {
                Target::Topic(key) => {
                    if let Some(topic) = tree.topics.get_mut(key)
                        && topic.release_at == Some(at)
                    {
                        topic.release_at = None;
                        self.mark(key, topic);
                    }
                }
                Target::Channel(key) => {
                    if let Some(channel) = tree.channels.get_mut(key)
                        && channel.wake_at == Some(at)
                    {
                        channel.wake_at = None;
                        self.note_due(tree, key, target);
                    }
                }
                Target::Abandoned(key) => {
                    if let Some(channel) = tree.channels.get_mut(key)
                        && channel.fullness.wake_at == Some(at)
                    {
                        channel.fullness.wake_at = None;
                        self.mark_dirty(&mut tree.topics, channel.topic);
                    }
                }
                Target::Backlog(key) => self.mark_dirty(&mut tree.topics, key),
                Target::Consumer(key) => {
                    if let Some(consumer) = tree.consumers.get(key) {
                        let channel = consumer.channel;
                        self.note_due(tree, channel, target);
                    }
                }
            }
        }
    }

    /// Leaves what is due of a channel or one of its consumers for the turn of their topic.
    fn note_due(&mut self, tree: &mut Tree, channel: ChannelKey, target: Target) {
        let Some(channel) = tree.channels.get(channel) else {
            return;
        };
        let key = channel.topic;
        if let Some(topic) = tree.topics.get_mut(key) {
            topic.due.push(target);
            self.mark(key, topic);
        }
    }

    /// Does what fell due of a topic's channels and consumers.
    pub(super) fn do_due(&mut self, tree: &mut Tree, key: TopicKey, now: Instant) {
        let mut due = match tree.topics.get_mut(key) {
            Some(topic) if !topic.due.is_empty() => std::mem::take(&mut topic.due),
            _ => return,
        };
        for target in due.drain(..) {
            match target {
                Target::Topic(_) | Target::Abandoned(_) | Target::Backlog(_) => {}
                Target::Channel(key) => self.wake_channel(tree, key, now),
                Target::Consumer(key) => self.expire(tree, key, now),
            }
        }
        if let Some(topic) = tree.topics.get_mut(key) {
            topic.due = due;
        }
    }

    /// Queues what a channel has deferred for long enough.
    fn wake_channel(&mut self, tree: &mut Tree, key: ChannelKey, now: Instant) {
        let Some(channel) = tree.channels.get_mut(key) else {
            return;
        };
        let asked = channel.wake_at;
        let next = channel.queue_due(now);
        if let Some(next) = next.filter(|_| next != asked) {
            self.wakeups.push(next, Target::Channel(key));
        }
    }

    /// Requeues what a consumer has held for too long.
    fn expire(&mut self, tree: &mut Tree, key: ConsumerKey, now: Instant) {
        let Some(consumer) = tree.consumers.get_mut(key) else {
            return;
        };
        let Some(channel) = tree.channels.get_mut(consumer.channel) else {
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
            self.wakeups.push(next, Target::Consumer(key));
        }
        self.enlist(tree, key);
    }

    /// Puts a consumer that can take a message among those that are asked in turn.
    #[inline]
    pub(super) fn enlist(&mut self, tree: &mut Tree, key: ConsumerKey) {
        let Some(consumer) = tree.consumers.get_mut(key) else {
            return;
        };
        if consumer.enlisted || !consumer.is_ready() {
            return;
        }
        let Some(channel) = tree.channels.get_mut(consumer.channel) else {
            return;
        };
        consumer.enlisted = true;
        channel.ready.push_back(key);
        if channel.queue.front().is_some() {
            self.mark_dirty(&mut tree.topics, channel.topic);
        }
    }
}
