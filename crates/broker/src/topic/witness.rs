//! A limit's witness: what the worst window of releases was, on the clock of the releases themselves.
//!
//! The bucket decides on arrival times; messages leave a little later, when the reactor comes to it.
//! A meter that drains at the rate and rises with each release stands, at its peak, at the largest
//! count − r·(t − s) over all windows [s, t] so far; less the burst, that is by how much a window
//! exceeded the limit.

use clock::Instant;
use limit::{Limit, Rate};

/// The meter of one topic.
#[derive(Clone, Copy, Debug)]
pub struct Witness {
    level: f64,
    peak: f64,
    at: Instant,
}

impl Witness {
    /// Nothing has been released.
    #[must_use]
    pub fn new(now: Instant) -> Witness {
        Witness {
            level: 0.0,
            peak: 0.0,
            at: now,
        }
    }

    /// Notes that a message of `cost` tokens was released at `now`.
    pub fn release(&mut self, now: Instant, cost: f64, rate: Rate) {
        let drained = rate.get() * (now - self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.level = (self.level - drained).max(0.0) + cost;
        self.peak = self.peak.max(self.level);
    }

    /// Tokens by which the worst window exceeded r·(t − s) + b; negative where none reached it.
    #[must_use]
    pub fn excess(&self, limit: &Limit) -> f64 {
        self.peak - limit.burst.get()
    }
}

#[cfg(test)]
mod tests {
    use limit::oracle;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_peak_is_the_worst_window(gaps in prop::collection::vec(0..5_000_000u64, 1..200), rate in 1..5_000u32) {
            let limit = Limit::messages(f64::from(rate), 3.0).expect("valid");
            let mut now = Instant::ZERO;
            let mut witness = Witness::new(now);
            let mut releases = Vec::new();
            for gap in gaps {
                now = Instant::from_nanos(now.as_nanos() + gap);
                witness.release(now, 1.0, limit.rate);
                releases.push(now);
            }
            let expected = oracle::window_excess(&releases, limit.rate, limit.burst);
            prop_assert!((witness.excess(&limit) - expected).abs() < 1e-6);
        }
    }
}
