//! Saves queues at a stop: everything in memory goes outside, where there is such a place.
//!
//! A queue consists, from its oldest message on, of what is deferred, in flight or on its way to
//! another broker; its front; what is outside already; and what is behind that. The first gets
//! numbers below those of what is outside, the last gets numbers above, so the next life finds one
//! queue in order. What cannot be written is lost, and counted as by a stop without such a place.

use clock::Instant;

use super::backlog::{Around, Outside};
use super::channel::{Channel, ChannelKey, Queued};
use super::ending::Loss;
use super::segment::{Segment, head_of};
use super::service::Service;
use super::spill::{BacklogOrder, SpilledQueue};
use super::store::{MessageRef, Store};
use super::topic::{Topic, TopicKey};
use super::tree::Tree;

/// Messages in memory, the oldest first.
type Entries = Vec<Entry>;

/// A message that is to be written out.
#[derive(Clone, Copy, Debug)]
struct Entry {
    message: MessageRef,
    since: Instant,
    attempts: u16,
    state: State,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Deferred(Instant),
    InFlight,
}

/// Where messages go.
pub(super) struct Saver<'a, F> {
    pub(super) store: &'a mut Store,
    /// Carries an order out; says whether a segment is kept.
    pub(super) give: F,
    pub(super) now: Instant,
}

/// Has a topic's own queue, or one of its channels, take up what it had outside. False where that keeps nothing outside.
pub(super) fn restore(
    topic: &mut Topic,
    channel: Option<&mut Channel>,
    segments: &[Outside],
) -> bool {
    let messages: u64 = segments.iter().map(|each| each.messages as u64).sum();
    let all = segments.iter().copied();
    if let Some(channel) = channel {
        let is_kept = channel.queue.restore(all);
        channel.restored_count += if is_kept { messages } else { 0 };
        return is_kept;
    }
    let is_kept = topic.waiting.queue.restore(all);
    if is_kept {
        topic.counts.restored += messages;
        topic.waiting.bytes += segments.iter().map(|each| each.bytes).sum::<u64>();
    }
    is_kept
}

impl<F: FnMut(BacklogOrder) -> bool> Saver<'_, F> {
    /// Writes out what all topics and their channels have but those whose messages are in logs; gives what is lost.
    pub(super) fn save_all(
        &mut self,
        tree: &mut Tree,
        mut service: Option<&mut Service>,
    ) -> Vec<Loss> {
        let mut losses = Vec::new();
        for slot in 0..tree.topics.slots() {
            let Some(key) = tree.topics.key_at(slot) else {
                continue;
            };
            if let Some(topic) = tree.topics.get_mut(key).filter(|topic| topic.log.is_none()) {
                topic.waiting.sort_in(service.as_deref_mut(), self.store);
                losses.extend(self.save(tree, key));
            }
        }
        losses
    }

    /// Writes out what a topic and its channels have; gives what is lost.
    fn save(&mut self, tree: &mut Tree, key: TopicKey) -> Vec<Loss> {
        let Some(topic) = tree
            .topics
            .get_mut(key)
            .filter(|each| !each.name.is_ephemeral())
        else {
            return Vec::new();
        };
        let mut losses = vec![self.save_own(topic, key)];
        for channel in topic.channels.clone() {
            losses.extend(self.save_channel(tree, key, channel));
        }
        losses.retain(|loss| loss.messages() > 0);
        losses
    }

    fn save_own(&mut self, topic: &mut Topic, key: TopicKey) -> Loss {
        let queue = topic.spilled(key);
        let lifted = topic.handing.take_lifted();
        let mut older: Entries = lifted.map(Entry::of_lifted).collect();
        self.forget(&queue, topic.waiting.queue.stop_writing());
        let (front, behind) = topic.waiting.queue.take_around();
        let store = &*self.store;
        let entry = |message: MessageRef| Entry {
            message,
            since: store.get(message).arrival.read,
            attempts: 0,
            state: State::Queued,
        };
        older.extend(front.into_iter().map(entry));
        let younger: Entries = behind.into_iter().map(entry).collect();
        let around = topic.waiting.queue.around(older.len());
        self.write(&queue, around, older, younger)
    }

    fn save_channel(
        &mut self,
        tree: &mut Tree,
        key: TopicKey,
        channel: ChannelKey,
    ) -> Option<Loss> {
        let mut older = self.take_from_consumers(tree, channel);
        let topic = tree.topics.get(key)?;
        let owner = tree.channels.get_mut(channel)?;
        if owner.name.is_ephemeral() {
            return None;
        }
        let queue = owner.spilled(channel, topic);
        let deferred = std::mem::take(&mut owner.deferred).into_sorted_vec();
        let deferred = deferred.into_iter().rev().map(|deferred| Entry {
            message: deferred.0.message,
            since: deferred.0.due,
            attempts: deferred.0.attempts,
            state: State::Deferred(deferred.0.due),
        });
        let mut entries: Entries = deferred.collect();
        entries.append(&mut older);
        entries.extend(owner.handing.take_lifted().map(Entry::of_lifted));
        self.forget(&queue, owner.queue.stop_writing());
        let (front, behind) = owner.queue.take_around();
        entries.extend(front.into_iter().map(Entry::of_queued));
        let younger: Entries = behind.into_iter().map(Entry::of_queued).collect();
        let around = owner.queue.around(entries.len());
        Some(self.write(&queue, around, entries, younger))
    }

    /// The messages that a channel's consumers have, in order of arrival.
    fn take_from_consumers(&mut self, tree: &mut Tree, channel: ChannelKey) -> Entries {
        let mut entries = Entries::new();
        let Some(owner) = tree.channels.get_mut(channel) else {
            return entries;
        };
        for &consumer in &owner.consumers {
            let Some(consumer) = tree.consumers.get_mut(consumer) else {
                continue;
            };
            while let Some(flight) = owner
                .in_flight
                .take_due(&mut consumer.flights, Instant::MAX)
            {
                entries.push(Entry {
                    message: flight.message,
                    since: self.now,
                    attempts: flight.attempts,
                    state: State::InFlight,
                });
            }
        }
        entries.sort_by_key(|entry| self.store.get(entry.message).id);
        entries
    }

    /// A segment on its way out may be outside by now; its messages are written with the others.
    fn forget(&mut self, queue: &SpilledQueue, number: Option<u64>) {
        if let Some(number) = number {
            (self.give)(BacklogOrder::Forget(queue.clone(), number));
        }
    }

    fn write(
        &mut self,
        queue: &SpilledQueue,
        around: Option<Around>,
        older: Entries,
        younger: Entries,
    ) -> Loss {
        let mut loss = Loss {
            topic: queue.name.topic.clone(),
            channel: queue.name.channel.clone(),
            queued: 0,
            deferred: 0,
            in_flight: 0,
        };
        let Some(around) = around else {
            older
                .iter()
                .chain(&younger)
                .for_each(|entry| loss.count(entry));
            return loss;
        };
        let runs = [(around.older_from, older), (around.younger_from, younger)];
        for (mut number, entries) in runs {
            let mut rest = entries.as_slice();
            while !rest.is_empty() {
                let (segment, count) = self.fill(rest, &around);
                let (written, behind) = rest.split_at(count);
                if !(self.give)(BacklogOrder::Write(queue.clone(), number, segment)) {
                    written.iter().for_each(|entry| loss.count(entry));
                }
                for entry in written {
                    self.store.release(entry.message);
                }
                number += 1;
                rest = behind;
            }
        }
        loss
    }

    /// A segment of the first of `entries`, and how many they are.
    fn fill(&self, entries: &[Entry], around: &Around) -> (Segment, usize) {
        let mut segment = Segment::default();
        let (mut count, mut bytes) = (0, 0);
        for entry in entries {
            let message = self.store.get(entry.message);
            let mut head = head_of(message, (entry.since, entry.attempts));
            if let State::Deferred(due) = entry.state {
                head.due = due;
            }
            segment.push(head, &message.body);
            count += 1;
            bytes += message.body.len() as u64;
            if count >= around.messages_max || bytes >= around.bytes_max {
                break;
            }
        }
        (segment, count)
    }
}

impl Entry {
    fn of_queued(queued: Queued) -> Entry {
        Entry {
            message: queued.message,
            since: queued.since,
            attempts: queued.attempts,
            state: State::Queued,
        }
    }

    fn of_lifted(
        (message, since, attempts, due): (MessageRef, Instant, u16, Option<Instant>),
    ) -> Entry {
        Entry {
            message,
            since,
            attempts,
            state: due.map_or(State::Queued, State::Deferred),
        }
    }
}

impl Loss {
    fn count(&mut self, entry: &Entry) {
        match entry.state {
            State::Queued => self.queued += 1,
            State::Deferred(_) => self.deferred += 1,
            State::InFlight => self.in_flight += 1,
        }
    }
}
