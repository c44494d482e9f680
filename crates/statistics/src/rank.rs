//! Percentiles by nearest rank.

/// Part of a product that its rounding may have added.
const ROUNDING: f64 = 1e-12;

/// The rank, from 1, of the sample that `percentile` percent of `count` samples do not exceed: the least rank with so many
/// samples at or below it. At least 1 and at most `count`, but 1 where there are none; percentiles beyond 0 and 100 count as these.
///
/// The product's rounding never asks for one more than a whole number: of 1,000 samples, p99.9 is the 999th.
#[must_use]
pub fn nearest_rank(count: u64, percentile: f64) -> u64 {
    let exact = count as f64 * percentile / 100.0;
    ((exact - exact * ROUNDING).ceil() as u64).clamp(1, count.max(1))
}

/// The sample that `percentile` percent of these do not exceed; `None` without any. They must be sorted.
#[must_use]
pub fn percentile_of<T: Copy>(sorted: &[T], percentile: f64) -> Option<T> {
    let rank = nearest_rank(sorted.len() as u64, percentile);
    sorted.get(rank as usize - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_the_least_with_so_many_at_or_below() {
        for (count, percentile, rank) in [
            (1, 0.0, 1),
            (1, 99.0, 1),
            (2, 50.0, 1),
            (3, 50.0, 2),
            (100, 99.0, 99),
            (101, 99.0, 100),
            (100, 7.0, 7),
            (1000, 99.9, 999),
            (1_000_000, 99.9999, 999_999),
            (7, 50.0, 4),
            (1001, 99.9, 1000),
            (50, 100.0, 50),
            (50, 200.0, 50),
            (50, -1.0, 1),
            (0, 50.0, 1),
        ] {
            assert_eq!(
                nearest_rank(count, percentile),
                rank,
                "p{percentile} of {count}"
            );
        }
    }

    #[test]
    fn every_whole_part_is_itself() {
        for count in [100, 1_000, 10_000, 1_000_000, 16_777_200] {
            for (percentile, thousandth) in [(50.0, 500), (95.0, 950), (99.0, 990), (99.9, 999)] {
                let rank = nearest_rank(count, percentile);
                assert_eq!(
                    rank,
                    (count * thousandth).div_ceil(1000),
                    "p{percentile} of {count}"
                );
            }
        }
    }

    #[test]
    fn samples_are_picked_by_rank() {
        let samples = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(percentile_of(&samples, 90.0), Some(9));
        assert_eq!(percentile_of(&samples, 91.0), Some(10));
        assert_eq!(percentile_of::<u64>(&[], 50.0), None);
    }
}
