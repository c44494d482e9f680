//! Delays measured by echoes: figures of a sample, and its distribution on a logarithmic scale.
//!
//! The sample is kept whole and sorted, so percentiles of several publishers together are exact.
//! Only sampled messages are seen: the largest delay is the largest of the marked messages, as in
//! the Tempo paper.

use serde::{Deserialize, Serialize};
use statistics::percentile_of;

/// Rows of the distribution per factor of ten.
const ROWS_PER_DECADE: i32 = 10;
/// Upper edge of the first row, microseconds: what is below is not told apart.
const FIRST_EDGE_US: f64 = 10.0;
/// Rows at most: the last one ends at 10 s.
const ROWS_MAX: i32 = 6 * ROWS_PER_DECADE;

/// Figures of a sample of delays.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Messages of the sample.
    pub sampled_messages: u64,
    /// The arithmetic mean.
    pub mean_us: f64,
    /// Half are at most this.
    pub p50_us: f64,
    /// 95 of 100 are.
    pub p95_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// The largest.
    pub max_us: f64,
    /// The distribution, from the first row that is not empty to the last.
    pub rows: Vec<DelayRow>,
}

/// One row of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelayRow {
    /// Delays of the row are at most this, and more than the row before ends at.
    pub up_to_us: f64,
    /// Messages.
    pub messages: u64,
}

impl Delays {
    /// The figures of delays in nanoseconds, in any order.
    pub fn of(delays_ns: impl IntoIterator<Item = u64>) -> Self {
        let mut delays_ns: Vec<u64> = delays_ns.into_iter().collect();
        delays_ns.sort_unstable();
        let Some(&max_ns) = delays_ns.last() else {
            return Self::default();
        };
        let sum: f64 = delays_ns.iter().map(|&delay_ns| delay_ns as f64).sum();
        Self {
            sampled_messages: delays_ns.len() as u64,
            mean_us: sum / delays_ns.len() as f64 / 1000.0,
            p50_us: percentile_us(&delays_ns, 50.0),
            p95_us: percentile_us(&delays_ns, 95.0),
            p99_us: percentile_us(&delays_ns, 99.0),
            max_us: max_ns as f64 / 1000.0,
            rows: distribution(&delays_ns),
        }
    }
}

/// The delay that `percentile` percent of `sorted_ns` do not exceed.
fn percentile_us(sorted_ns: &[u64], percentile: f64) -> f64 {
    percentile_of(sorted_ns, percentile).map_or(f64::NAN, |ns| ns as f64 / 1000.0)
}

fn distribution(sorted_ns: &[u64]) -> Vec<DelayRow> {
    let mut rows = Vec::new();
    let mut counted = 0;
    for row in 0..=ROWS_MAX {
        let edge_us = FIRST_EDGE_US * 10_f64.powf(f64::from(row) / f64::from(ROWS_PER_DECADE));
        let below = if row == ROWS_MAX {
            sorted_ns.len()
        } else {
            sorted_ns.partition_point(|&ns| ns as f64 / 1000.0 <= edge_us)
        };
        let messages = (below - counted) as u64;
        if messages > 0 || !rows.is_empty() {
            rows.push(DelayRow {
                up_to_us: (edge_us * 10.0).round() / 10.0,
                messages,
            });
        }
        counted = below;
        if counted == sorted_ns.len() {
            break;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_of_known_delays() {
        let delays = Delays::of((1..=1000).rev().map(|us| us * 1000));
        for (got, expected) in [
            (delays.mean_us, 500.5),
            (delays.p50_us, 500.0),
            (delays.p95_us, 950.0),
            (delays.p99_us, 990.0),
            (delays.max_us, 1000.0),
        ] {
            assert_eq!(got, expected);
        }
        assert_eq!(Delays::of([]), Delays::default());
    }

    #[test]
    fn rows_begin_and_end_where_there_are_delays() {
        let delays = Delays::of([150_000, 150_001, 1_000_000]);
        let first = delays.rows.first().expect("three delays");
        assert_eq!((first.up_to_us, first.messages), (158.5, 2));
        let last = delays.rows.last().expect("three delays");
        assert_eq!((last.up_to_us, last.messages), (1000.0, 1));
        let far = Delays::of([u64::MAX]);
        assert_eq!(far.rows.len(), 1);
    }

    proptest! {
        #[test]
        fn every_delay_is_in_one_row(delays_ns in prop::collection::vec(0_u64..1 << 40, 0..200)) {
            let delays = Delays::of(delays_ns.iter().copied());
            let counted: u64 = delays.rows.iter().map(|row| row.messages).sum();
            prop_assert_eq!(counted, delays_ns.len() as u64);
            prop_assert!(delays.rows.is_sorted_by(|a, b| a.up_to_us < b.up_to_us));
            prop_assert!(delays.p50_us <= delays.p95_us && delays.p99_us <= delays.max_us);
        }
    }
}
