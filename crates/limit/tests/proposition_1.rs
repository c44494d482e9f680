//! Proposition 1 (SRTM-long, section 2.1 and appendix A): splitting a bucket never lowers the sum of
//! the delays, at any time, however the messages are distributed.

use std::time::Duration;

use clock::Instant;
use limit::oracle::sum_of_delays_until;
use limit::{Burst, Rate, TokenBucket};
use proptest::prelude::*;

const SPLITS: std::ops::RangeInclusive<usize> = 2..=8;

fn instants() -> impl Strategy<Value = Vec<Instant>> {
    let gap = prop_oneof![3 => Just(0u64), 3 => 0u64..3_000_000, 1 => 0u64..60_000_000];
    prop::collection::vec(gap, 1..120).prop_map(|gaps| {
        let mut now = Instant::ZERO;
        let arrival = |gap| {
            now += Duration::from_nanos(gap);
            now
        };
        gaps.into_iter().map(arrival).collect()
    })
}

/// k sub-buckets (r_l, b_l) in random proportions, each with at least one token of burst.
fn splits() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let share = (0.01..1.0f64, prop_oneof![Just(1.0), 1.0..12.0f64]);
    (prop::collection::vec(share, SPLITS), 100.0..3000.0f64).prop_map(|(shares, r)| {
        let whole: f64 = shares.iter().map(|(rate, _)| rate).sum();
        shares
            .into_iter()
            .map(|(rate, burst)| (r * rate / whole, burst))
            .collect()
    })
}

fn bucket(r: f64, b: f64) -> TokenBucket {
    let (rate, burst) = (
        Rate::new(r).expect("in range"),
        Burst::new(b).expect("in range"),
    );
    TokenBucket::full(rate, burst, Instant::ZERO)
}

proptest! {
    #[test]
    fn splitting_never_lowers_the_sum_of_delays(
        arrivals in instants(),
        splits in splits(),
        assignment in prop::collection::vec(any::<prop::sample::Index>(), 120),
        uneven in any::<bool>(),
    ) {
        let mut whole = bucket(splits.iter().map(|(r, _)| r).sum(), splits.iter().map(|(_, b)| b).sum());
        let mut parts: Vec<_> = splits.iter().map(|&(r, b)| bucket(r, b)).collect();
        let mut together = Vec::new();
        let mut apart = Vec::new();
        for (&arrival, index) in arrivals.iter().zip(&assignment) {
            // Half of the cases put most messages on one part.
            let part = if uneven { index.index(parts.len() * 4) % (parts.len() * 2) } else { index.index(parts.len()) };
            let part = part.min(parts.len() - 1);
            together.push(whole.take(arrival, 1.0));
            apart.push(parts[part].take(arrival, 1.0));
        }
        // S is linear between arrivals and departures, so these instants are enough for "at any t".
        // Each departure is rounded up by less than 1 ns, and Σ r_l by 10⁻¹⁶ of itself.
        let rounding = Duration::from_nanos(2 * arrivals.len() as u64);
        for &t in arrivals.iter().chain(&together).chain(&apart) {
            let (one, many) = (sum_of_delays_until(&arrivals, &together, t), sum_of_delays_until(&arrivals, &apart, t));
            prop_assert!(one <= many + rounding, "S({t:?}) = {one:?} in one bucket, {many:?} in {}", parts.len());
        }
    }
}
