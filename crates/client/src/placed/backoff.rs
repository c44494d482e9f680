//! How long to wait before trying again.
//!
//! Thousands of publishers lose a broker at the same instant. Waits are therefore drawn from a range that grows with
//! each failure ("decorrelated jitter"), and even the first one is spread.

use std::time::Duration;

use clock::Xoshiro256PlusPlus;
use rand::Rng;

const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(1);

/// Waits between 100 ms and 1 s.
#[derive(Debug)]
pub(super) struct Backoff {
    random: Xoshiro256PlusPlus,
    last: Option<Duration>,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: clock::stream(seed, "placed-publisher-backoff"),
            last: None,
        }
    }

    /// Up to 100 ms the first time, then 100 ms to three times the last wait, at most 1 s.
    pub(super) fn next(&mut self) -> Duration {
        let (least, most) = match self.last {
            None => (Duration::ZERO, LEAST),
            Some(last) => (LEAST, (last * 3).clamp(LEAST, MOST)),
        };
        let span_ns = (most - least).as_nanos() as u64;
        let wait = least + Duration::from_nanos(self.random.next_u64() % (span_ns + 1));
        self.last = Some(wait.max(LEAST));
        wait
    }

    /// The last try went well.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_spread_and_bounded() {
        let mut backoff = Backoff::new(7);
        let first = backoff.next();
        assert!(first <= LEAST);
        let waits: Vec<Duration> = (0..1000).map(|_| backoff.next()).collect();
        assert!(waits.iter().all(|wait| (LEAST..=MOST).contains(wait)));
        let mean = waits.iter().sum::<Duration>() / 1000;
        assert!(mean > Duration::from_millis(300), "{mean:?}");
        backoff.reset();
        assert!(backoff.next() <= LEAST);
    }
}
