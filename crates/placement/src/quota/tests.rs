//! Divisions against oracles that know nothing of levels: bisection, and trying all ways.

use proptest::prelude::*;

use super::*;

/// The level by bisection, which knows nothing of edges.
fn bisected(bases: &[f64], caps: &[f64], amount: f64) -> Vec<f64> {
    let quotas = |level: f64| -> Vec<f64> {
        let quota = |(base, cap): (&f64, &f64)| (level - base).max(0.0).min(*cap);
        bases.iter().zip(caps).map(quota).collect()
    };
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        let is_enough = quotas(middle).iter().sum::<f64>() >= amount;
        if is_enough {
            high = middle
        } else {
            low = middle
        }
    }
    quotas(high)
}

/// The greatest minimum over all ways to divide `count` units, tried one by one.
fn best_minimum(bases: &[f64], caps: &[u64], unit: f64, count: u64) -> Option<f64> {
    let (&base, bases) = bases.split_first()?;
    let (&cap, caps) = caps.split_first()?;
    if bases.is_empty() {
        return (count <= cap).then_some(base + unit * count as f64);
    }
    let with = |own: u64| {
        let others = best_minimum(bases, caps, unit, count - own)?;
        Some(others.min(base + unit * own as f64))
    };
    (0..=cap.min(count)).filter_map(with).max_by(f64::total_cmp)
}

fn columns() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0.0..100.0f64, 0.0..100.0f64), 1..8)
}

#[test]
fn known_shares() {
    const UNLIMITED: f64 = f64::INFINITY;
    // What is there and its lid, by broker; what is poured; what each gets.
    let cases = [
        (vec![(0.0, 50.0), (0.0, 50.0)], 60.0, vec![30.0, 30.0]),
        // What a lid keeps out is spread over the others.
        (
            vec![(0.0, 5.0), (0.0, 50.0), (0.0, 50.0)],
            60.0,
            vec![5.0, 27.5, 27.5],
        ),
        // Those that hold more already get less.
        (vec![(10.0, 50.0), (0.0, 50.0)], 20.0, vec![5.0, 15.0]),
        (vec![(40.0, 50.0), (0.0, 50.0)], 20.0, vec![0.0, 20.0]),
        (vec![(0.0, 50.0), (0.0, 50.0)], 200.0, vec![50.0, 50.0]),
        (vec![(0.0, UNLIMITED), (7.0, 1.0)], 20.0, vec![19.0, 1.0]),
        (vec![(3.0, 1.0)], 0.0, vec![0.0]),
    ];
    for (columns, amount, expected) in cases {
        let (bases, caps): (Vec<f64>, Vec<f64>) = columns.into_iter().unzip();
        let quotas = water_fill(&bases, &caps, amount);
        for (quota, expected) in quotas.iter().zip(expected) {
            assert!(
                (quota - expected).abs() < 1e-9,
                "{bases:?} {caps:?} {amount}: {quotas:?}"
            );
        }
    }
    assert!(water_fill(&[], &[], 5.0).is_empty());
}

proptest! {
    #[test]
    fn quotas_are_those_of_the_bisected_level(columns in columns(), part in 0.0..1.0f64) {
        let (bases, caps): (Vec<f64>, Vec<f64>) = columns.into_iter().unzip();
        let amount = part * caps.iter().sum::<f64>();
        let quotas = water_fill(&bases, &caps, amount);
        prop_assert!((quotas.iter().sum::<f64>() - amount).abs() < 1e-6);
        for (quota, expected) in quotas.iter().zip(bisected(&bases, &caps, amount)) {
            prop_assert!((quota - expected).abs() < 1e-6, "{quota} instead of {expected}");
        }
    }

    /// Max-min by its definition: nobody has more than another that could take more.
    #[test]
    fn nobody_is_above_one_that_has_room(columns in columns(), part in 0.0..1.0f64) {
        let (bases, caps): (Vec<f64>, Vec<f64>) = columns.into_iter().unzip();
        let quotas = water_fill(&bases, &caps, part * caps.iter().sum::<f64>());
        for giver in 0..bases.len() {
            for taker in 0..bases.len() {
                let has_given = quotas[giver] > 1e-9;
                let has_room = quotas[taker] < caps[taker] - 1e-9;
                let is_above = bases[giver] + quotas[giver] > bases[taker] + quotas[taker] + 1e-6;
                prop_assert!(!(has_given && has_room && is_above));
            }
        }
    }

    #[test]
    fn whole_units_reach_the_greatest_minimum_there_is(
        columns in prop::collection::vec((0u32..40, 0u64..6), 1..5),
        count in 0u64..12,
    ) {
        let bases: Vec<f64> = columns.iter().map(|(base, _)| f64::from(*base)).collect();
        let caps: Vec<u64> = columns.iter().map(|(_, cap)| *cap).collect();
        let shares = unit_fill(&bases, &caps, 10.0, count, &mut Work::default());
        let fitting = count.min(caps.iter().sum());
        prop_assert_eq!(shares.iter().sum::<u64>(), fitting);
        prop_assert!(shares.iter().zip(&caps).all(|(share, cap)| share <= cap));
        let heights = bases.iter().zip(&shares).map(|(base, share)| base + 10.0 * *share as f64);
        let least = heights.fold(f64::INFINITY, f64::min);
        prop_assert_eq!(Some(least), best_minimum(&bases, &caps, 10.0, fitting));
    }

    #[test]
    fn whole_units_are_within_one_of_the_fluid_share(
        columns in prop::collection::vec((0.0..100.0f64, 0u64..9), 1..8),
        part in 0.0..1.0f64,
    ) {
        let (bases, caps): (Vec<f64>, Vec<u64>) = columns.into_iter().unzip();
        let count = (part * caps.iter().sum::<u64>() as f64) as u64;
        let shares = unit_fill(&bases, &caps, 10.0, count, &mut Work::default());
        let lids: Vec<f64> = caps.iter().map(|&cap| 10.0 * cap as f64).collect();
        let fluid = water_fill(&bases, &lids, 10.0 * count as f64);
        for (share, quota) in shares.iter().zip(fluid) {
            prop_assert!((10.0 * *share as f64 - quota).abs() < 10.0 + 1e-6);
        }
    }
}
