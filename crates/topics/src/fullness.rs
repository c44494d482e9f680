//! What a full channel does: new messages wait for room, or push out the oldest.
//!
//! A topic's contract says which. Without a contract it depends on whether anybody could make room:
//! a channel that has consumers blocks; one that has had none for [`Bounds::abandoned_after`] is
//! abandoned and drops its oldest messages, so that consumers that have left do not stop those that
//! are there.

use std::time::Duration;

use clock::Instant;
use link::OnFull;
use wire::{ChannelName, TopicName};

use super::agenda::Target;
use super::bounds::Bounds;
use super::channel::{Channel, ChannelKey};
use super::effects::Effects;
use super::log::{LogStep, TopicLog, UNLOGGED};
use super::store::{MessageRef, Store};
use super::topic::Topic;
use super::wakeups::Wakeups;
use crate::arena::Arena;

/// An episode of a channel is logged again after so long at the earliest.
const TOLD_INTERVAL: Duration = Duration::from_secs(60);

/// What a full channel does with new messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// They wait in the topic's queue.
    Blocks,
    /// The oldest give way to them.
    DropsOldest,
}

/// Something to log of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullNote {
    /// Its topic.
    pub topic: TopicName,
    /// Its name.
    pub channel: ChannelName,
    /// What there is to say.
    pub news: FullNews,
}

/// News of a full channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullNews {
    /// It is full with `depth` messages and does this from now on; `is_abandoned`: because nobody has consumed it for long.
    Begins {
        /// What it does.
        full: Full,
        /// Messages that wait.
        depth: usize,
        /// Nobody has consumed it for long.
        is_abandoned: bool,
    },
    /// Its queue has fallen to half of its bound.
    Ends {
        /// How long it was full.
        lasted: Duration,
        /// Its messages that gave way meanwhile.
        dropped: u64,
    },
}

/// The episodes in which a channel is full, and since when nobody consumes it. An episode begins with a message that finds it full and ends when
/// its queue has fallen to half of the bound, so that a channel at its bound does not begin one with every message.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    /// Its behaviour in this episode.
    pub(super) full: Option<Full>,
    /// Episodes so far.
    pub(super) episodes: u64,
    /// Since when it has had no consumer; `None` while it has one, and before its topic's first run.
    pub(super) vacant_since: Option<Instant>,
    /// When its topic is woken because it is abandoned by then.
    pub(super) wake_at: Option<Instant>,
    began: Instant,
    dropped_before: u64,
    told_at: [Option<Instant>; 2],
    is_told: bool,
}

impl Fullness {
    /// Whether nobody has consumed the channel for long.
    fn is_abandoned(&self, bounds: &Bounds, now: Instant) -> bool {
        self.vacant_since
            .is_some_and(|since| now.saturating_since(since) >= bounds.abandoned_after)
    }

    /// Notes that a message found the channel full with `depth` messages, after it had dropped
    /// `dropped` of its oldest; returns its behaviour.
    fn meet(
        &mut self,
        declared: Option<OnFull>,
        (depth, dropped): (usize, u64),
        bounds: &Bounds,
        now: Instant,
    ) -> (Full, Option<FullNews>) {
        let is_abandoned = declared.is_none() && self.is_abandoned(bounds, now);
        let full = match declared {
            Some(OnFull::DropOldest) => Full::DropsOldest,
            None if is_abandoned => Full::DropsOldest,
            Some(OnFull::Block) | None => Full::Blocks,
        };
        let former = self.full.replace(full);
        if former == Some(full) {
            return (full, None);
        }
        if former.is_none() {
            self.episodes += 1;
            self.began = now;
            self.dropped_before = dropped;
            self.is_told = false;
        }
        let told_at = &mut self.told_at[full as usize];
        if told_at.is_some_and(|at| now.saturating_since(at) < TOLD_INTERVAL) {
            return (full, None);
        }
        *told_at = Some(now);
        self.is_told = true;
        let news = FullNews::Begins {
            full,
            depth,
            is_abandoned,
        };
        (full, Some(news))
    }

    /// The channel has fallen to half of its bound, having dropped this many of its oldest in all;
    /// returns what to log.
    pub(super) fn end(&mut self, dropped: u64, now: Instant) -> Option<FullNews> {
        self.full = None;
        let lasted = now.saturating_since(self.began);
        let dropped = dropped - self.dropped_before;
        self.is_told.then_some(FullNews::Ends { lasted, dropped })
    }
}

/// Whether all channels of a topic take a message at `now`. A channel that blocks without a
/// contract that says so is asked again when it is abandoned.
#[inline]
pub(super) fn do_all_take(
    topic: &Topic,
    channels: &mut Arena<Channel>,
    bounds: &Bounds,
    now: Instant,
    (wakeups, effects): (&mut Wakeups<Target>, &mut Effects),
) -> bool {
    let mut do_take = true;
    for &key in &topic.channels {
        let Some(channel) = channels
            .get_mut(key)
            .filter(|channel: &&mut Channel| !channel.has_room(bounds.mem_queue_size))
        else {
            continue;
        };
        let extent = (channel.queue.len(), channel.dropped_oldest_count);
        let declared = topic.declared.on_full;
        let (full, news) = channel.fullness.meet(declared, extent, bounds, now);
        effects.note_full(&topic.name, &channel.name, news);
        if full == Full::DropsOldest {
            continue;
        }
        do_take = false;
        let since = channel.fullness.vacant_since;
        let abandoned_at =
            since.filter(|_| topic.declared.on_full.is_none() && channel.consumers.is_empty());
        if let Some(at) = abandoned_at.map(|since| since + bounds.abandoned_after)
            && channel.fullness.wake_at != Some(at)
        {
            channel.fullness.wake_at = Some(at);
            wakeups.push(at, Target::Abandoned(key));
        }
    }
    do_take
}

/// Puts a message into every channel of a topic; each of them takes it.
#[inline]
pub(super) fn put_into_all(
    keys: &[ChannelKey],
    (channels, store, mut log): (&mut Arena<Channel>, &mut Store, Option<&mut TopicLog>),
    message: MessageRef,
    (due, now): (Instant, Instant),
    bounds: &Bounds,
    wakeups: &mut Wakeups<Target>,
) {
    if let Some(log) = &mut log {
        log.step(LogStep::Passed(store.get(message).id));
    }
    for &key in keys {
        let Some(channel) = channels.get_mut(key) else {
            continue;
        };
        store.retain(message);
        let put = channel.put(message, due, now, bounds);
        if let Some(at) = put.wake_at {
            wakeups.push(at, Target::Channel(key));
        }
        if let Some(gone) = put.gone {
            if let Some(log) = log.as_mut().filter(|_| channel.log_number != UNLOGGED) {
                log.end(channel.log_number, store.get(gone).id);
            }
            store.release(gone);
        }
    }
}
