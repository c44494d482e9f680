//! When to speak: at random within each interval, earlier if there is news, never twice within a pause.

use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};
use rand_xoshiro::rand_core::Rng;

use super::AnnouncerConfig;

/// For each instance that is there, answers to a new one are spread over so much more time.
const SPREAD_PER_INSTANCE: Duration = Duration::from_millis(1);

/// Why it is time for a round of announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The interval has passed.
    Regular,
    /// There is news.
    Hastened,
}

#[derive(Clone, Debug)]
pub(crate) struct Pace {
    interval: Duration,
    soon: Duration,
    random: Xoshiro256PlusPlus,
    regular_at: Instant,
    hastened_at: Option<Instant>,
    spoke_at: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(config: &AnnouncerConfig, random: Xoshiro256PlusPlus, now: Instant) -> Pace {
        let mut pace = Pace {
            interval: config.interval,
            soon: config.soon,
            random,
            regular_at: Instant::MAX,
            hastened_at: None,
            spoke_at: None,
        };
        pace.regular_at = now + pace.part_of(pace.soon);
        pace
    }

    /// Speaks soon; with many `instances` somewhat later, but within an interval.
    pub(crate) fn hasten(&mut self, instances: usize, now: Instant) {
        let instances = u32::try_from(instances).unwrap_or(u32::MAX);
        let spread = SPREAD_PER_INSTANCE.saturating_mul(instances);
        let within = self.soon.max(spread).min(self.interval);
        let mut at = now + self.part_of(within);
        if let Some(spoke_at) = self.spoke_at {
            at = at.max(spoke_at + self.soon);
        }
        self.hastened_at = Some(self.hastened_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn next(&self) -> Instant {
        self.hastened_at
            .map_or(self.regular_at, |at| at.min(self.regular_at))
    }

    /// Whether it is time, and why; counts as spoken. The interval goes on: see [`Pace::restart`].
    pub(crate) fn due(&mut self, now: Instant) -> Option<Round> {
        if now < self.next() {
            return None;
        }
        self.spoke_at = Some(now);
        self.hastened_at = None;
        Some(if now < self.regular_at {
            Round::Hastened
        } else {
            Round::Regular
        })
    }

    /// Everything was said at `now`: the interval begins anew.
    pub(crate) fn restart(&mut self, now: Instant) {
        let least = self.interval - self.interval / 4;
        self.regular_at = now + least + self.part_of(self.interval / 4);
    }

    /// A random part of `whole`, up to all of it.
    fn part_of(&mut self, whole: Duration) -> Duration {
        let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
        // The product's upper half is below `nanos`.
        let part = (u128::from(self.random.next_u64()) * u128::from(nanos)) >> 64;
        Duration::from_nanos(part as u64)
    }
}
