//! The record of a run: latencies by broker, seconds, a hash of every departure, and the trace of a
//! window.

use hdrhistogram::Histogram;
use placement::{Left, PublisherIndex, Trace};
use workload::Arrival;

use crate::measure::Second;

/// Publish commands of one trace, at most, as in a broker.
const TRACED_MAX: usize = 1 << 20;

/// The longest latency that is told apart: an hour.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Multiplier of the hash (FxHash's).
const HASH_PRIME: u64 = 0x517c_c1b7_2722_0a95;

/// Latencies of the messages of one broker.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Nanoseconds, to three digits.
    histogram: Histogram<u64>,
    sum_ns: f64,
    /// What messages waited for tokens after they had been served.
    access_delay_ns: f64,
    waited: u64,
}

/// What was recorded.
pub(crate) struct Recording {
    pub(crate) brokers: Vec<Recorded>,
    /// Of all brokers together, second by second.
    pub(crate) seconds: Vec<Second>,
    /// Of every departure: its broker, when it was due, when it left.
    pub(crate) hash: u64,
    pub(crate) trace: Option<Trace>,
}

/// Records while it is told to.
pub(super) struct Recorder {
    is_on: bool,
    begin_ns: u64,
    brokers: Vec<Recorded>,
    second: Recorded,
    seconds: Vec<Second>,
    keeps_seconds: bool,
    hash: u64,
    traced: Option<Vec<placement::Arrival>>,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        Recorded {
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
                .expect("constant bounds are valid"),
            sum_ns: 0.0,
            access_delay_ns: 0.0,
            waited: 0,
        }
    }

    pub(crate) fn messages(&self) -> u64 {
        self.histogram.len()
    }

    /// Messages that the limit held.
    pub(crate) fn waited(&self) -> u64 {
        self.waited
    }

    /// Microseconds; `None` without messages.
    pub(crate) fn percentile_us(&self, percentile: f64) -> Option<f64> {
        let has_any = !self.histogram.is_empty();
        has_any.then(|| self.histogram.value_at_percentile(percentile) as f64 / 1e3)
    }

    /// Microseconds; 0 without messages.
    pub(crate) fn mean_us(&self) -> f64 {
        self.sum_ns / self.messages().max(1) as f64 / 1e3
    }

    /// Microseconds; 0 without messages.
    pub(crate) fn access_delay_us(&self) -> f64 {
        self.access_delay_ns / self.messages().max(1) as f64 / 1e3
    }

    pub(crate) fn add(&mut self, other: &Recorded) {
        // Equal bounds: adding cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.access_delay_ns += other.access_delay_ns;
        self.waited += other.waited;
    }

    #[inline]
    fn record(&mut self, latency_ns: f64, waited_ns: f64) {
        self.histogram.saturating_record(latency_ns as u64);
        self.sum_ns += latency_ns;
        self.access_delay_ns += waited_ns;
        self.waited += u64::from(waited_ns > 0.0);
    }

    fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0.0;
        self.access_delay_ns = 0.0;
        self.waited = 0;
    }
}

impl Recorder {
    pub(super) fn new(brokers: usize) -> Self {
        Recorder {
            is_on: false,
            begin_ns: 0,
            brokers: vec![Recorded::new(); brokers],
            second: Recorded::new(),
            seconds: Vec::new(),
            keeps_seconds: false,
            hash: 0,
            traced: None,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64, with_trace: bool) {
        self.is_on = true;
        self.begin_ns = now_ns;
        self.brokers.iter_mut().for_each(Recorded::clear);
        self.second.clear();
        self.seconds.clear();
        self.hash = 0;
        self.traced = with_trace.then(Vec::new);
    }

    pub(super) fn end(&mut self, now_ns: u64) -> Recording {
        self.is_on = false;
        let begin_ns = self.begin_ns;
        let trace = self.traced.take().map(|arrivals| {
            // A trace that was cut is complete up to its last command.
            let end_ns = match arrivals.last() {
                Some(last) if arrivals.len() == TRACED_MAX => last.at_ns,
                _ => now_ns,
            };
            Trace::new(arrivals, begin_ns, end_ns)
        });
        Recording {
            brokers: self.brokers.clone(),
            seconds: std::mem::take(&mut self.seconds),
            hash: self.hash,
            trace,
        }
    }

    /// Seconds are kept one by one from now on.
    pub(super) fn keep_seconds(&mut self) {
        self.keeps_seconds = true;
    }

    /// A second is over.
    pub(super) fn second(&mut self) {
        if self.is_on && self.keeps_seconds {
            self.seconds.push(Second {
                messages: self.second.messages(),
                p99_us: self.second.percentile_us(99.0),
            });
            self.second.clear();
        }
    }

    #[inline]
    pub(super) fn arrived(&mut self, at_ns: u64, arrival: &Arrival) {
        if let Some(traced) = &mut self.traced
            && traced.len() < TRACED_MAX
        {
            traced.push(placement::Arrival {
                at_ns,
                publisher: PublisherIndex(arrival.publisher),
                messages: arrival.messages,
            });
        }
    }

    #[inline]
    pub(super) fn left(&mut self, broker: usize, left: &Left, base_ns: f64) {
        if !self.is_on {
            return;
        }
        let latency_ns = left.left_ns - left.due_ns as f64 + base_ns;
        self.brokers[broker].record(latency_ns, left.waited_ns);
        if self.keeps_seconds {
            self.second.record(latency_ns, left.waited_ns);
        }
        let event = left.left_ns.to_bits() ^ left.due_ns.rotate_left(32) ^ broker as u64;
        self.hash = (self.hash.rotate_left(5) ^ event).wrapping_mul(HASH_PRIME);
    }
}
