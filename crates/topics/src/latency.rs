//! Where a message's time went, stage by stage, and which messages are followed to their
//! subscriber.
//!
//! [Histograms](Histogram) in nanoseconds with two significant digits, up to a minute; a topic gets
//! its set with its first message. Their summary is made on demand and kept until there is more to
//! tell.
//!
//! All stages but one cover every message. *End to end* needs the subscriber's side and is sampled:
//! a drawn message becomes a [`Probe`], the reactor follows it through the socket and brings it
//! back as [`Landed`]. `docs/latency.md` says what is measured and what is not.

use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use link::Lateness;

use super::histogram::{Histogram, LONGEST_NS};
use super::sampler::Sampler;
use super::store::{Arrival, Stored};
use super::topic::TopicKey;
use super::window::Window;
use crate::stats::StageLatency;

/// Messages followed per second and topic, in ordinary times.
const SAMPLES_PER_SECOND: u32 = 50;

/// The same while a profiling window is open: all of them up to that rate.
const WINDOW_SAMPLES_PER_SECOND: u32 = 2000;

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
    /// Sent by the publisher → at the subscriber's kernel. Sampled.
    EndToEnd,
}

/// Every stage with the name it has outside.
pub const STAGES: [(Stage, &str); 8] = [
    (Stage::Read, "read"),
    (Stage::Limiter, "limiter"),
    (Stage::Release, "release"),
    (Stage::Queue, "queue"),
    (Stage::Write, "write"),
    (Stage::Fin, "fin"),
    (Stage::Total, "total"),
    (Stage::EndToEnd, "end_to_end"),
];

/// A message that is followed to its subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its topic; may be gone before the probe lands.
    pub topic: TopicKey,
    /// Arrival of its last byte.
    pub arrived: Instant,
    /// When it was copied to the consumer's output.
    pub copied: Instant,
    /// Half the round trip of its publisher's connection.
    pub half_rtt_us: u32,
    /// Deliveries that it stands for.
    pub weight: u32,
}

/// A probe that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The message that was followed.
    pub probe: Probe,
    /// Deliveries that it stands for: its own, and those of the probes that it was chosen from.
    pub weight: u32,
    /// From the publisher's send to the subscriber's kernel.
    pub end_to_end: Duration,
}

/// One histogram per stage, the sampler, and the profiling window if one is open.
#[derive(Debug)]
pub struct StageHistograms {
    stages: Box<[Histogram; STAGES.len()]>,
    /// The number of latencies that it covers, and the summary.
    summary: Option<(u64, Arc<[StageLatency]>)>,
    sampler: Sampler,
    window: Option<Box<Window>>,
    promise: Option<Promise>,
}

/// How a promise fared since the last report.
#[derive(Debug)]
struct Promise {
    latency: Duration,
    delivered: u64,
    late: u64,
}

impl Probe {
    /// A probe for a message of `topic` that has just been copied, drawn from `weight` of them.
    #[must_use]
    pub fn new(topic: TopicKey, arrival: &Arrival, copied: Instant, weight: u32) -> Probe {
        Probe {
            topic,
            arrived: arrival.at,
            copied,
            half_rtt_us: arrival.half_rtt_us,
            weight,
        }
    }
}

impl Landed {
    /// The part of `end_to_end` that the stage *total* does not hold.
    #[must_use]
    pub fn beyond_total(&self) -> Duration {
        let total = self.probe.copied - self.probe.arrived;
        self.end_to_end.saturating_sub(total)
    }
}

impl Default for StageHistograms {
    fn default() -> Self {
        StageHistograms {
            stages: Box::default(),
            summary: None,
            sampler: Sampler::new(SAMPLES_PER_SECOND),
            window: None,
            promise: None,
        }
    }
}

impl StageHistograms {
    /// Records that `count` messages took `latency` in `stage`.
    #[inline]
    pub fn record(&mut self, stage: Stage, latency: Duration, count: u32) {
        if stage == Stage::Limiter
            && let Some(window) = &mut self.window
        {
            window.release(count);
        }
        let nanos = (latency.as_nanos() as u64).min(LONGEST_NS);
        self.stages[stage as usize].record(nanos, count);
    }

    /// Records that a message was copied to a consumer's output, after `attempts` deliveries before. If it is
    /// to be followed, gives the number of deliveries that it then stands for. Redeliveries and deferred
    /// messages are late on purpose and never followed.
    #[inline]
    pub fn record_delivery(
        &mut self,
        message: &Stored,
        attempts: u16,
        now: Instant,
    ) -> Option<u32> {
        let total = now - message.arrival.at;
        self.record(Stage::Total, total, 1);
        if attempts > 0 || message.due > message.arrival.read {
            return None;
        }
        if let Some(promise) = &mut self.promise {
            promise.delivered += 1;
            promise.late += u64::from(total > promise.latency);
        }
        if let Some(window) = &mut self.window {
            window.record_total(total);
            if window.is_stale(now) {
                self.close_window();
            }
        }
        self.sampler.draw(now)
    }

    /// Records a message that was followed.
    pub fn record_landed(&mut self, landed: &Landed) {
        self.record(Stage::EndToEnd, landed.end_to_end, landed.weight);
        if let Some(window) = &mut self.window {
            window.record_landed(landed);
        }
    }

    /// Counts as late, from now on, what takes longer than this, in microseconds; `None`: nothing is promised.
    pub fn promise(&mut self, latency_us: Option<f64>) {
        let latency = latency_us.filter(|us| us.is_finite() && *us > 0.0);
        let latency = latency.map(|us| Duration::from_nanos((us * 1e3) as u64));
        if self.promise.as_ref().map(|promise| promise.latency) != latency {
            self.promise = latency.map(|latency| Promise {
                latency,
                delivered: 0,
                late: 0,
            });
        }
    }

    /// How the promise fared since this was asked last, where there is one and `backlog` messages wait.
    pub fn take_lateness(&mut self, backlog: u64) -> Option<Lateness> {
        let promise = self.promise.as_mut()?;
        Some(Lateness {
            delivered: std::mem::take(&mut promise.delivered),
            late: std::mem::take(&mut promise.late),
            backlog,
        })
    }

    /// Opens a profiling window in place of one that may be open.
    pub fn open_window(&mut self, window: Window) {
        self.window = Some(Box::new(window));
        self.sampler.set_per_second(WINDOW_SAMPLES_PER_SECOND);
    }

    /// Closes the profiling window, if one is open.
    pub fn close_window(&mut self) -> Option<Box<Window>> {
        self.sampler.set_per_second(SAMPLES_PER_SECOND);
        self.window.take()
    }

    /// Percentiles of all stages in microseconds. Costs next to nothing while nothing was recorded since the last time.
    pub fn summary(&mut self) -> Arc<[StageLatency]> {
        let count = self.stages.iter().map(Histogram::count).sum();
        match &self.summary {
            Some((told, summary)) if *told == count => Arc::clone(summary),
            _ => {
                let stages = STAGES.iter();
                let summary: Arc<[StageLatency]> = stages
                    .map(|&(stage, name)| summary_of(name, &self.stages[stage as usize]))
                    .collect();
                self.summary = Some((count, Arc::clone(&summary)));
                summary
            }
        }
    }
}

fn summary_of(stage: &'static str, histogram: &Histogram) -> StageLatency {
    let us = |nanos: u64| nanos as f64 / 1000.0;
    let [p50, p95, p99, p999] = histogram.quantiles([0.50, 0.95, 0.99, 0.999]);
    StageLatency {
        stage,
        count: histogram.count(),
        sum_us: histogram.sum_ns() / 1000,
        p50_us: us(p50),
        p95_us: us(p95),
        p99_us: us(p99),
        p999_us: us(p999),
        max_us: us(histogram.max_ns()),
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
        let snapshot = stages.summary();
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

    #[test]
    fn a_summary_is_made_anew_only_where_there_is_more_to_tell() {
        let mut stages = StageHistograms::default();
        stages.record(Stage::Read, Duration::from_micros(3), 1);
        let first = stages.summary();
        assert!(Arc::ptr_eq(&first, &stages.summary()));
        stages.record(Stage::Fin, Duration::from_micros(3), 2);
        let fin = |stages: &[StageLatency]| stages[Stage::Fin as usize].count;
        assert_eq!((fin(&first), fin(&stages.summary())), (0, 2));
    }
}
