//! From a publisher into a topic's queue: bodies become messages.

use std::time::Duration;

use clock::Instant;

use super::latency::{Stage, StageHistograms};
use super::limiter::TopicLimiter;
use super::message_id::MessageIds;
use super::service::Service;
use super::store::{Arrival, Store};
use super::topic::{Topic, TopicKey};
use super::traffic::Asked;
use super::waiting::Fresh;

/// The outcome of a publish command. All of its messages share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// In the queue (or dropped, where the contract or an ephemeral queue says so): answer OK.
    Accepted,
    /// The same in a durable topic: answer OK once the batch of that number is durable.
    Logged(u64),
    /// No room: hold the publisher back and try again.
    Full,
    /// Refused by a limit with `reject`; the text says by what and what to do.
    Refused(String),
    /// The topic is gone, or the broker stops.
    Gone,
}

/// The answer to a publish command that is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) arrival: Arrival,
    /// Time before consumers get its messages.
    pub(super) delay: Duration,
    /// It is judged as of now.
    pub(super) now: Instant,
    /// The queue is full and drops what comes.
    pub(super) is_full: bool,
}

/// Gives messages their ids, and has an emulated service take them.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) ids: MessageIds,
    pub(super) service: Option<Service>,
}

impl Intake {
    /// Puts the messages of a command into a topic's queue, but for those that its limit, or a full ephemeral queue, drops; counts
    /// these in `asked`.
    pub(super) fn accept<'a>(
        &mut self,
        (key, topic): (TopicKey, &mut Topic),
        store: &mut Store,
        bodies: impl Iterator<Item = &'a [u8]>,
        command: &Command,
        asked: &mut Asked,
    ) {
        let Command { arrival, now, .. } = *command;
        topic.counts.messages += asked.messages;
        topic.counts.bytes += asked.bytes;
        let latency = topic
            .observed
            .latency
            .get_or_insert_with(StageHistograms::default);
        latency.record(
            Stage::Read,
            arrival.read - arrival.at,
            asked.messages as u32,
        );
        let mut is_first = true;
        for body in bodies {
            if command.is_full || topic.exceeds(&arrival, body, now) {
                topic.counts.dropped += 1;
                asked.refused_messages += 1;
                asked.refused_bytes += body.len() as u64;
                continue;
            }
            let id = self.ids.next();
            let due = arrival.read + command.delay;
            let message = store.insert(key.slot(), id, arrival, due, body);
            topic.waiting.bytes += body.len() as u64;
            let delays = topic.limiter.as_ref().map(TopicLimiter::delays);
            store.get_mut(message).has_paid = delays == Some(false);
            if let Some(log) = &mut topic.log {
                log.append(store.get(message));
            }
            if delays == Some(true) || self.service.is_some() {
                topic.waiting.fresh.push(Fresh {
                    at: arrival.at,
                    id,
                    message,
                    is_first: std::mem::take(&mut is_first),
                });
            } else {
                topic.waiting.queue.push_back(message);
            }
        }
    }
}
