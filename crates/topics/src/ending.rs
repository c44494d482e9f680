//! The end of a table: what a stop waits for, since when nothing has moved, and what is lost in the
//! end.
//!
//! Nothing comes in any more, so consumers that finish messages empty their channels, however long
//! that takes; limited is the time in which nobody finishes anything. No queue holds its topic up:
//! its messages fit into the channels, and a channel without consumers must not cost the consumers
//! of another one their messages.
//!
//! Where there is a place outside of memory, messages are kept there ([`save`](super::save)) instead of being delivered: what is waited for
//! is then only what consumers have in flight, and what is ephemeral, and the time for that is limited in all: nothing is lost where it
//! passes, and who stops a broker knows how long it takes.

use std::time::Duration;

use clock::Instant;
use wire::{ChannelName, TopicName};

use super::agenda::Agenda;
use super::channel::{Channel, ChannelKey, Queued};
use super::consumer::{Consumer, ConsumerKey};
use super::effects::Effects;
use super::topic::Topic;
use super::tree::Tree;
use crate::arena::Arena;

/// Where a stop stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// It waits so long without progress; where what is left is kept, so long in all.
    patience: Duration,
    began: Instant,
    progressed_at: Instant,
    finished: u64,
    /// What hung at consumers that finish nothing was given to others since the last progress.
    was_taken: bool,
    /// The rest is kept, except for ephemeral messages.
    is_kept: bool,
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

impl Ending {
    /// It begins: publishers that wait are without a topic, and what full channels held up flows on.
    pub(super) fn begin(
        tree: &mut Tree,
        agenda: &mut Agenda,
        effects: &mut Effects,
        (patience, is_kept): (Duration, bool),
        now: Instant,
    ) -> Ending {
        for topic in tree.topics.values_mut() {
            effects
                .without_topic
                .extend(topic.publishers.waiting.drain(..));
        }
        for consumer in tree.consumers.values_mut() {
            consumer.finished_before = consumer.finish_count;
            if is_kept && is_kept_in(&tree.topics, &tree.channels, consumer.channel) {
                consumer.ready_count = 0;
            }
        }
        for slot in 0..tree.topics.slots() {
            if let Some(key) = tree.topics.key_at(slot) {
                agenda.mark_dirty(&mut tree.topics, key);
            }
        }
        Ending {
            patience,
            began: now,
            progressed_at: now,
            finished: finished(tree),
            was_taken: false,
            is_kept,
        }
    }

    /// Whether a consumer is given nothing any more, because what it would get is kept.
    pub(super) fn keeps(&self, tree: &Tree, consumer: ConsumerKey) -> bool {
        let consumer = tree.consumers.get(consumer).filter(|_| self.is_kept);
        consumer.is_some_and(|each| is_kept_in(&tree.topics, &tree.channels, each.channel))
    }

    /// Whether there is nothing left that a consumer could be given, or nobody has finished anything for too long. Before it
    /// gives up, messages that hang at consumers which finish nothing go to those of the same channel which do.
    pub(super) fn has_ended(&mut self, tree: &mut Tree, agenda: &mut Agenda, now: Instant) -> bool {
        let finished = finished(tree);
        if finished != self.finished {
            self.finished = finished;
            self.progressed_at = now;
            self.was_taken = false;
        }
        let gives_up_at = self.gives_up_at();
        if !could_deliver(tree, self.is_kept, gives_up_at) {
            return true;
        }
        if now < gives_up_at {
            return false;
        }
        if self.was_taken || self.is_kept || !take_from_idle(tree, agenda, now) {
            return true;
        }
        self.progressed_at = now;
        self.was_taken = true;
        false
    }

    /// When nothing more is waited for, as things stand.
    pub(super) fn gives_up_at(&self) -> Instant {
        let since = if self.is_kept {
            self.began
        } else {
            self.progressed_at
        };
        since + self.patience
    }
}

/// What would be lost now.
pub(super) fn losses(tree: &Tree) -> Vec<Loss> {
    let topics = tree.topics.iter().map(|(_, topic)| topic);
    let lasting = topics.filter(|topic| !topic.name.is_ephemeral());
    lasting.flat_map(|topic| losses_of(tree, topic)).collect()
}

fn losses_of(tree: &Tree, topic: &Topic) -> Vec<Loss> {
    let own = Loss {
        topic: topic.name.clone(),
        channel: None,
        queued: topic.unfinished(),
        deferred: 0,
        in_flight: 0,
    };
    let channels = tree.channels_of(topic);
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

/// Whether a channel and its topic are to be there after a restart.
fn is_kept_in(topics: &Arena<Topic>, channels: &Arena<Channel>, key: ChannelKey) -> bool {
    channels.get(key).is_some_and(|channel| {
        let topic = topics.get(channel.topic);
        !channel.name.is_ephemeral() && topic.is_some_and(|topic| !topic.name.is_ephemeral())
    })
}

/// Whether some connected consumer could still be given a message, or finish one, until then.
fn could_deliver(tree: &Tree, is_kept: bool, until: Instant) -> bool {
    let is_served = |channel: &Channel| !channel.consumers.is_empty() && !channel.paused;
    let holds = |channel: &Channel| {
        channel.depth() > 0 || channel.next_due().is_some_and(|due| due <= until)
    };
    tree.topics.iter().any(|(_, topic)| {
        let waits = !topic.paused && topic.depth() > 0;
        let mut served = tree
            .channels_of(topic)
            .filter(|&channel| is_served(channel));
        served.any(|channel| {
            let is_ephemeral = topic.name.is_ephemeral() || channel.name.is_ephemeral();
            let gives = !is_kept || is_ephemeral;
            channel.in_flight_count() > 0 || gives && (waits || holds(channel))
        })
    })
}

/// Gives what consumers have that finish nothing to those of their channels that do; says whether there was anything.
fn take_from_idle(tree: &mut Tree, agenda: &mut Agenda, now: Instant) -> bool {
    let Tree {
        topics,
        channels,
        consumers,
        ..
    } = tree;
    let mut was_any = false;
    for channel in channels.values_mut() {
        if let Some(moved) = take_from_idle_of(channel, consumers, now) {
            was_any |= moved > 0;
            agenda.mark_dirty(topics, channel.topic);
        }
    }
    was_any
}

/// How many messages of a channel went back to its queue; nothing where none of its consumers works.
fn take_from_idle_of(
    channel: &mut Channel,
    consumers: &mut Arena<Consumer>,
    now: Instant,
) -> Option<usize> {
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
        return None;
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
    Some(channel.queue.len() - before)
}

/// Messages that consumers have finished, of all channels that are there.
fn finished(tree: &Tree) -> u64 {
    let channels = tree.channels.iter();
    channels.map(|(_, channel)| channel.finish_count).sum()
}
