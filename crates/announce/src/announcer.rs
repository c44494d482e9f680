//! What an endpoint announces, and when.
//!
//! It announces all its publications and subscriptions once an interval, and soon after something
//! changed or a new endpoint was heard, so that joining takes a round trip and not an interval.
//! Intervals are shortened at random by up to a quarter, so that endpoints that started together do
//! not go on speaking together, and the expiry is three intervals, so that an endpoint is forgotten
//! only after three losses in a row. Whatever happens, there is a pause of
//! [`AnnouncerConfig::soon`] between two rounds.
//!
//! It keeps no socket and no timer: [`Announcer::next_due`] says when to ask, [`Announcer::due`]
//! what to send.

mod pace;
mod speaker;

pub(crate) use pace::{Pace, Round};
pub use speaker::Speaker;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};
use wire::TopicName;
use wire::announce::{Announcement, Entry, MAX_EXPIRY_MS, Role};

/// How often an endpoint announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncerConfig {
    /// The longest time between two rounds of announcements.
    pub interval: Duration,
    /// For how long others believe what was said: three intervals unless there is a reason.
    pub expiry: Duration,
    /// What is new is said within this time; also the least time between two rounds.
    pub soon: Duration,
}

impl Default for AnnouncerConfig {
    /// Announces every second and what is new within 50 ms; entries expire after three seconds.
    fn default() -> Self {
        AnnouncerConfig::every(Duration::from_secs(1))
    }
}

impl AnnouncerConfig {
    /// The usual proportions for an interval: an expiry of three, what is new within a twentieth, at most 50 ms.
    #[must_use]
    pub fn every(interval: Duration) -> AnnouncerConfig {
        AnnouncerConfig {
            interval,
            expiry: interval * 3,
            soon: (interval / 20).min(Duration::from_millis(50)),
        }
    }

    /// The expiry as announced: whole milliseconds within what an announcement can say.
    #[must_use]
    pub fn expiry_ms(&self) -> u32 {
        let ms = u32::try_from(self.expiry.as_millis()).unwrap_or(u32::MAX);
        ms.clamp(1, MAX_EXPIRY_MS)
    }
}

/// Decides what an endpoint announces, and when.
#[derive(Clone, Debug)]
pub struct Announcer {
    speaker: Speaker,
    pace: Pace,
    entries: Vec<Entry>,
    /// Entries that are given up; the next round says so once.
    withdrawn: BTreeMap<(Role, TopicName), Entry>,
    has_left: bool,
}

impl Announcer {
    /// Announces nothing yet, but that soon. `random` is the endpoint's own stream.
    #[must_use]
    pub fn new(
        speaker: Speaker,
        config: AnnouncerConfig,
        random: Xoshiro256PlusPlus,
        now: Instant,
    ) -> Announcer {
        Announcer {
            speaker: speaker.with_expiry_ms(config.expiry_ms()),
            pace: Pace::new(&config, random, now),
            entries: Vec::new(),
            withdrawn: BTreeMap::new(),
            has_left: false,
        }
    }

    /// What to announce from now on; soon, if it differs from before. Topics that are no longer among them are said to be
    /// left.
    ///
    /// A pair of role and topic comes once. Their number is the caller's to bound.
    pub fn set_entries(&mut self, entries: Vec<Entry>, now: Instant) {
        if entries == self.entries {
            return;
        }
        for former in std::mem::take(&mut self.entries) {
            self.withdrawn
                .insert((former.role, former.topic.clone()), former);
        }
        if !self.withdrawn.is_empty() {
            for entry in &entries {
                self.withdrawn.remove(&(entry.role, entry.topic.clone()));
            }
        }
        self.entries = entries;
        self.pace.hasten(1, now);
    }

    /// Says everything again soon, since somebody is new. `instances` are there by now: the more they are, the longer
    /// answers are spread, so that they do not come all at once.
    pub fn answer(&mut self, instances: usize, now: Instant) {
        self.pace.hasten(instances, now);
    }

    /// When [`Announcer::due`] has something to send.
    #[must_use]
    pub fn next_due(&self) -> Instant {
        if self.has_left {
            return Instant::MAX;
        }
        self.pace.next()
    }

    /// The datagrams to send at `now`, in this order; `None` before [`Announcer::next_due`].
    pub fn due(&mut self, now: Instant) -> Option<Vec<Announcement>> {
        if self.has_left {
            return None;
        }
        self.pace.due(now)?;
        self.pace.restart(now);
        let withdrawn: Vec<Entry> = std::mem::take(&mut self.withdrawn).into_values().collect();
        let mut said = Vec::new();
        if !withdrawn.is_empty() {
            said = self.speaker.withdraw(withdrawn);
        }
        said.extend(self.speaker.say(self.entries.clone()));
        Some(said)
    }

    /// The last words: everything is given up. Nothing is due afterwards.
    pub fn leave(&mut self) -> Vec<Announcement> {
        self.has_left = true;
        self.speaker.leave()
    }

    /// The instance that announces.
    #[must_use]
    pub fn speaker(&self) -> &Speaker {
        &self.speaker
    }
}

#[cfg(test)]
mod tests;
