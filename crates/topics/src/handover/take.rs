//! What comes: batches of another broker's queue.

use clock::Instant;
use wire::ChannelName;

use super::{Handed, QueueName};
use crate::channel::{Channel, Queued};
use crate::queue;
use crate::refusal::Refusal;
use crate::store::{Arrival, MessageRef, Store};
use crate::table::{Bounds, Target, TopicKey, TopicTable};
use crate::topic::Fresh;
use crate::traffic::Traffic;

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
    /// Topic or channel cannot be made.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl TopicTable {
    /// Takes a batch from another broker into a queue here, made if need be: all of it or nothing. One that was taken is not
    /// taken twice.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn take_over(
        &mut self,
        queue: &QueueName,
        batch: &Batch,
        now: Instant,
    ) -> Result<(), NotTaken> {
        let is_ephemeral = queue
            .channel
            .as_ref()
            .is_some_and(ChannelName::is_ephemeral);
        if is_ephemeral || queue.topic.is_ephemeral() {
            return Err(NotTaken::Ephemeral);
        }
        let key = self.find_or_create(queue.topic.as_str())?;
        let count = batch.messages.len();
        let bytes = batch.messages.iter().map(|each| each.body.len() as u64);
        if !self.has_memory_for_handed(key, count, bytes.sum()) {
            return Err(NotTaken::Full(count));
        }
        match &queue.channel {
            None => self.take_over_topic(key, batch, now)?,
            Some(name) => self.take_over_channel(key, name, batch, now)?,
        }
        let is_controlled = self.is_controlled;
        if let Some(topic) = self.topics.get_mut(key).filter(|_| is_controlled) {
            // From now on the controller is told what is here.
            let new = || Box::new(Traffic::new(now));
            topic.reported.traffic.get_or_insert_with(new);
            self.effects.report_wanted |= topic.asks_for_share(now);
        }
        self.mark_dirty(key);
        Ok(())
    }

    fn take_over_topic(
        &mut self,
        key: TopicKey,
        batch: &Batch,
        now: Instant,
    ) -> Result<(), NotTaken> {
        let Some(topic) = self.topics.get_mut(key) else {
            return Ok(());
        };
        let count = batch.messages.len();
        if !queue::fit(topic.in_memory(), count, self.bounds.mem_queue_size) {
            return Err(NotTaken::Full(count));
        }
        if !topic.handing.begins(batch.stream, batch.number) {
            return Ok(());
        }
        topic.handing.taken += count as u64;
        let delays = topic.limiter.as_ref().map(|limiter| limiter.delays());
        let is_sorted = delays == Some(true) || self.service.is_some();
        for handed in &batch.messages {
            let id = self.ids.next();
            let message = insert(&mut self.store, (key, id), handed, now);
            // Refused or dropped it would be lost: its publisher has its OK.
            self.store.get_mut(message).has_paid = handed.has_paid || delays == Some(false);
            topic.waiting.bytes += handed.body.len() as u64;
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

    fn take_over_channel(
        &mut self,
        key: TopicKey,
        name: &ChannelName,
        batch: &Batch,
        now: Instant,
    ) -> Result<(), NotTaken> {
        let channel_key = self.find_or_create_channel(key, name)?;
        let Some(channel) = self.channels.get_mut(channel_key) else {
            return Ok(());
        };
        let count = batch.messages.len();
        if !channel.has_room_for(&batch.messages, &self.bounds) {
            return Err(NotTaken::Full(count));
        }
        if !channel.handing.begins(batch.stream, batch.number) {
            return Ok(());
        }
        channel.handing.taken += count as u64;
        for handed in &batch.messages {
            let message = insert(&mut self.store, (key, self.ids.next()), handed, now);
            let due = self.store.get(message).due;
            if due <= now {
                channel.queue.push_back(Queued {
                    message,
                    attempts: handed.attempts,
                    since: now,
                });
            } else if let Some(at) = channel.defer(message, handed.attempts, due) {
                self.wakeups.push(at, Target::Channel(channel_key));
            }
        }
        Ok(())
    }
}

impl Channel {
    /// Room in its queue, and for messages that are delayed, by publishers or by consumers.
    fn has_room_for(&self, messages: &[Handed], bounds: &Bounds) -> bool {
        let count =
            |is_meant: fn(&Handed) -> bool| messages.iter().filter(|each| is_meant(each)).count();
        let at_once = count(|each| each.delay.is_zero());
        let later = count(|each| !each.delay.is_zero() && each.attempts == 0);
        let again = messages.len() - at_once - later;
        let deferred = self.deferred.len() - self.deferred_again;
        let deferred_again = self.deferred_again + self.handing.lifted_again();
        (at_once == 0 || self.queue.has_room_for(at_once, bounds.mem_queue_size))
            && deferred + later <= bounds.deferred_max
            && deferred_again + again <= bounds.deferred_max
    }
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
