//! Limits repeated log lines: so many are shown, the rest is counted.
//!
//! Whoever can reach a port can cause some log lines as often as they like. Each place in the code
//! that logs has a budget of its own, so that a flood of one kind hides no other.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};

/// Lines that a place may log at once.
const BURST_LINES: f64 = 100.0;
/// Lines per second that it may go on with.
const LINES_PER_S: f64 = 10.0;
/// What was left out is told with the next line of its place, or of any other once nothing came for so long.
const QUIET: Duration = Duration::from_secs(5);

/// The budgets of all places of the program that log.
#[derive(Debug)]
pub(crate) struct Repetition<P>(HashMap<P, Budget>);

#[derive(Debug)]
struct Budget {
    bucket: TokenBucket,
    left_out: u64,
    last_at: Instant,
}

impl<P: Copy + Eq + Hash> Repetition<P> {
    /// Full budgets: nothing was logged yet.
    pub(crate) fn new() -> Self {
        Repetition(HashMap::new())
    }

    /// A place has something to log: whether it may, and how many of its lines were left out since it was shown last.
    pub(crate) fn shows(&mut self, place: P, now: Instant) -> Option<u64> {
        let budget = self.0.entry(place).or_insert_with(|| Budget::new(now));
        budget.last_at = now;
        if budget.bucket.try_take(now, 1.0) {
            Some(std::mem::take(&mut budget.left_out))
        } else {
            budget.left_out += 1;
            None
        }
    }

    /// Places that have fallen silent, with how many of their lines were left out and not told of.
    pub(crate) fn silent(&mut self, now: Instant) -> Vec<(P, u64)> {
        self.tell(|budget| now >= budget.last_at + QUIET)
    }

    /// All places of which lines were left out and not told of.
    pub(crate) fn untold(&mut self) -> Vec<(P, u64)> {
        self.tell(|_| true)
    }

    fn tell(&mut self, is_due: impl Fn(&Budget) -> bool) -> Vec<(P, u64)> {
        let due = |budget: &Budget| budget.left_out > 0 && is_due(budget);
        let places = self.0.iter_mut().filter(|(_, budget)| due(budget));
        places
            .map(|(place, budget)| (*place, std::mem::take(&mut budget.left_out)))
            .collect()
    }
}

impl Budget {
    fn new(now: Instant) -> Budget {
        let rate = Rate::new(LINES_PER_S).unwrap_or(Rate::MAX);
        let burst = Burst::new(BURST_LINES).unwrap_or(Burst::MAX);
        Budget {
            bucket: TokenBucket::full(rate, burst, now),
            left_out: 0,
            last_at: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_flood_is_cut_counted_and_hides_nothing_else() {
        let mut repetition = Repetition::new();
        let shown = (0..100_000).filter(|_| repetition.shows("flood", at_ms(0)).is_some());
        assert_eq!(shown.count(), 100);
        assert_eq!(repetition.shows("other", at_ms(0)), Some(0));
        assert_eq!(repetition.silent(at_ms(0)), []);
        // It goes on slowly, and says what it left out.
        assert_eq!(repetition.shows("flood", at_ms(100)), Some(99_900));
        assert_eq!(repetition.shows("flood", at_ms(100)), None);
        assert_eq!(repetition.shows("flood", at_ms(200)), Some(1));
        // It ends: what it left out is told by whoever logs next.
        assert_eq!(repetition.shows("flood", at_ms(200)), None);
        assert_eq!(repetition.silent(at_ms(5199)), []);
        assert_eq!(repetition.silent(at_ms(5200)), [("flood", 1)]);
        assert_eq!(repetition.silent(at_ms(9000)), []);
        // The process ends: everything is told, however short ago it was.
        let shown = (0..120).filter(|_| repetition.shows("flood", at_ms(60_000)).is_some());
        assert_eq!(shown.count(), 100);
        assert_eq!(repetition.untold(), [("flood", 20)]);
        assert_eq!(repetition.untold(), []);
    }
}
