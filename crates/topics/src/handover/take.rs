//! The incoming side: batches of another broker's queue.

use clock::Instant;
use wire::ChannelName;

use super::{Handed, QueueName};
use crate::bounds::Bounds;
use crate::channel::{Channel, Queued};
use crate::log::{LoggedStanding, TopicLog, UNLOGGED};
use crate::publish::Intake;
use crate::refusal::Refusal;
use crate::store::{Arrival, MessageRef, Store};
use crate::topic::{Topic, TopicKey};
use crate::waiting::Fresh;

/// A batch for a queue here, numbered within its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whose batches these are.
    pub stream: u64,
    /// Which of them; one that was taken is not taken again.
    pub number: u64,
    /// The messages in order.
    pub messages: Vec<Handed>,
}

/// Why a batch is not taken. Nothing of it is, then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The queue has no room for all of it.
    #[error("the queue has no room for {0} messages")]
    Full(usize),
    /// Ephemeral queues are where their consumers are.
    #[error("an ephemeral queue is not handed over")]
    Ephemeral,
    /// The controller tells every broker that has the topic which channels there are. One that is not known here was deleted, or is
    /// yet to be told: made by a batch, it would come back everywhere.
    #[error(
        "the channel is not known here: it was deleted, or this broker has not been told of it yet"
    )]
    Unknown,
    /// Topic or channel cannot be made.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Whether a queue is where its consumers are.
pub(crate) fn is_ephemeral(queue: &QueueName) -> bool {
    let channel = queue.channel.as_ref();
    channel.is_some_and(ChannelName::is_ephemeral) || queue.topic.is_ephemeral()
}

/// Takes a batch into a topic's own queue, all of it or nothing; one that was taken is not taken twice.
pub(crate) fn take_over_topic(
    (key, topic): (TopicKey, &mut Topic),
    batch: &Batch,
    intake: &mut Intake,
    store: &mut Store,
    bounds: &Bounds,
    now: Instant,
) -> Result<(), NotTaken> {
    let count = batch.messages.len();
    if topic.is_full_for(count, bounds.mem_queue_size) {
        return Err(NotTaken::Full(count));
    }
    if !topic.handing.begins(batch.stream, batch.number) {
        return Ok(());
    }
    topic.handing.taken += count as u64;
    let delays = topic.limiter.as_ref().map(|limiter| limiter.delays());
    let is_sorted = delays == Some(true) || intake.service.is_some();
    for handed in &batch.messages {
        let id = intake.ids.next();
        let message = insert(store, (key, id), handed, now);
        // Refused or dropped it would be lost: its publisher has its OK.
        store.get_mut(message).has_paid = handed.has_paid || delays == Some(false);
        topic.waiting.bytes += handed.body.len() as u64;
        if let Some(log) = &mut topic.log {
            log.append(store.get(message));
        }
        match is_sorted {
            true => topic.waiting.fresh.push(Fresh {
                at: now,
                id,
                message,
                is_first: true,
            }),
            false => topic.waiting.queue.push_back(message),
        }
    }
    Ok(())
}

/// The same of a channel, which is to be woken at the instants that `wake` is given.
pub(crate) fn take_over_channel(
    (channel, mut log): (&mut Channel, Option<&mut TopicLog>),
    batch: &Batch,
    intake: &mut Intake,
    store: &mut Store,
    bounds: &Bounds,
    now: Instant,
    mut wake: impl FnMut(Instant),
) -> Result<(), NotTaken> {
    let count = batch.messages.len();
    if !channel.has_room_for(&batch.messages, bounds) {
        return Err(NotTaken::Full(count));
    }
    if !channel.handing.begins(batch.stream, batch.number) {
        return Ok(());
    }
    channel.handing.taken += count as u64;
    for handed in &batch.messages {
        let message = insert(store, (channel.topic, intake.ids.next()), handed, now);
        let due = store.get(message).due;
        if let Some(log) = log.as_mut().filter(|_| channel.log_number != UNLOGGED) {
            let standing = LoggedStanding {
                queue: channel.log_number,
                attempts: handed.attempts,
                due: (due > now).then_some(due),
            };
            log.push(store.get(message), &[standing]);
        }
        if due <= now {
            channel.queue.push_back(Queued {
                message,
                attempts: handed.attempts,
                since: now,
            });
        } else if let Some(at) = channel.defer(message, handed.attempts, due) {
            wake(at);
        }
    }
    Ok(())
}

fn insert(
    store: &mut Store,
    (topic, id): (TopicKey, u64),
    handed: &Handed,
    now: Instant,
) -> MessageRef {
    let arrival = Arrival {
        at: now,
        wall_ns: handed.published_ns,
        read: now,
        half_rtt_us: 0,
        flow: 0,
    };
    let message = store.insert(topic.slot(), id, arrival, now + handed.delay, &handed.body);
    store.get_mut(message).released = now;
    message
}
