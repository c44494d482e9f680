//! The sums of a run: latencies, lateness of the generator, and how often each message came.
//!
//! Latency counts from the scheduled instant to the subscriber's read, for messages scheduled
//! inside the window. Lateness is the generator's own part of it: how long after its schedule a
//! message was handed to the kernel.

use std::ops::Range;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::stamp::Stamp;

/// Largest time that the histograms tell apart.
const MAX_LATENCY_NS: u64 = 120_000_000_000;

/// A subscriber's record of one message, for checks that need every single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The broker's stamp, nanoseconds since the Unix epoch.
    pub broker_ns: i64,
    /// When the subscriber's read returned, nanoseconds since the Unix epoch.
    pub received_ns: u64,
    /// The sender.
    pub publisher: u32,
    /// Place in the run.
    pub sequence: u64,
}

/// The growing result of a run.
#[derive(Debug)]
pub struct Measurement {
    run: u32,
    window_ns: Range<u64>,
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
    counts: Counts,
    /// One bit per message of the run.
    seen: Vec<u64>,
    /// Per publisher, the last sequence that arrived plus one; 0 before the first.
    last_sequence: Vec<u64>,
}

/// Numbers of messages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Handed to the kernel or kept for a blocked connection, warm-up included.
    pub sent: u64,
    /// The part of `sent` that was due in the window.
    pub sent_in_window: u64,
    /// Not sent because a connection already had too much unsent.
    pub refused: u64,
    /// Different messages received, warm-up included.
    pub received: u64,
    /// The part of `received` that was read in the window.
    pub received_in_window: u64,
    /// Sent but never received.
    pub missing: u64,
    /// Received again.
    pub duplicates: u64,
    /// Overtaken by a later message of the same publisher.
    pub out_of_order: u64,
    /// Messages that are not of this run.
    pub foreign: u64,
}

/// Percentiles in microseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half are at most this.
    pub p50_us: f64,
    /// 90 of 100.
    pub p90_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
    /// The arithmetic mean.
    pub mean_us: f64,
}

impl Measurement {
    /// An empty result of run `run` for messages scheduled (and, for rates, received) within `window_ns` of the
    /// generator's monotonic clock.
    pub fn new(run: u32, publishers: u32, window_ns: Range<u64>) -> Self {
        Self {
            run,
            window_ns,
            latency: histogram(),
            lateness: histogram(),
            counts: Counts::default(),
            seen: Vec::new(),
            last_sequence: vec![0; publishers as usize],
        }
    }

    /// Records that `messages` due at `scheduled_ns` were handed over at `actual_ns`.
    #[inline]
    pub fn on_send(&mut self, scheduled_ns: u64, actual_ns: u64, messages: u64) {
        self.counts.sent += messages;
        if self.window_ns.contains(&scheduled_ns) {
            self.counts.sent_in_window += messages;
            self.lateness
                .saturating_record(actual_ns.saturating_sub(scheduled_ns));
        }
    }

    /// Records that `messages` were not sent since their connection was blocked for long.
    pub fn on_refuse(&mut self, messages: u64) {
        self.counts.refused += messages;
    }

    /// Records a message that the subscriber read at `now_ns`.
    #[inline]
    pub fn on_receive(&mut self, stamp: Stamp, now_ns: u64) {
        let Some(last_sequence) = self.last_sequence.get_mut(stamp.publisher as usize) else {
            self.counts.foreign += 1;
            return;
        };
        // A sequence beyond what was sent is damage, and must not make the bitmap grow.
        if stamp.run != self.run || stamp.sequence >= self.counts.sent + self.counts.refused {
            self.counts.foreign += 1;
            return;
        }
        let (word, bit) = ((stamp.sequence / 64) as usize, 1 << (stamp.sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize((word + 1).next_power_of_two(), 0);
        }
        if self.seen[word] & bit != 0 {
            self.counts.duplicates += 1;
            return;
        }
        self.seen[word] |= bit;
        if *last_sequence > stamp.sequence {
            self.counts.out_of_order += 1;
        } else {
            *last_sequence = stamp.sequence + 1;
        }
        self.counts.received += 1;
        if self.window_ns.contains(&now_ns) {
            self.counts.received_in_window += 1;
        }
        if self.window_ns.contains(&stamp.scheduled_ns) {
            self.latency
                .saturating_record(now_ns.saturating_sub(stamp.scheduled_ns));
        }
    }

    /// Whether every sent message has arrived.
    pub fn is_complete(&self) -> bool {
        self.counts.received == self.counts.sent
    }

    /// The numbers of messages so far.
    pub fn counts(&self) -> Counts {
        Counts {
            missing: self.counts.sent - self.counts.received,
            ..self.counts
        }
    }

    /// Latency from the scheduled instant to the subscriber's read.
    pub fn latency(&self) -> Percentiles {
        Percentiles::of(&self.latency)
    }

    /// How late the generator was.
    pub fn lateness(&self) -> Percentiles {
        Percentiles::of(&self.lateness)
    }
}

impl Percentiles {
    /// Reads the percentiles of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1000.0,
            mean_us: histogram.mean() / 1000.0,
        }
    }

    /// The percentiles of some times in nanoseconds.
    pub fn of_times(times_ns: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = histogram();
        for time_ns in times_ns {
            histogram.saturating_record(time_ns);
        }
        Self::of(&histogram)
    }
}

/// A histogram from 1 ns to [`MAX_LATENCY_NS`] with an error of 0.1 %.
fn histogram() -> Histogram<u64> {
    #[expect(
        clippy::expect_used,
        reason = "the bounds are constants that the library accepts"
    )]
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("valid bounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u32 = 9;

    fn stamp(publisher: u32, sequence: u64, scheduled_ns: u64) -> Stamp {
        Stamp {
            run: RUN,
            publisher,
            sequence,
            scheduled_ns,
        }
    }

    fn measurement() -> Measurement {
        Measurement::new(RUN, 2, 1000..2000)
    }

    #[test]
    fn only_messages_due_in_the_window_count_for_latency() {
        let mut measurement = measurement();
        for (sequence, scheduled_ns) in [(0, 999), (1, 1000), (2, 1999), (3, 2000)] {
            measurement.on_send(scheduled_ns, scheduled_ns + 5, 1);
            measurement.on_receive(stamp(0, sequence, scheduled_ns), scheduled_ns + 100);
        }
        assert_eq!(measurement.counts().sent, 4);
        assert_eq!(measurement.counts().sent_in_window, 2);
        assert_eq!(measurement.latency.len(), 2);
        assert_eq!(measurement.latency().max_us, 0.1);
        assert_eq!(measurement.lateness.len(), 2);
        assert_eq!(measurement.lateness().max_us, 0.005);
    }

    #[test]
    fn rate_counts_what_was_read_in_the_window() {
        let mut measurement = measurement();
        measurement.on_send(1900, 1900, 3);
        for (sequence, now_ns) in [(0, 1950), (1, 1999), (2, 2000)] {
            measurement.on_receive(stamp(0, sequence, 1900), now_ns);
        }
        assert_eq!(measurement.counts().received_in_window, 2);
        assert!(measurement.is_complete());
    }

    #[test]
    fn missing_duplicate_overtaken_and_foreign_messages_are_told_apart() {
        let mut measurement = measurement();
        measurement.on_send(1500, 1500, 5);
        measurement.on_receive(stamp(0, 1, 1500), 1600);
        measurement.on_receive(stamp(0, 1, 1500), 1600);
        measurement.on_receive(stamp(0, 0, 1500), 1600);
        measurement.on_receive(stamp(1, 2, 1500), 1600);
        measurement.on_receive(stamp(7, 3, 1500), 1600);
        measurement.on_receive(stamp(0, 99, 1500), 1600);
        measurement.on_receive(
            Stamp {
                run: 1,
                ..stamp(0, 3, 1500)
            },
            1600,
        );
        let counts = measurement.counts();
        assert_eq!((counts.received, counts.missing), (3, 2));
        assert_eq!(
            (counts.duplicates, counts.out_of_order, counts.foreign),
            (1, 1, 3)
        );
        assert!(!measurement.is_complete());
    }

    #[test]
    fn percentiles_of_known_times() {
        let percentiles = Percentiles::of_times((1..=1000).map(|time| time * 1000));
        for (got, expected) in [
            (percentiles.p50_us, 500.0),
            (percentiles.p90_us, 900.0),
            (percentiles.p99_us, 990.0),
            (percentiles.p999_us, 999.0),
            (percentiles.max_us, 1000.0),
            (percentiles.mean_us, 500.5),
        ] {
            assert!(
                (got / expected - 1.0).abs() < 0.002,
                "{got} instead of {expected}"
            );
        }
    }
}
