//! Where a message's time went, stage by stage.
//!
//! HDR histograms in nanoseconds with two significant digits (about 15 KiB each); a topic gets its
//! set with its first message. Longer than a minute is recorded as a minute.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::stats::StageLatency;

const LONGEST_NS: u64 = 60_000_000_000;

/// A stretch of a message's way through the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Arrival of its last byte → read by the reactor.
    Read,
    /// Read → let pass by the limiter.
    Limiter,
    /// Due by its token → let pass, for messages that waited for one: how late the timer was.
    Release,
    /// Let pass → copied to a consumer's output.
    Queue,
    /// Copied → taken by the consumer's socket.
    Write,
    /// Copied → finished by the consumer.
    Fin,
    /// Arrival → copied to a consumer's output: the broker's share of the end-to-end latency.
    Total,
}

/// Every stage with the name it has outside.
pub const STAGES: [(Stage, &str); 7] = [
    (Stage::Read, "read"),
    (Stage::Limiter, "limiter"),
    (Stage::Release, "release"),
    (Stage::Queue, "queue"),
    (Stage::Write, "write"),
    (Stage::Fin, "fin"),
    (Stage::Total, "total"),
];

/// One histogram per stage.
#[derive(Debug)]
pub struct StageHistograms(Box<[StageHistogram; STAGES.len()]>);

#[derive(Debug)]
struct StageHistogram {
    histogram: Histogram<u32>,
    sum_ns: u64,
}

impl Default for StageHistograms {
    fn default() -> Self {
        StageHistograms(Box::new(std::array::from_fn(|_| StageHistogram {
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 2)
                .expect("constant bounds are valid"),
            sum_ns: 0,
        })))
    }
}

impl StageHistograms {
    /// Records that `count` messages took `latency` in `stage`.
    #[inline]
    pub fn record(&mut self, stage: Stage, latency: Duration, count: u32) {
        let nanos = (latency.as_nanos() as u64).min(LONGEST_NS);
        let entry = &mut self.0[stage as usize];
        entry.sum_ns = entry
            .sum_ns
            .saturating_add(nanos.saturating_mul(u64::from(count)));
        entry.histogram.saturating_record_n(nanos, count);
    }

    /// Percentiles of all stages in microseconds.
    #[must_use]
    pub fn snapshot(&self) -> Vec<StageLatency> {
        let us = |nanos: u64| nanos as f64 / 1000.0;
        STAGES
            .iter()
            .map(|&(stage, name)| {
                let StageHistogram { histogram, sum_ns } = &self.0[stage as usize];
                StageLatency {
                    stage: name,
                    count: histogram.len(),
                    sum_us: sum_ns / 1000,
                    p50_us: us(histogram.value_at_quantile(0.50)),
                    p95_us: us(histogram.value_at_quantile(0.95)),
                    p99_us: us(histogram.value_at_quantile(0.99)),
                    p999_us: us(histogram.value_at_quantile(0.999)),
                    max_us: us(histogram.max()),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_kept_apart_and_weighted() {
        let mut stages = StageHistograms::default();
        stages.record(Stage::Queue, Duration::from_micros(10), 99);
        stages.record(Stage::Queue, Duration::from_millis(5), 1);
        stages.record(Stage::Fin, Duration::from_secs(3600), 1);
        let snapshot = stages.snapshot();
        let by_name = |name: &str| {
            snapshot
                .iter()
                .find(|s| s.stage == name)
                .expect("every stage is there")
        };
        let queue = by_name("queue");
        assert_eq!((queue.count, queue.sum_us), (100, 99 * 10 + 5000));
        assert!(
            (queue.p50_us - 10.0).abs() < 0.2 && (queue.max_us - 5000.0).abs() < 50.0,
            "{queue:?}"
        );
        assert!(
            (by_name("fin").max_us - 60e6).abs() < 0.6e6,
            "an hour is recorded as a minute"
        );
        assert_eq!(by_name("read").count, 0);
    }
}
