//! From a publisher into a topic's queue.

use std::time::Duration;

use clock::Instant;

use super::latency::{Stage, StageHistograms};
use super::limiter::TopicLimiter;
use super::store::Arrival;
use super::table::{TopicKey, TopicTable};
use super::topic::{Fresh, Topic};
use super::traffic::Asked;

/// A wait is not estimated beyond; a throttled frame's field ends not far behind.
const LONGEST_WAIT: Duration = Duration::from_secs(4000);

/// About the time in which a controller grants a share of a limit, or says what a topic has.
const WORD_WAIT: Duration = Duration::from_secs(1);

/// What became of a publish command. All of its messages share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// In the queue (or dropped, where the contract or an ephemeral queue says so): answer OK.
    Accepted,
    /// No room: hold the publisher back and try again.
    Full,
    /// Refused by a limit with `reject`; the text says by what and what to do.
    Refused(String),
    /// The topic is gone, or the broker stops.
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
        let Some(topic) = self.topics.get(key).filter(|_| self.ending.is_none()) else {
            return Published::Gone;
        };
        let mut asked = Asked::of(bodies.clone());
        let is_full = topic.is_full_for(asked.messages as usize, self.bounds.mem_queue_size)
            || !self.has_memory(key, &asked);
        let waits = |topic: &Topic| !topic.name.is_ephemeral();
        if is_full && self.topics.get(key).is_some_and(waits) {
            return Published::Full;
        }
        if !delay.is_zero()
            && let Some(reason) = self.too_many_delays(key)
        {
            if let Some(topic) = self.topics.get_mut(key) {
                topic.counts.rejected += 1;
            }
            return Published::Refused(reason);
        }
        let Some(topic) = self.topics.get_mut(key) else {
            return Published::Gone;
        };
        // A command that was held back was read long ago; what it finds now is judged now.
        let now = arrival.read.max(self.ran_at);
        if let Err(reason) = topic.admit(&arrival, bodies.clone(), now) {
            topic.counts.rejected += 1;
            asked.refused_messages = asked.messages;
            asked.refused_bytes = asked.bytes;
            self.note_asked(key, &asked, now);
            return Published::Refused(reason);
        }
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
            if is_full || topic.exceeds(&arrival, body, now) {
                topic.counts.dropped += 1;
                asked.refused_messages += 1;
                asked.refused_bytes += body.len() as u64;
                continue;
            }
            let id = self.ids.next();
            let due = arrival.read + delay;
            let message = self.store.insert(key.slot(), id, arrival, due, body);
            topic.waiting.bytes += body.len() as u64;
            let delays = topic.limiter.as_ref().map(TopicLimiter::delays);
            self.store.get_mut(message).has_paid = delays == Some(false);
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
        self.note_asked(key, &asked, now);
        self.mark_dirty(key);
        Published::Accepted
    }

    /// Why no further message may be published with a delay, if so. Those that wait in the topic's queue already come on top.
    fn too_many_delays(&self, key: TopicKey) -> Option<String> {
        let most = self.bounds.deferred_max;
        let channels = &self.topics.get(key)?.channels;
        let mut channels = channels.iter().filter_map(|&key| self.channels.get(key));
        let full = channels
            .find(|channel| !channel.name.is_ephemeral() && channel.is_full_of_delays(most))?;
        let name = &full.name;
        Some(format!(
            "too many messages of channel {name} are deferred (limit {most}); publish without a delay, or later"
        ))
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

    /// About how long the message at the end of the queue waits for its tokens from `now`; a second where there is no
    /// share to take them from yet, or the topic is held. What else holds a queue up, as a pause does, is not in it.
    ///
    /// From the bucket itself and not from what the last run asked to be woken for: a publish may come before the
    /// topic has run, when nobody has asked yet.
    #[must_use]
    pub fn expected_wait(&self, key: TopicKey, now: Instant) -> Duration {
        let Some(topic) = self.topics.get(key).filter(|topic| topic.depth() > 0) else {
            return Duration::ZERO;
        };
        if topic.awaited.is_some() {
            return WORD_WAIT;
        }
        let Some(limiter) = topic.limiter.as_ref().filter(|limiter| limiter.delays()) else {
            return Duration::ZERO;
        };
        let tokens = limiter.tokens_of(topic.depth() as u64, topic.waiting.bytes);
        let head = topic.waiting.queue.front();
        let head_bytes = head.map_or(0, |&head| self.store.get(head).body.len());
        match limiter.wait_of(tokens, head_bytes, now) {
            Some(wait) => wait.min(LONGEST_WAIT),
            None => WORD_WAIT,
        }
    }

    /// Earliest instant at which something is due.
    #[inline]
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeups.next()
    }
}
