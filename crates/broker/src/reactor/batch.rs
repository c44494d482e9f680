//! Publishes to topics of other reactors: gathered per topic and turn, answered per batch.
//!
//! A connection has at most [`IN_TRANSIT_MAX`] commands under way, or [`IN_TRANSIT_BYTES`] plus one
//! command; then it is not read until some are settled. That bounds what may wait at the home
//! reactor.
//!
//! The topic's task here is charged for reading and answering, its task at home for publishing: a
//! batch is carried out in that task's turns, a piece at a time while topics compete.

use std::sync::Arc;
use std::time::Duration;

use topics::{Arrival, Published, Source, TopicKey};

use super::durable::{CommandUnderWay, Undurable};
use super::execute::Continuation;
use super::inbox::{Mail, Progress, PublishBatch, PublishItem, Settled};
use super::publish::Origin;
use super::publishers::name_of;
use super::read::read_bytes_max;
use super::relay::Relay;
use super::waiting::WaitingPublish;
use crate::connection::{ConnectionKey, Pause};
use crate::session::{Deed, Failure};

/// Publish commands of one connection that may be on their way to other reactors.
pub(super) const IN_TRANSIT_MAX: u32 = 256;

/// With this many bytes of bodies no further one is added.
pub(super) const IN_TRANSIT_BYTES: usize = 1024 * 1024;

/// What a command counts for besides its bodies when a piece of a batch is measured.
const ITEM_BYTES: usize = 64;

/// Commands that are settled in one go while topics compete.
const SETTLED_SHARED_MAX: usize = 64;

/// What is remembered of a command that travelled to another reactor.
struct TravelledCommand {
    messages: u32,
    /// Of their bodies.
    bytes: usize,
    delay: Duration,
}

impl Relay<'_> {
    /// Adds a publish to the topic's batch for the reactor that owns it.
    pub(super) fn send_to_home<'a>(
        &mut self,
        key: ConnectionKey,
        home: usize,
        bodies: impl Iterator<Item = &'a [u8]>,
        arrival: Arrival,
        delay: Duration,
    ) -> Continuation {
        let Some(connection) = self.hall.peers.connections.get_mut(key) else {
            return Continuation::End;
        };
        let is_much = connection.in_transit_bytes >= IN_TRANSIT_BYTES;
        if connection.in_transit >= IN_TRANSIT_MAX || is_much {
            self.hall.peers.pause(key, Pause::InTransit);
            return Continuation::Wait;
        }
        connection.in_transit += 1;
        let Some(published) = &connection.publishing else {
            return Continuation::End;
        };
        let task = self.hall.topics.schedule.task_at(key);
        let batch = self
            .hall
            .post
            .batches
            .of(task, &published.name, home, self.hall.post.number);
        let (mut messages, mut length) = (0, 0);
        for body in bodies {
            messages += 1;
            length += body.len();
            batch.bytes.extend_from_slice(body);
            batch.lengths.push(body.len() as u32);
        }
        let declared = connection
            .declared
            .as_ref()
            .filter(|_| published.is_declared);
        batch.items.push(PublishItem {
            connection: key.to_bits(),
            publisher: declared.map(|declared| Arc::clone(&declared.declaration)),
            peer: connection.peer,
            messages,
            arrival,
            delay,
            outcome: Published::Full,
            wait: None,
        });
        connection.in_transit_bytes += length;
        self.hall.peers.memory.input.change(0, length);
        Continuation::Next
    }

    /// At the home reactor: publishes a piece of a batch. One that is done goes back with its outcomes; one that is not is
    /// given back.
    pub(super) fn publish_batch(
        &mut self,
        mut batch: Box<PublishBatch>,
    ) -> Option<Box<PublishBatch>> {
        let mut known = self.hall.topics.table.find(batch.topic.as_str());
        let mut left = read_bytes_max(self.hall);
        while batch.done.items < batch.items.len() {
            if left == 0 {
                return Some(batch);
            }
            let bytes = self.publish_item(&mut batch, &mut known);
            left = left.saturating_sub(bytes + ITEM_BYTES);
        }
        batch.done = Progress::default();
        self.hall.post.send(batch.from, Mail::Answered(batch));
        None
    }

    /// Publishes the next command of a batch; gives the bytes of its bodies.
    fn publish_item(&mut self, batch: &mut PublishBatch, known: &mut Option<TopicKey>) -> usize {
        let Progress {
            items,
            lengths,
            bytes,
        } = batch.done;
        let item = &batch.items[items];
        let of_item = &batch.lengths[lengths..lengths + item.messages as usize];
        let length: usize = of_item.iter().map(|&length| length as usize).sum();
        let bodies = of_item.iter().scan(bytes, |start, &length| {
            let body = &batch.bytes[*start..*start + length as usize];
            *start += length as usize;
            Some(body)
        });
        let (topic, arrival, delay) = (batch.topic.as_str(), item.arrival, item.delay);
        let (key, outcome) = self.publish_here(
            *known,
            topic,
            Origin::Peer(item.peer),
            bodies,
            arrival,
            delay,
        );
        *known = Some(key);
        match outcome {
            Published::Full => {
                let remote = WaitingPublish::Remote(Box::new(batch.detach()));
                self.hall.topics.note_full(key);
                self.hall.topics.keep_waiting(key, remote, false);
            }
            Published::Accepted => self.note_item(key, batch.from, item),
            Published::Logged(number) => {
                self.note_item(key, batch.from, item);
                let settled = Settled {
                    task: batch.task,
                    connection: item.connection,
                    messages: item.messages,
                    delay,
                    bytes: length,
                    outcome: Published::Accepted,
                };
                let waiter = Undurable::Away(batch.from, settled);
                self.hall.topics.waiters.push(key, number, waiter);
            }
            Published::Refused(_) | Published::Gone => {}
        }
        let item = &mut batch.items[items];
        if item.publisher.is_some() {
            item.wait = self
                .hall
                .publishers()
                .wait_to_tell(key, outcome == Published::Full);
        }
        item.outcome = outcome;
        batch.done = Progress {
            items: items + 1,
            lengths: lengths + item.messages as usize,
            bytes: bytes + length,
        };
        length
    }

    fn note_item(&mut self, topic: TopicKey, from: usize, item: &PublishItem) {
        let source = Source {
            reactor: from,
            connection: item.connection,
            is_declared: item.publisher.is_some(),
        };
        let name = || name_of(item.publisher.as_deref(), item.peer);
        self.hall
            .topics
            .table
            .note_source(topic, source, item.messages, &item.arrival, name);
    }

    /// Back at the connection's reactor: tells the publishers the outcome of a batch. While topics
    /// compete a piece of it is done, and the rest given back.
    pub(super) fn settle_batch(
        &mut self,
        mut batch: Box<PublishBatch>,
    ) -> Option<Box<PublishBatch>> {
        let items_max = match self.hall.topics.schedule.is_shared(self.hall.time.now) {
            true => SETTLED_SHARED_MAX,
            false => usize::MAX,
        };
        let Progress {
            items: first,
            mut lengths,
            ..
        } = batch.done;
        let end = first.saturating_add(items_max).min(batch.items.len());
        for number in first..end {
            let item = &mut batch.items[number];
            let key = ConnectionKey::from_bits(item.connection);
            let (messages, delay, wait) = (item.messages, item.delay, item.wait);
            let of_item = &batch.lengths[lengths..lengths + messages as usize];
            let length = of_item.iter().map(|&length| length as usize).sum();
            lengths += messages as usize;
            let outcome = std::mem::replace(&mut item.outcome, Published::Full);
            if let Some(wait) = wait {
                self.hall
                    .peers
                    .send_throttled(key, wait, self.hall.time.now);
            }
            if outcome == Published::Full {
                continue;
            }
            if matches!(outcome, Published::Accepted | Published::Logged(_))
                && let Some(connection) = self.hall.peers.connections.get_mut(key)
            {
                connection.count_published(batch.topic.as_str(), messages);
            }
            if matches!(outcome, Published::Logged(_)) {
                // It is settled once it is durable.
                continue;
            }
            let command = TravelledCommand {
                messages,
                bytes: length,
                delay,
            };
            self.settle(key, &command, outcome);
        }
        (batch.done.items, batch.done.lengths) = (end, lengths);
        if end < batch.items.len() {
            return Some(batch);
        }
        // What it holds of publishers must not outlive them.
        batch.items.clear();
        self.hall.post.batches.keep(batch);
        None
    }

    /// Tells one publisher the outcome of a command that had to wait at home.
    pub(super) fn settle_one(&mut self, settled: Settled) {
        let key = ConnectionKey::from_bits(settled.connection);
        let command = TravelledCommand {
            messages: settled.messages,
            bytes: settled.bytes,
            delay: settled.delay,
        };
        self.settle(key, &command, settled.outcome);
    }

    /// Tells one publisher of this reactor that its command is durable.
    pub(super) fn settle_here(&mut self, command: &CommandUnderWay) {
        let travelled = TravelledCommand {
            messages: command.messages,
            bytes: command.bytes,
            delay: command.delay,
        };
        self.settle(command.connection, &travelled, Published::Accepted);
    }

    /// Tells one publisher what became of a command that had travelled, or had to become durable.
    fn settle(&mut self, key: ConnectionKey, command: &TravelledCommand, outcome: Published) {
        let &TravelledCommand {
            messages,
            bytes,
            delay,
        } = command;
        self.hall.peers.memory.input.change(bytes, 0);
        let Some(connection) = self.hall.peers.connections.get_mut(key) else {
            return;
        };
        connection.in_transit -= 1;
        connection.in_transit_bytes -= bytes;
        match outcome {
            Published::Accepted | Published::Logged(_) => {
                self.hall
                    .peers
                    .acknowledge(key, messages, self.hall.time.now)
            }
            Published::Refused(reason) => {
                self.hall
                    .fail(key, &Failure::Refused(deed_of(delay), reason));
            }
            Published::Gone | Published::Full => {
                self.hall.refuse_exiting(key, deed_of(delay));
            }
        }
        self.hall.peers.let_go_on_in_transit(
            key,
            &mut self.hall.topics.schedule,
            self.hall.time.now,
        );
    }
}

/// The kind of a command that travelled; a batch of messages is told like a single one.
fn deed_of(delay: Duration) -> Deed {
    match delay.is_zero() {
        true => Deed::Publish,
        false => Deed::PublishLater,
    }
}
