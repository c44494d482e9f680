//! From a publisher into a topic's queue.

use std::time::Duration;

use clock::Instant;
use limit::{OnExceed, Unit};

use super::latency::{Stage, StageHistograms};
use super::limiter::TopicLimiter;
use super::store::Arrival;
use super::table::{Fresh, Topic, TopicKey, TopicTable};
use super::traffic::Asked;

/// A wait is not estimated beyond; a throttled frame's field ends not far behind.
const LONGEST_WAIT_S: f64 = 4000.0;

/// About the time in which a controller grants a share of a limit.
const SHARE_WAIT: Duration = Duration::from_secs(1);

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
        let mut asked = Asked::default();
        for body in bodies.clone() {
            asked.messages += 1;
            asked.bytes += body.len() as u64;
        }
        let is_full = topic.is_full_for(asked.messages as usize, self.bounds.mem_queue_size);
        if is_full && !topic.name.is_ephemeral() {
            return Published::Full;
        }
        // A command that was held back was read long ago; what it finds now is judged now.
        let now = arrival.read.max(self.ran_at);
        if let Err(reason) = topic.admit(&arrival, bodies.clone(), now) {
            topic.rejected_count += 1;
            asked.refused_messages = asked.messages;
            asked.refused_bytes = asked.bytes;
            self.note_asked(key, &asked, now);
            return Published::Refused(reason);
        }
        topic.message_count += asked.messages;
        topic.message_bytes += asked.bytes;
        let latency = topic.latency.get_or_insert_with(StageHistograms::default);
        latency.record(
            Stage::Read,
            arrival.read - arrival.at,
            asked.messages as u32,
        );
        let mut is_first = true;
        for body in bodies {
            if is_full || topic.exceeds(&arrival, body, now) {
                topic.dropped_count += 1;
                asked.refused_messages += 1;
                asked.refused_bytes += body.len() as u64;
                continue;
            }
            let id = self.ids.next();
            let message = self.store.insert(id, arrival, arrival.read + delay, body);
            topic.waiting_bytes += body.len() as u64;
            let delays = topic.limiter.as_ref().map(TopicLimiter::delays);
            self.store.get_mut(message).has_paid = delays == Some(false);
            if delays == Some(true) || self.service.is_some() {
                topic.fresh.push(Fresh {
                    at: arrival.at,
                    id,
                    message,
                    is_first: std::mem::take(&mut is_first),
                });
            } else {
                topic.queue.push_back(message);
            }
        }
        self.note_asked(key, &asked, now);
        self.mark_dirty(key);
        Published::Accepted
    }

    /// Keeps the books that a controller is told of, and has it told of a topic that waits for a share.
    #[inline]
    fn note_asked(&mut self, key: TopicKey, asked: &Asked, now: Instant) {
        if !self.is_controlled {
            return;
        }
        if let Some(topic) = self.topics.get_mut(key) {
            topic.note_asked(asked, now);
            self.effects.report_wanted |= topic.asks_for_share(now);
        }
    }

    /// About how long the message at the end of the queue waits for its tokens from `now`: until the head
    /// leaves, and from there at the share's rate; a second where there is none yet. Zero where nothing waits for tokens.
    #[must_use]
    pub fn expected_wait(&self, key: TopicKey, now: Instant) -> Duration {
        let Some(topic) = self.topics.get(key) else {
            return Duration::ZERO;
        };
        let share = topic.limiter.as_ref().map(|limiter| limiter.share(now));
        if share == Some(None) && topic.depth() > 0 {
            return SHARE_WAIT;
        }
        let (Some(limiter), Some(Some(share)), Some(release_at)) =
            (&topic.limiter, share, topic.release_at)
        else {
            return Duration::ZERO;
        };
        let behind = topic.depth().saturating_sub(1) as f64;
        let cost = match limiter.limit().unit {
            Unit::Messages => behind,
            Unit::Bytes => behind * topic.message_bytes as f64 / topic.message_count.max(1) as f64,
        };
        let seconds = (cost / share.rate.get()).min(LONGEST_WAIT_S);
        release_at.saturating_since(now) + Duration::from_secs_f64(seconds)
    }

    /// Earliest instant at which something is due.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeups.next()
    }
}

impl Topic {
    fn is_full_for(&self, messages: usize, mem_queue_size: usize) -> bool {
        let depth = self.depth();
        depth > 0 && depth + messages > mem_queue_size
    }

    /// Lets a limit with `reject` judge a command.
    fn admit<'a>(
        &mut self,
        arrival: &Arrival,
        bodies: impl Iterator<Item = &'a [u8]>,
        now: Instant,
    ) -> Result<(), String> {
        match &mut self.limiter {
            Some(limiter) if limiter.limit().on_exceed == OnExceed::Reject => {
                limiter.try_take_batch(arrival, bodies, now)
            }
            _ => Ok(()),
        }
    }

    /// Lets a limit with `drop` judge a message.
    #[inline]
    fn exceeds(&mut self, arrival: &Arrival, body: &[u8], now: Instant) -> bool {
        match &mut self.limiter {
            Some(limiter) if limiter.limit().on_exceed == OnExceed::Drop => {
                !limiter.try_take(arrival, body.len(), now)
            }
            _ => false,
        }
    }
}
