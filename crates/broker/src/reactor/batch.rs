//! Publishes to topics of other reactors: gathered per turn, answered per batch.
//!
//! A connection has at most [`IN_TRANSIT_MAX`] commands under way; then it is not read from until
//! some are settled. That bounds what may wait at the home reactor.

use std::sync::Arc;
use std::time::Duration;

use super::Reactor;
use super::inbox::{Mail, PublishBatch, PublishItem, Settled};
use super::publishers::name_of;
use super::read::Flow;
use crate::connection::{ConnectionKey, Pause};
use crate::topic::{Arrival, Held, Published, Source, TopicKey};

/// Publish commands of one connection that may be on their way to other reactors.
const IN_TRANSIT_MAX: u32 = 256;

/// Batches kept for use again.
const SPARE_BATCHES: usize = 8;

impl Reactor {
    /// Adds a publish to the batch for the reactor that owns the topic.
    pub(super) fn send_to_home<'a>(
        &mut self,
        key: ConnectionKey,
        home: usize,
        bodies: impl Iterator<Item = &'a [u8]>,
        arrival: Arrival,
        delay: Duration,
    ) -> Flow {
        let Some(connection) = self.connections.get_mut(key) else {
            return Flow::End;
        };
        if connection.in_transit >= IN_TRANSIT_MAX {
            self.pause(key, Pause::InTransit);
            return Flow::Wait;
        }
        connection.in_transit += 1;
        let Some(published) = &connection.publishing else {
            return Flow::End;
        };
        let batch =
            self.batches[home].get_or_insert_with(|| self.spare_batches.pop().unwrap_or_default());
        batch.from = self.number;
        let mut messages = 0;
        for body in bodies {
            messages += 1;
            batch.bytes.extend_from_slice(body);
            batch.lengths.push(body.len() as u32);
        }
        let announced = connection
            .announced
            .as_ref()
            .filter(|_| published.is_announced);
        batch.items.push(PublishItem {
            topic: published.name.clone(),
            connection: key.to_bits(),
            publisher: announced.map(|announced| Arc::clone(&announced.announcement)),
            peer: connection.peer,
            messages,
            arrival,
            delay,
            outcome: Published::Full,
            wait: None,
        });
        Flow::Next
    }

    /// At the home reactor: publishes a batch and sends it back with its outcomes.
    pub(super) fn publish_batch(&mut self, mut batch: Box<PublishBatch>) {
        let (mut first_length, mut first_byte) = (0, 0);
        for number in 0..batch.items.len() {
            let item = &batch.items[number];
            let lengths = &batch.lengths[first_length..first_length + item.messages as usize];
            let bytes: usize = lengths.iter().map(|&length| length as usize).sum();
            let bodies = lengths.iter().scan(first_byte, |start, &length| {
                let body = &batch.bytes[*start..*start + length as usize];
                *start += length as usize;
                Some(body)
            });
            let (topic, arrival, delay) = (item.topic.as_str(), item.arrival, item.delay);
            let (key, outcome) = self.publish_here(None, topic, None, bodies, arrival, delay);
            match outcome {
                Published::Full => {
                    let remote = batch.detach(number, first_length, first_byte);
                    self.table.hold(key, Held::Remote(Box::new(remote)), false);
                }
                Published::Accepted => self.note_item(key, batch.from, &batch.items[number]),
                Published::Refused(_) | Published::Gone => {}
            }
            let item = &mut batch.items[number];
            first_length += item.messages as usize;
            first_byte += bytes;
            if item.publisher.is_some() {
                item.wait = self.wait_to_tell(key, outcome == Published::Full);
            }
            item.outcome = outcome;
        }
        let from = batch.from;
        self.outboxes[from].push(Mail::Answered(batch));
    }

    fn note_item(&mut self, topic: TopicKey, from: usize, item: &PublishItem) {
        let source = Source {
            reactor: from,
            connection: item.connection,
            is_announced: item.publisher.is_some(),
        };
        let name = || name_of(item.publisher.as_deref(), item.peer);
        self.table
            .note_source(topic, source, item.messages, &item.arrival, name);
    }

    /// Back at the connection's reactor: tells the publishers what became of a batch.
    pub(super) fn settle_batch(&mut self, mut batch: Box<PublishBatch>) {
        for item in batch.items.drain(..) {
            if let Some(wait) = item.wait {
                self.send_throttled(ConnectionKey::from_bits(item.connection), wait);
            }
            if item.outcome != Published::Full {
                let key = ConnectionKey::from_bits(item.connection);
                if item.outcome == Published::Accepted
                    && let Some(connection) = self.connections.get_mut(key)
                {
                    connection.count_published(item.topic.as_str(), item.messages);
                }
                self.settle(Settled {
                    connection: item.connection,
                    messages: item.messages,
                    outcome: item.outcome,
                });
            }
        }
        batch.clear();
        if self.spare_batches.len() < SPARE_BATCHES {
            self.spare_batches.push(batch);
        }
    }

    /// Tells one publisher what became of a command that had travelled.
    pub(super) fn settle(&mut self, settled: Settled) {
        let key = ConnectionKey::from_bits(settled.connection);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.in_transit -= 1;
        let waits = connection.pause == Pause::InTransit;
        match settled.outcome {
            Published::Accepted => self.acknowledge(key, settled.messages),
            Published::Refused(_) if !self.speaks_nsq(key) => {}
            Published::Refused(reason) => self.fail(key, &wire::ProtocolError::pub_failed(&reason)),
            Published::Gone | Published::Full => {
                self.fail(key, &wire::ProtocolError::pub_failed("exiting"));
            }
        }
        // Half the window again, so that a pause is not undone for a single command.
        let few = self
            .connections
            .get(key)
            .is_some_and(|connection| connection.in_transit <= IN_TRANSIT_MAX / 2);
        let moves = self
            .connections
            .get(key)
            .is_some_and(|connection| connection.in_transit == 0);
        if waits && (few || moves) {
            self.let_go_on(key);
        }
    }
}
