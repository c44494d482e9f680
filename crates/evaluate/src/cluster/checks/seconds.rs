//! A run second by second: what subscribers saw, and whether the machine let the publishers send when they should.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;

use bench::cluster::Run;
use bench::sys::pause_for;

/// In a second in which the sender itself was later than this, latencies say more of the machine than of the brokers.
const LATE_MAX_US: u64 = 5000;

/// One second of a run.
#[derive(Debug)]
pub(super) struct Second {
    latency_us: Histogram<u64>,
    late_us: u64,
}

impl Second {
    /// Lets a second pass, calling `meanwhile` after each of `pauses` pauses.
    pub(super) fn of(run: &Run, pauses: u32, mut meanwhile: impl FnMut()) -> Second {
        for _ in 0..pauses {
            pause_for(Duration::from_secs(1) / pauses);
            meanwhile();
        }
        Second::now(run)
    }

    /// The figures since the last call.
    pub(super) fn now(run: &Run) -> Second {
        Second {
            latency_us: run.board.take_latency().whole,
            late_us: run.fleet.late_us.swap(0, Ordering::Relaxed),
        }
    }

    /// 99th percentile of end-to-end latency, in milliseconds.
    pub(super) fn p99_ms(&self) -> f64 {
        self.latency_us.value_at_quantile(0.99) as f64 / 1000.0
    }
}

/// 99th percentile over all messages of these seconds, in milliseconds.
pub(super) fn p99_ms(seconds: &[Second]) -> f64 {
    let Some((first, further)) = seconds.split_first() else {
        return 0.0;
    };
    let mut all = first.latency_us.clone();
    for second in further {
        // Of the same bounds, so nothing is out of range.
        let _ = all.add(&second.latency_us);
    }
    all.value_at_quantile(0.99) as f64 / 1000.0
}

/// The figures of each second, to be shown.
pub(super) fn each_p99_ms(seconds: &[Second]) -> Vec<f64> {
    seconds.iter().map(Second::p99_ms).collect()
}

/// In how many of them the machine held up the sender itself.
pub(super) fn unfair(seconds: &[Second]) -> usize {
    let unfair = seconds.iter().filter(|second| second.late_us > LATE_MAX_US);
    unfair.count()
}
