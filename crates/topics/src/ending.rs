//! The end of a table: what a stop waits for, since when nothing has moved, and what is lost in the end.
//!
//! Nothing comes in any more, so consumers that finish messages empty their channels, however long that takes; what is
//! limited is the time in which nobody finishes anything. No queue holds its topic up: what waits there fits into the
//! channels, and a channel that nobody consumes is not to cost another one's consumers what is theirs.

use std::time::Duration;

use clock::Instant;
use wire::{ChannelName, TopicName};

use super::channel::{Channel, ChannelKey, Queued};
use super::table::TopicTable;
use super::topic::Topic;

/// Where a stop stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// It waits so long without progress.
    patience: Duration,
    progressed_at: Instant,
    finished: u64,
    /// What hung at consumers that finish nothing was given to others since the last progress.
    was_taken: bool,
}

/// Messages that a topic, or one of its channels, held at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The topic.
    pub topic: TopicName,
    /// The channel; none: in the topic's own queue.
    pub channel: Option<ChannelName>,
    /// Messages that waited, those on their way to another broker that has not confirmed them included.
    pub queued: u64,
    /// Messages that waited for their delay to pass.
    pub deferred: u64,
    /// Messages sent and not finished.
    pub in_flight: u64,
}

impl Loss {
    /// All of them.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.queued + self.deferred + self.in_flight
    }
}

impl TopicTable {
    /// Takes nothing in any more: publishes find [`Published::Gone`](super::Published::Gone), and held publishers are orphans.
    pub fn begin_ending(&mut self, patience: Duration, now: Instant) {
        self.ending = Some(Ending {
            patience,
            progressed_at: now,
            finished: self.finished(),
            was_taken: false,
        });
        for topic in self.topics.values_mut() {
            self.effects.orphans.extend(topic.publishers.held.drain(..));
        }
        for consumer in self.consumers.values_mut() {
            consumer.finished_before = consumer.finish_count;
        }
        // What a full channel held up flows on.
        let keys: Vec<_> = self.topics.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.mark_dirty(key));
    }

    /// Whether there is nothing left that a consumer could be given, or nobody has finished anything for too long. Before it
    /// gives up, messages that hang at consumers which finish nothing go to those of the same channel which do.
    pub fn has_ended(&mut self, now: Instant) -> bool {
        let finished = self.finished();
        let Some(ending) = &mut self.ending else {
            return false;
        };
        if finished != ending.finished {
            ending.finished = finished;
            ending.progressed_at = now;
            ending.was_taken = false;
        }
        let gives_up_at = ending.progressed_at + ending.patience;
        let was_taken = ending.was_taken;
        if !self.could_deliver(gives_up_at) {
            return true;
        }
        if now < gives_up_at {
            return false;
        }
        if was_taken || !self.take_from_idle(now) {
            return true;
        }
        if let Some(ending) = &mut self.ending {
            ending.progressed_at = now;
            ending.was_taken = true;
        }
        false
    }

    /// When nothing more is waited for, as things stand.
    #[must_use]
    pub fn gives_up_at(&self) -> Option<Instant> {
        let ending = self.ending.as_ref()?;
        Some(ending.progressed_at + ending.patience)
    }

    /// What would be lost now. Ephemeral topics and channels are left out: nobody was promised that they keep anything.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let topics = self.topics.iter().map(|(_, topic)| topic);
        let lasting = topics.filter(|topic| !topic.name.is_ephemeral());
        lasting.flat_map(|topic| self.losses_of(topic)).collect()
    }

    fn losses_of(&self, topic: &Topic) -> Vec<Loss> {
        let own = Loss {
            topic: topic.name.clone(),
            channel: None,
            queued: topic.unfinished(),
            deferred: 0,
            in_flight: 0,
        };
        let channels = self.channels_of(topic);
        let lasting = channels.filter(|channel| !channel.name.is_ephemeral());
        let of_channels = lasting.map(|channel| Loss {
            topic: topic.name.clone(),
            channel: Some(channel.name.clone()),
            queued: (channel.depth() + channel.handing.lifted()) as u64,
            deferred: channel.deferred_count() as u64,
            in_flight: channel.in_flight_count() as u64,
        });
        let all = std::iter::once(own).chain(of_channels);
        all.filter(|loss| loss.messages() > 0).collect()
    }

    /// Whether some connected consumer could still be given a message, or finish one, until then.
    fn could_deliver(&self, until: Instant) -> bool {
        let is_served = |channel: &Channel| !channel.consumers.is_empty() && !channel.paused;
        let holds = |channel: &Channel| {
            channel.depth() + channel.in_flight_count() > 0
                || channel.next_due().is_some_and(|due| due <= until)
        };
        self.topics.iter().any(|(_, topic)| {
            let waits = !topic.paused && topic.depth() > 0;
            let mut served = self
                .channels_of(topic)
                .filter(|&channel| is_served(channel));
            served.any(|channel| waits || holds(channel))
        })
    }

    /// Gives what consumers have that finish nothing to those of their channels that do; says whether there was anything.
    fn take_from_idle(&mut self, now: Instant) -> bool {
        let keys: Vec<ChannelKey> = self.channels.iter().map(|(key, _)| key).collect();
        let mut was_any = false;
        for key in keys {
            was_any |= self.take_from_idle_of(key, now);
        }
        was_any
    }

    fn take_from_idle_of(&mut self, key: ChannelKey, now: Instant) -> bool {
        let TopicTable {
            channels,
            consumers,
            ..
        } = self;
        let Some(channel) = channels.get_mut(key) else {
            return false;
        };
        let works = |key| {
            let consumer = consumers.get(key);
            consumer.is_some_and(|each| each.finish_count > each.finished_before)
        };
        let (working, idle): (Vec<_>, Vec<_>) = channel
            .consumers
            .iter()
            .copied()
            .partition(|&key| works(key));
        if working.is_empty() {
            return false;
        }
        let before = channel.queue.len();
        for consumer in idle {
            let Some(consumer) = consumers.get_mut(consumer) else {
                continue;
            };
            consumer.ready_count = 0;
            while let Some(flight) = channel
                .in_flight
                .take_due(&mut consumer.flights, Instant::MAX)
            {
                consumer.in_flight_count -= 1;
                channel.queue.push_back(Queued {
                    message: flight.message,
                    attempts: flight.attempts,
                    since: now,
                });
            }
        }
        let was_any = channel.queue.len() > before;
        let topic = channel.topic;
        self.mark_dirty(topic);
        was_any
    }

    /// Messages that consumers have finished, of all channels that are there.
    fn finished(&self) -> u64 {
        let channels = self.channels.iter();
        channels.map(|(_, channel)| channel.finish_count).sum()
    }
}
