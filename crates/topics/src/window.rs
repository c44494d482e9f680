//! A profiling window of one topic: the latencies of a stretch of time, on their own and finer.
//!
//! Two things are kept. *Total*, from arrival to the consumer's output, is exact and covers every
//! delivery. *End to end* covers the sampled deliveries, each standing for as many as it was drawn
//! from. With [`DIRECT_SAMPLES_MIN`] samples the percentile is theirs; with fewer it is the
//! percentile of total plus the median of what the samples needed beyond it, which is nearly the
//! same for all of them. Redeliveries and deferred messages count as released and never as late.
//!
//! Histograms have three significant digits and resolve half a microsecond, up to a minute. One
//! window costs about 220 KiB while it is open; one that stays open for [`OPEN_MAX`] is thrown
//! away.

use std::time::Duration;

use clock::Instant;
use hdrhistogram::Histogram;

use super::latency::Landed;

/// Fewer samples than this tell nothing about a percentile.
pub const SAMPLES_MIN: u64 = 100;

/// Samples from which on they speak for themselves: ten lie beyond the 99th percentile.
pub const DIRECT_SAMPLES_MIN: u64 = 1000;

/// A window open for longer belongs to nobody any more.
pub const OPEN_MAX: Duration = Duration::from_secs(600);

const SHORTEST_NS: u64 = 1000;
const LONGEST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// How to run a profiling window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowOrder {
    /// Percentile of the end-to-end latency, e.g. 99.
    pub percentile: f64,
    /// Whether arrivals are traced.
    pub with_trace: bool,
    /// The latency that is promised at that percentile, microseconds: reports say from now on how it fares.
    pub promise_us: Option<f64>,
}

/// The result of a profiling window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowResult {
    /// Messages released within it.
    pub messages: u64,
    /// End-to-end latency at the percentile, microseconds; `None`: fewer samples than [`SAMPLES_MIN`].
    pub latency_us: Option<f64>,
    /// Median of the same.
    pub p50_us: Option<f64>,
    /// Samples behind it.
    pub samples: u64,
    /// Names of the publishers in `arrivals`, by their position.
    pub publishers: Vec<String>,
    /// Publish commands in order of arrival: nanoseconds since 1970, publisher, messages.
    pub arrivals: Vec<(u64, u32, u32)>,
    /// The trace did not fit (`TRACE_ARRIVALS_MAX`) and lacks its end.
    pub is_trace_cut: bool,
}

/// One open window.
#[derive(Debug)]
pub struct Window {
    percentile: f64,
    began: Instant,
    messages: u64,
    total: Histogram<u32>,
    end_to_end: Histogram<u32>,
    beyond_total: Histogram<u32>,
    samples: u64,
}

impl Window {
    /// An empty window that is asked for `percentile` (50 to 100).
    #[must_use]
    pub fn new(percentile: f64, now: Instant) -> Window {
        let histogram = || {
            Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS)
                .expect("constant bounds are valid")
        };
        Window {
            percentile: percentile.clamp(0.0, 100.0),
            began: now,
            messages: 0,
            total: histogram(),
            end_to_end: histogram(),
            beyond_total: histogram(),
            samples: 0,
        }
    }

    /// Whether it has been open too long for anybody to ask for it.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        now - self.began >= OPEN_MAX
    }

    /// Counts messages let pass by the limiter.
    #[inline]
    pub fn release(&mut self, messages: u32) {
        self.messages += u64::from(messages);
    }

    /// Records a first delivery: its time from arrival to the consumer's output.
    #[inline]
    pub fn record_total(&mut self, total: Duration) {
        self.total.saturating_record(nanos(total));
    }

    /// Records a sampled delivery. One that arrived before the window began belongs to it no less than
    /// its `total` does, if it was copied within it.
    pub fn record_landed(&mut self, landed: &Landed) {
        if landed.probe.copied < self.began {
            return;
        }
        self.samples += 1;
        let weight = landed.weight;
        self.end_to_end
            .saturating_record_n(nanos(landed.end_to_end), weight);
        self.beyond_total
            .saturating_record_n(nanos(landed.beyond_total()), weight);
    }

    /// Its result.
    #[must_use]
    pub fn result(&self) -> WindowResult {
        let is_direct = self.samples >= DIRECT_SAMPLES_MIN;
        let samples = match is_direct {
            true => self.samples,
            false => self.total.len(),
        };
        let at = |percentile: f64| {
            let nanos = match is_direct {
                true => self.end_to_end.value_at_percentile(percentile),
                false => {
                    self.total.value_at_percentile(percentile)
                        + self.beyond_total.value_at_percentile(50.0)
                }
            };
            (samples >= SAMPLES_MIN).then_some(nanos as f64 / 1000.0)
        };
        WindowResult {
            messages: self.messages,
            latency_us: at(self.percentile),
            p50_us: at(50.0),
            samples,
            ..WindowResult::default()
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(LONGEST_NS, |nanos| nanos.min(LONGEST_NS))
}

#[cfg(test)]
mod tests;
