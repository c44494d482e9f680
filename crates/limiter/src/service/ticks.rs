//! When the estimate intervals of sites end.
//!
//! Limiters on machines of their own would not end their intervals at one instant. So sites are
//! spread over the interval, but in a limited number of groups, because each group costs a wake-up.

use std::ops::Range;
use std::time::Duration;

use clock::Instant;

/// The most groups into which sites are divided.
const GROUPS_MAX: u64 = 50;

/// Says when the estimate intervals of sites end.
#[derive(Debug)]
pub(super) struct Ticks {
    start: Instant,
    interval_ns: u64,
    sites: u64,
    groups: u64,
    /// The number of turns that groups have had since the start.
    done: u64,
}

impl Ticks {
    pub(super) fn new(start: Instant, interval: Duration, sites: usize) -> Ticks {
        let sites = sites.max(1) as u64;
        Ticks {
            start,
            interval_ns: u64::try_from(interval.as_nanos())
                .unwrap_or(u64::MAX)
                .max(1),
            sites,
            groups: sites.min(GROUPS_MAX),
            done: 0,
        }
    }

    /// When the next group's interval ends.
    pub(super) fn due(&self) -> Instant {
        self.start + Duration::from_nanos(self.due_ns(self.done))
    }

    /// The sites whose intervals end, if any does by `now`. Whole intervals that were slept through are left out.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Range<usize>> {
        if self.due() > now {
            return None;
        }
        let late_ns = now.saturating_since(self.due()).as_nanos();
        let missed = u64::try_from(late_ns).unwrap_or(u64::MAX) / self.interval_ns;
        self.done += missed * self.groups;
        let group = self.done % self.groups;
        self.done += 1;
        let first =
            |group: u64| usize::try_from(group * self.sites / self.groups).unwrap_or(usize::MAX);
        Some(first(group)..first(group + 1))
    }

    fn due_ns(&self, done: u64) -> u64 {
        let (rounds, group) = (1 + done / self.groups, done % self.groups);
        rounds
            .saturating_mul(self.interval_ns)
            .saturating_add(self.interval_ns / self.groups * group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn every_site_has_its_turn_once_per_interval() {
        for sites in [1, 2, 50, 51, 490] {
            let mut ticks = Ticks::new(at(0), Duration::from_millis(50), sites);
            let mut turns = vec![0; sites];
            while let Some(range) = ticks.pop(at(50 * 10 + 49)) {
                range.for_each(|site| turns[site] += 1);
            }
            // All but the last interval were slept through.
            assert!(turns.iter().all(|turns| *turns == 1), "{sites}: {turns:?}");
            let mut turns = vec![0; sites];
            for ms in 550..1050 {
                while let Some(range) = ticks.pop(at(ms)) {
                    range.for_each(|site| turns[site] += 1);
                }
            }
            assert!(turns.iter().all(|turns| *turns == 10), "{sites}: {turns:?}");
        }
    }

    #[test]
    fn sites_are_spread_over_the_interval() {
        let mut ticks = Ticks::new(at(0), Duration::from_millis(50), 2);
        assert_eq!((ticks.due(), ticks.pop(at(50))), (at(50), Some(0..1)));
        assert_eq!((ticks.due(), ticks.pop(at(60))), (at(75), None));
        assert_eq!(ticks.pop(at(75)), Some(1..2));
        assert_eq!(ticks.due(), at(100));
    }
}
