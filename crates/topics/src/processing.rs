//! How long messages take from their arrival to their FIN, over a sliding window: what nsqd calls end-to-end processing latency.
//!
//! A channel has two histograms, each of half a window, by turns; told are both, so that they span between half a window and a whole
//! one. They are made only where somebody asks for percentiles, and their memory stays the same in steady state.

use std::sync::Arc;
use std::time::Duration;

use clock::Instant;

use super::histogram::Histogram;
use crate::stats::ProcessingStats;

/// Which percentiles are told, over which time.
#[derive(Clone, Debug)]
pub(super) struct ProcessingOrder {
    /// As they are told, each above 0 and at most 1.
    pub(super) percentiles: Arc<[f64]>,
    /// The window.
    pub(super) window: Duration,
}

/// What a channel has measured.
#[derive(Debug)]
pub(super) struct Processing {
    half: Duration,
    /// In microseconds, so that the longest that is told apart is 16 hours and not a minute.
    halves: [Histogram; 2],
    /// Which of them is filled.
    current: usize,
    /// Since when; `None` before the first FIN.
    begun: Option<Instant>,
}

impl Processing {
    /// Nothing yet.
    pub(super) fn new(window: Duration) -> Processing {
        Processing {
            half: (window / 2).max(Duration::from_nanos(1)),
            halves: Default::default(),
            current: 0,
            begun: None,
        }
    }

    /// Counts a message that arrived at `arrived` and was finished now.
    pub(super) fn record(&mut self, arrived: Instant, now: Instant) {
        let begun = *self.begun.get_or_insert(now);
        let passed = self.halves_since(begun, now);
        if passed > 0 {
            self.current ^= 1;
            self.halves[self.current].clear();
            if passed > 1 {
                self.halves[self.current ^ 1].clear();
            }
            let beyond = (now - begun).as_nanos() % self.half.as_nanos();
            self.begun = Some(now - Duration::from_nanos(u64::try_from(beyond).unwrap_or(0)));
        }
        let us = u64::try_from((now - arrived).as_micros()).unwrap_or(u64::MAX);
        self.halves[self.current].record(us, 1);
    }

    /// Adds to `sum` what lies within the window at `now`.
    pub(super) fn add_to(&self, sum: &mut Histogram, now: Instant) {
        let Some(begun) = self.begun else { return };
        match self.halves_since(begun, now) {
            0 => self.halves.iter().for_each(|half| sum.add(half)),
            1 => sum.add(&self.halves[self.current]),
            _ => {}
        }
    }

    fn halves_since(&self, begun: Instant, now: Instant) -> u128 {
        (now - begun).as_nanos() / self.half.as_nanos()
    }
}

impl ProcessingOrder {
    /// What is told of such latencies.
    pub(super) fn stats(&self, latencies_us: &Histogram) -> ProcessingStats {
        let value_ns = |quantile: f64| latencies_us.quantiles([quantile])[0].saturating_mul(1000);
        ProcessingStats {
            count: latencies_us.count(),
            percentiles: self
                .percentiles
                .iter()
                .map(|&quantile| (quantile, value_ns(quantile)))
                .collect(),
        }
    }
}
