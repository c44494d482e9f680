//! What becomes of a channel whose queue is full: new messages wait for room, or the oldest give way to them.
//!
//! A topic's contract says which. Without a word it depends on whether anybody could make room: a channel that has consumers
//! blocks; one that has had none for [`Bounds::abandoned_after`] is abandoned and drops its oldest, so that who has left
//! does not stop those who are there.

use std::time::Duration;

use clock::Instant;
use link::OnFull;
use wire::{ChannelName, TopicName};

use super::channel::{Channel, ChannelKey};
use super::effects::Effects;
use super::store::{MessageRef, Store};
use super::table::{Bounds, Target, TopicTable};
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

/// What became of a full channel.
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
    /// What it does in this episode.
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

impl Channel {
    /// Whether nobody has consumed it for long.
    fn is_abandoned(&self, bounds: &Bounds, now: Instant) -> bool {
        self.consumers.is_empty()
            && self
                .fullness
                .vacant_since
                .is_some_and(|since| now.saturating_since(since) >= bounds.abandoned_after)
    }

    /// Notes that a message found it full, and says what is done then.
    fn meet_full(
        &mut self,
        declared: Option<OnFull>,
        bounds: &Bounds,
        now: Instant,
    ) -> (Full, Option<FullNews>) {
        let is_abandoned = declared.is_none() && self.is_abandoned(bounds, now);
        let full = match declared {
            Some(OnFull::DropOldest) => Full::DropsOldest,
            None if is_abandoned => Full::DropsOldest,
            Some(OnFull::Block) | None => Full::Blocks,
        };
        let former = self.fullness.full.replace(full);
        if former == Some(full) {
            return (full, None);
        }
        if former.is_none() {
            self.fullness.episodes += 1;
            self.fullness.began = now;
            self.fullness.dropped_before = self.dropped_oldest_count;
            self.fullness.is_told = false;
        }
        let told_at = &mut self.fullness.told_at[full as usize];
        if told_at.is_some_and(|at| now.saturating_since(at) < TOLD_INTERVAL) {
            return (full, None);
        }
        *told_at = Some(now);
        self.fullness.is_told = true;
        let depth = self.queue.len();
        let news = FullNews::Begins {
            full,
            depth,
            is_abandoned,
        };
        (full, Some(news))
    }

    /// Keeps the books of an episode and of its consumers' absence at every run of its topic; gives what is to be logged.
    pub(super) fn look_at_fullness(&mut self, bounds: &Bounds, now: Instant) -> Option<FullNews> {
        if self.consumers.is_empty() {
            self.fullness.vacant_since.get_or_insert(now);
        }
        if self.fullness.full.is_none() || !self.queue.is_half_empty(bounds.mem_queue_size) {
            return None;
        }
        self.fullness.full = None;
        let lasted = now.saturating_since(self.fullness.began);
        let dropped = self.dropped_oldest_count - self.fullness.dropped_before;
        self.fullness
            .is_told
            .then_some(FullNews::Ends { lasted, dropped })
    }

    /// Lets the oldest message that waits give way to `message`, in a queue that is full; gives the one that went. A full
    /// ephemeral queue keeps what it has.
    pub(super) fn give_way(&mut self, message: MessageRef) -> Option<MessageRef> {
        self.dropped_count += 1;
        if self.name.is_ephemeral() {
            return Some(message);
        }
        self.dropped_oldest_count += 1;
        self.queue.pop_oldest().map(|oldest| oldest.message)
    }
}

/// Whether all channels of a topic take a message at `now`. Whoever blocks without being told to by the contract is asked again when
/// it is abandoned.
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
        let (full, news) = channel.meet_full(topic.declared.on_full, bounds, now);
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

impl TopicTable {
    /// The bounds of what flows from topics to channels. At the end nothing comes in behind it, and no channel holds it up.
    pub(super) fn bounds_of_flow(&self) -> Bounds {
        match self.ending {
            Some(_) => Bounds {
                mem_queue_size: usize::MAX,
                ..self.bounds
            },
            None => self.bounds,
        }
    }

    /// Keeps a channel's books at a run of its topic.
    pub(super) fn look_at_fullness(&mut self, key: ChannelKey, now: Instant) {
        let Some(channel) = self.channels.get_mut(key) else {
            return;
        };
        if let Some(news) = channel.look_at_fullness(&self.bounds, now)
            && let Some(topic) = self.topics.get(channel.topic)
        {
            self.effects
                .note_full(&topic.name, &channel.name, Some(news));
        }
    }
}

impl Effects {
    pub(super) fn note_full(
        &mut self,
        topic: &TopicName,
        channel: &ChannelName,
        news: Option<FullNews>,
    ) {
        self.full.extend(news.map(|news| FullNote {
            topic: topic.clone(),
            channel: channel.clone(),
            news,
        }));
    }
}

/// Puts a message into every channel of a topic; each of them takes it.
pub(super) fn put_into_all(
    keys: &[ChannelKey],
    (channels, store): (&mut Arena<Channel>, &mut Store),
    message: MessageRef,
    (due, now): (Instant, Instant),
    bounds: &Bounds,
    wakeups: &mut Wakeups<Target>,
) {
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
            store.release(gone);
        }
    }
}
