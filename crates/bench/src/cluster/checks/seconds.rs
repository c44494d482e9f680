//! A run second by second: what subscribers saw, and whether the machine let the publishers send when they should.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::cluster::Run;
use crate::sys::pause_for;

/// In a second in which the sender itself was later than this, latencies say more of the machine than of the brokers.
const LATE_MAX_US: u64 = 5000;

/// One second of a run.
#[derive(Debug)]
pub(super) struct Second {
    latency_us: Histogram<u64>,
    late_us: u64,
}

impl Second {
    /// Lets a second pass, in which `meanwhile` is called after each of so many pauses.
    pub(super) fn of(run: &Run, pauses: u32, mut meanwhile: impl FnMut()) -> Second {
        for _ in 0..pauses {
            pause_for(Duration::from_secs(1) / pauses);
            meanwhile();
        }
        Second::now(run)
    }

    /// What has been since this was asked last.
    pub(super) fn now(run: &Run) -> Second {
        Second {
            latency_us: run.board.take_latency().whole,
            late_us: run.fleet.late_us.swap(0, Ordering::Relaxed),
        }
    }

    /// Whether its latencies are the brokers' doing.
    pub(super) fn is_fair(&self) -> bool {
        self.late_us <= LATE_MAX_US
    }

    /// 99th percentile of end-to-end latency, in milliseconds.
    pub(super) fn p99_ms(&self) -> f64 {
        self.latency_us.value_at_quantile(0.99) as f64 / 1000.0
    }
}

/// 99th percentile over all messages of the fair ones of these seconds, in milliseconds.
pub(super) fn p99_ms(seconds: &[Second]) -> f64 {
    let mut fair = seconds.iter().filter(|second| second.is_fair());
    let Some(first) = fair.next() else {
        return 0.0;
    };
    let mut all = first.latency_us.clone();
    for second in fair {
        // Of the same bounds, so nothing is out of range.
        let _ = all.add(&second.latency_us);
    }
    all.value_at_quantile(0.99) as f64 / 1000.0
}

/// The figures of each second, to be shown.
pub(super) fn each_p99_ms(seconds: &[Second]) -> Vec<f64> {
    seconds.iter().map(Second::p99_ms).collect()
}

/// Numbers of the seconds that the machine spoilt.
pub(super) fn unfair(seconds: &[Second]) -> Vec<usize> {
    let numbered = seconds.iter().enumerate();
    let unfair = numbered.filter(|(_, second)| !second.is_fair());
    unfair.map(|(number, _)| number).collect()
}
