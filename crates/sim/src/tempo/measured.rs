//! What a simulated kernel gave its tasks.

use std::time::Duration;

use clock::Instant;
use hdrhistogram::Histogram;
use serde::Serialize;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// By task, in the spec's order.
    pub tasks: Vec<TaskMeasured>,
    /// Seconds that were measured.
    pub measured_s: f64,
    /// Seconds that threads had their processors, all together: what shares are shares of.
    pub scheduling_s: f64,
    /// The largest part of a period's length that arrived as work of all tasks together in any window of that length. Up to 1,
    /// no event waits longer than a period.
    pub demand_periods_max: f64,
    /// Times that credits were given out anew, since the beginning.
    pub periods: u64,
    /// Events that arrived and ended, since the beginning.
    pub steps: u64,
    /// Of every event that was served: equal specs have equal hashes.
    pub hash: u64,
}

/// What one task got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskMeasured {
    /// What it is called.
    pub name: String,
    /// The share that it declared.
    pub share: Option<f64>,
    /// Events since the beginning, dropped ones too. arrived = served + dropped + queued.
    pub arrived: u64,
    /// Events that were served since the beginning.
    pub served: u64,
    /// Events that found no room since the beginning.
    pub dropped: u64,
    /// Events that waited or were being served at the end.
    pub queued: u64,
    /// Times that the queue was full.
    pub full: u64,
    /// Seconds that its writer waited for room, since the beginning.
    pub blocked_s: f64,
    /// Events per second that arrived.
    pub arrival_rate: f64,
    /// Events per second that were served.
    pub throughput: f64,
    /// The part of all scheduling time that it was served for.
    pub obtained_share: f64,
    /// From arrival in the queue to the beginning of service.
    pub wait: Times,
    /// From arrival in the queue to the end of service.
    pub response: Times,
    /// Events that were present in the mean.
    pub mean_present: f64,
    /// The longest time that it had work and was not served.
    pub turn_wait_max_us: f64,
    /// The largest part of a period's length that arrived as its work in any window of that length. Up to its share, it does what
    /// a task with this share may.
    pub demand_periods_max: f64,
    /// Turns that ended more than a bucket's width of credits below zero.
    pub overruns: u64,
    /// The worst of them.
    pub overrun_max_us: f64,
    /// It had not emptied its queue for a hundred periods at the end.
    pub unstable: bool,
    /// Times that it became so.
    pub unstable_spells: u64,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half are no longer.
    pub p50_us: f64,
    /// 99 % are no longer.
    pub p99_us: f64,
    /// 99.9 % are no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// An event that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Whose, by the spec's order.
    pub task: usize,
    /// When it was put into its queue.
    pub arrived: Instant,
    /// When its service began.
    pub began: Instant,
    /// When its service ended.
    pub ended: Instant,
    /// Work of the same task that was unfinished when it arrived; what was left of a turn then counts whole.
    pub work_ahead: Duration,
}

impl Served {
    /// From its arrival to the beginning of its service.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.began.saturating_since(self.arrived)
    }
}

/// Collects times.
pub(super) struct TimesRecorder {
    /// Percentiles, to three digits.
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl TimesRecorder {
    pub(super) fn new() -> TimesRecorder {
        TimesRecorder {
            histogram: Histogram::new(3).expect("three digits are possible"),
            sum_ns: 0,
            max_ns: 0,
        }
    }

    pub(super) fn record(&mut self, time_ns: u64) {
        self.histogram
            .record(time_ns)
            .expect("the histogram grows with what it is given");
        self.sum_ns += u128::from(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    pub(super) fn times(&self) -> Times {
        let count = self.histogram.len();
        let percentile_us =
            |part| self.histogram.value_at_quantile(part).min(self.max_ns) as f64 / 1e3;
        Times {
            count,
            mean_us: self.sum_ns as f64 / count.max(1) as f64 / 1e3,
            p50_us: percentile_us(0.5),
            p99_us: percentile_us(0.99),
            p999_us: percentile_us(0.999),
            max_us: self.max_ns as f64 / 1e3,
        }
    }
}
