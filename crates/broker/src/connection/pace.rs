//! The minimum pace of a peer that makes others wait.
//!
//! A byte now and then is not progress: a peer that holds memory of the broker has to move an
//! eighth of what is at stake within each interval. So held memory, however large, either makes
//! progress or is given back soon.

use std::time::Duration;

use clock::Instant;

/// One part in this many of the output has to move within an interval.
const PARTS: usize = 8;

/// How a peer gets on since an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    since: Instant,
    whole_bytes: usize,
    moved_bytes: usize,
}

impl Pace {
    /// From `now` on, with `whole_bytes` at stake.
    #[must_use]
    pub fn new(now: Instant, whole_bytes: usize) -> Pace {
        Pace {
            since: now,
            whole_bytes,
            moved_bytes: 0,
        }
    }

    /// Counts bytes that have moved.
    pub fn advance(&mut self, bytes: usize) {
        self.moved_bytes += bytes;
    }

    /// Begins anew at `now`, with `whole_bytes` at stake, if enough has moved.
    pub fn renew(&mut self, now: Instant, whole_bytes: usize) {
        if self.is_kept() {
            *self = Pace::new(now, whole_bytes);
        }
    }

    /// Whether too little had moved for an interval at `at`.
    #[must_use]
    pub fn is_lost(&self, at: Instant, interval: Duration) -> bool {
        !self.is_kept() && at.saturating_since(self.since) >= interval
    }

    fn is_kept(&self) -> bool {
        self.moved_bytes > 0 && self.moved_bytes.saturating_mul(PARTS) >= self.whole_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// When a peer that moves `bytes` every 100 ms of `whole` is found too slow within a minute.
    fn lost_at_ms(whole: usize, bytes: usize) -> Option<u64> {
        let mut pace = Pace::new(at_ms(0), whole);
        (100..60_000).step_by(100).find(|&ms| {
            pace.advance(bytes);
            pace.renew(at_ms(ms), whole);
            pace.is_lost(at_ms(ms), INTERVAL)
        })
    }

    #[test]
    fn whoever_trickles_is_lost_within_an_interval() {
        for (whole, bytes, lost) in [
            (256 * 1024, 0, Some(1000)),
            (256 * 1024, 1, Some(1000)),
            (256 * 1024, 3000, Some(1000)),
            (256 * 1024, 4000, None),
            (5 * 1024 * 1024, 30_000, Some(1000)),
            (5 * 1024 * 1024, 70_000, None),
            (1, 0, Some(1000)),
            (1, 1, None),
            (0, 0, Some(1000)),
        ] {
            assert_eq!(lost_at_ms(whole, bytes), lost, "{bytes} of {whole}");
        }
    }

    #[test]
    fn a_pace_that_was_kept_until_now_is_lost_an_interval_later() {
        let mut pace = Pace::new(at_ms(0), 80);
        pace.advance(10);
        pace.renew(at_ms(900), 80);
        assert!(!pace.is_lost(at_ms(1899), INTERVAL));
        assert!(pace.is_lost(at_ms(1900), INTERVAL));
        assert!(
            !pace.is_lost(at_ms(500), INTERVAL),
            "time does not run back"
        );
    }
}
