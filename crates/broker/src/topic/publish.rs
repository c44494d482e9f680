//! From a publisher into a topic's queue.

use std::time::Duration;

use clock::Instant;
use limit::OnExceed;

use super::latency::{Stage, StageHistograms};
use super::store::Arrival;
use super::table::{Fresh, TopicKey, TopicTable};

/// What became of a publish command. All of its messages share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// In the queue (or dropped, where the contract or an ephemeral queue says so): answer OK.
    Accepted,
    /// No room: hold the publisher back and try again.
    Full,
    /// Refused by a limit with `reject`; the text says by what and what to do.
    Refused(String),
    /// The topic is gone.
    Gone,
}

impl TopicTable {
    /// Puts `bodies` into the topic's queue, all or none.
    ///
    /// The queue is full when they do not all fit under `mem_queue_size`; a batch larger than that
    /// enters an empty queue, else it could never be published.
    pub fn publish<'a>(
        &mut self,
        key: TopicKey,
        bodies: impl Iterator<Item = &'a [u8]> + Clone,
        arrival: Arrival,
        delay: Duration,
    ) -> Published {
        let Some(topic) = self.topics.get_mut(key) else {
            return Published::Gone;
        };
        let (mut count, mut bytes) = (0, 0);
        for body in bodies.clone() {
            count += 1;
            bytes += body.len();
        }
        let depth = topic.queue.len() + topic.fresh.len();
        let is_full = depth > 0 && depth + count > self.bounds.mem_queue_size;
        if is_full && !topic.name.is_ephemeral() {
            return Published::Full;
        }
        if let Some(limiter) = &mut topic.limiter
            && limiter.limit().on_exceed == OnExceed::Reject
            && let Err(reason) = limiter.try_take_batch(arrival.at, bodies.clone())
        {
            topic.rejected_count += 1;
            return Published::Refused(reason);
        }
        topic.message_count += count as u64;
        topic.message_bytes += bytes as u64;
        let latency = topic.latency.get_or_insert_with(StageHistograms::default);
        latency.record(Stage::Read, arrival.read - arrival.at, count as u32);
        for body in bodies {
            let exceeds = match &mut topic.limiter {
                Some(limiter) if limiter.limit().on_exceed == OnExceed::Drop => {
                    !limiter.try_take(arrival.at, body.len())
                }
                _ => false,
            };
            if is_full || exceeds {
                topic.dropped_count += 1;
                continue;
            }
            let id = self.ids.next();
            let message = self.store.insert(id, arrival, arrival.read + delay, body);
            match &topic.limiter {
                Some(limiter) if limiter.delays() => {
                    topic.fresh.push(Fresh {
                        at: arrival.at,
                        id,
                        message,
                    });
                }
                Some(_) => {
                    self.store.get_mut(message).has_paid = true;
                    topic.queue.push_back(message);
                }
                None => topic.queue.push_back(message),
            }
        }
        self.mark_dirty(key);
        Published::Accepted
    }

    /// Earliest instant at which something is due.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeups.next()
    }
}
