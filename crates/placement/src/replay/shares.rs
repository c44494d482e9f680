//! A limit divided over brokers in proportion to the rates placed there.
//!
//! The TB Adaptor does this later with observed traffic; here the declared rates stand in for it.

use limit::{Burst, Rate};

/// Each broker's sub-bucket: r_l and b_l in proportion to `rates`, b_l at least `floors[l]` as far as
/// the burst holds all of them. Σ (r_l, b_l) ≤ (r, b), except that no bucket is smaller than one token.
/// A broker without a rate gets none.
pub(crate) fn divide(
    (rate, burst): (Rate, Burst),
    rates: &[f64],
    floors: &[f64],
) -> Vec<Option<(Rate, Burst)>> {
    let sum: f64 = rates.iter().sum();
    let bursts = bursts(burst.get(), rates, floors);
    let shares = rates.iter().zip(bursts);
    shares
        .map(|(&part, burst)| {
            let rate = Rate::new(rate.get() * (part / sum)).ok()?;
            Some((rate, Burst::new(burst.max(1.0)).ok()?))
        })
        .collect()
}

/// The burst in proportion to `rates` over all whose floor lies below their part; the others get theirs.
fn bursts(burst: f64, rates: &[f64], floors: &[f64]) -> Vec<f64> {
    let is_in = |at: usize| rates[at] > 0.0;
    let floor_sum: f64 = (0..rates.len())
        .filter(|&at| is_in(at))
        .map(|at| floors[at])
        .sum();
    if floor_sum >= burst {
        return floors
            .iter()
            .map(|floor| floor * burst / floor_sum)
            .collect();
    }
    let mut is_floored = vec![false; rates.len()];
    loop {
        let (mut left, mut sum) = (burst, 0.0);
        for at in (0..rates.len()).filter(|&at| is_in(at)) {
            if is_floored[at] {
                left -= floors[at];
            } else {
                sum += rates[at];
            }
        }
        let below = |at: usize| !is_floored[at] && is_in(at) && left * rates[at] / sum < floors[at];
        let newly: Vec<usize> = (0..rates.len()).filter(|&at| below(at)).collect();
        if newly.is_empty() {
            let part = |at: usize| {
                if is_floored[at] {
                    floors[at]
                } else {
                    left * rates[at] / sum
                }
            };
            return (0..rates.len()).map(part).collect();
        }
        for at in newly {
            is_floored[at] = true;
        }
    }
}
