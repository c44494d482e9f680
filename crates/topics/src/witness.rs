//! A limit's witness: the worst window of releases, on the clock of the releases themselves.
//!
//! It knows the numbers of the contract, or of the share of it, and nothing of the bucket. The
//! bucket decides on arrival times; messages leave a little later, when the reactor gets to them.
//! What `drop` and `reject` let in counts when it is judged. What passed before the limit was known
//! here is added by [`Witness::found`]. A meter that drains at the rate and rises with each release
//! stands, at its peak, at the largest count − r·(t − s) over all windows [s, t] so far; that less
//! the burst is by how much a window exceeded the limit. Where the rate changes, the meter drains
//! at the rate of the time; where the burst changes, the meter moves along, as a bucket keeps its
//! tokens: what was missing stays missing.

use clock::Instant;
use limit::Share;

/// The meter of one topic.
#[derive(Clone, Copy, Debug)]
pub struct Witness {
    level: f64,
    at: Instant,
    rate: f64,
    burst: f64,
    /// Nothing is in force.
    is_withdrawn: bool,
    /// Largest level beyond the burst at a release so far.
    worst: Option<f64>,
}

impl Witness {
    /// Nothing has been released; `share` is in force.
    #[must_use]
    pub fn new(share: Option<Share>, now: Instant) -> Witness {
        Witness {
            level: 0.0,
            at: now,
            rate: share.map_or(0.0, |share| share.rate.get()),
            burst: share.map_or(0.0, |share| share.burst.get()),
            is_withdrawn: share.is_none(),
            worst: None,
        }
    }

    /// Notes that a message of `cost` tokens was released at `now`.
    #[inline]
    pub fn release(&mut self, now: Instant, cost: f64) {
        self.drain(now);
        self.level += cost;
        let beyond = self.level - self.burst;
        self.worst = Some(self.worst.map_or(beyond, |worst| worst.max(beyond)));
    }

    /// Notes that `share` is in force from `at` on. One that comes after none begins empty.
    pub fn change(&mut self, share: Option<Share>, at: Instant) {
        self.drain(at);
        self.rate = share.map_or(0.0, |share| share.rate.get());
        let was_withdrawn = std::mem::replace(&mut self.is_withdrawn, share.is_none());
        if let Some(share) = share {
            if was_withdrawn {
                self.level = self.level.max(self.burst);
            }
            let burst = share.burst.get();
            self.level = (self.level + burst - self.burst).max(0.0);
            self.burst = burst;
        }
    }

    /// A window before it began exceeded the limit by this many tokens.
    pub fn found(&mut self, excess: f64) {
        self.worst = Some(self.worst.map_or(excess, |worst| worst.max(excess)));
    }

    /// Tokens by which the worst window exceeded r·(t − s) + b; negative where none reached it.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.worst.unwrap_or(0.0 - self.burst)
    }

    #[inline]
    fn drain(&mut self, now: Instant) {
        let drained = self.rate * (now - self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.level = (self.level - drained).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use limit::{Limit, oracle};
    use proptest::prelude::*;

    use super::*;

    fn share(rate: f64, burst: f64) -> Share {
        Share::whole(&Limit::messages(rate, burst).expect("valid"))
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    proptest! {
        #[test]
        fn the_peak_is_the_worst_window(gaps in prop::collection::vec(0..5_000_000u64, 1..200), rate in 1..5_000u32) {
            let share = share(f64::from(rate), 3.0);
            let mut now = Instant::ZERO;
            let mut witness = Witness::new(Some(share), now);
            let mut releases = Vec::new();
            for gap in gaps {
                now = Instant::from_nanos(now.as_nanos() + gap);
                witness.release(now, 1.0);
                releases.push(now);
            }
            let expected = oracle::window_excess(&releases, share.rate, share.burst);
            prop_assert!((witness.excess() - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn a_change_moves_the_meter_as_it_moves_a_bucket() {
        let mut witness = Witness::new(Some(share(10.0, 5.0)), at_ms(0));
        for _ in 0..5 {
            witness.release(at_ms(0), 1.0);
        }
        assert_eq!(witness.excess(), 0.0, "the whole burst");
        witness.change(Some(share(10.0, 2.0)), at_ms(0));
        witness.release(at_ms(100), 1.0);
        assert_eq!(witness.excess(), 0.0, "one more after the time of one");
        witness.change(Some(share(10.0, 9.0)), at_ms(100));
        witness.release(at_ms(100), 1.0);
        assert_eq!(witness.excess(), 1.0, "new room is empty");
        witness.change(None, at_ms(100));
        witness.change(Some(share(10.0, 9.0)), at_ms(60_000));
        witness.release(at_ms(60_100), 3.0);
        assert_eq!(
            witness.excess(),
            3.0,
            "a share that comes back is empty, and what was beyond is owed"
        );
    }
}
