//! Known fits, laws of the fit, and intervals of known knees.

use clock::stream;
use proptest::prelude::*;

use super::*;

const CONFIDENCE: Confidence = Confidence {
    level: 0.95,
    draws: 500,
};

fn tallies(runs: &[(f64, u32, u32)]) -> Vec<Tally> {
    runs.iter()
        .map(|&(rate, met, missed)| Tally { rate, met, missed })
        .collect()
}

fn estimated(runs: &[(f64, u32, u32)]) -> Option<Estimate> {
    estimate(&tallies(runs), CONFIDENCE, &mut stream(1, "test"))
}

#[test]
fn neighbours_that_rise_are_pooled() {
    for (runs, expected) in [
        (&[(1.0, 4, 0), (2.0, 0, 4)][..], &[1.0, 0.0][..]),
        (&[(1.0, 1, 1), (2.0, 3, 1)], &[4.0 / 6.0; 2]),
        // The last one pulls down nothing, the middle two rise.
        (
            &[(1.0, 1, 0), (2.0, 1, 3), (3.0, 3, 1), (4.0, 0, 9)],
            &[1.0, 0.5, 0.5, 0.0],
        ),
        // A lucky run far above is outvoted by everything that it pools with.
        (
            &[(1.0, 5, 0), (2.0, 0, 5), (3.0, 0, 5), (4.0, 1, 0)],
            &[1.0, 1.0 / 11.0, 1.0 / 11.0, 1.0 / 11.0],
        ),
        (&[], &[]),
    ] {
        let fitted = pass_probabilities(&tallies(runs));
        assert_eq!(fitted.len(), expected.len());
        for (fitted, expected) in fitted.iter().zip(expected) {
            assert!((fitted - expected).abs() < 1e-12, "{runs:?}: {fitted}");
        }
    }
}

#[test]
fn knees_of_known_runs() {
    for (runs, expected) in [
        // All and nothing: the middle, on the logarithm.
        (&[(100.0, 5, 0), (400.0, 0, 5)][..], Some(200.0)),
        // Half of the runs pass: the rate itself.
        (&[(100.0, 5, 0), (200.0, 2, 2), (400.0, 0, 5)], Some(200.0)),
        // At two rates alike: between them.
        (
            &[(50.0, 4, 0), (100.0, 2, 2), (400.0, 2, 2), (800.0, 0, 4)],
            Some(200.0),
        ),
        // Interpolated: 3/4 passed at 100, 1/4 at 400.
        (&[(100.0, 3, 1), (400.0, 1, 3)], Some(200.0)),
        (&[(100.0, 5, 0), (200.0, 5, 0)], None),
        (&[(100.0, 0, 5)], None),
        (&[], None),
    ] {
        let knee = estimated(runs).map(|estimate| estimate.knee);
        match (knee, expected) {
            (Some(knee), Some(expected)) => {
                assert!((knee / expected - 1.0).abs() < 1e-9, "{runs:?}: {knee}");
            }
            (knee, expected) => assert_eq!(knee, expected, "{runs:?}"),
        }
    }
}

#[test]
fn equal_runs_leave_the_gap_between_two_rates_open() {
    let found = estimated(&[(90.0, 5, 0), (100.0, 5, 0), (110.0, 0, 5), (121.0, 0, 5)]);
    let found = found.expect("enclosed");
    assert!((99.9..101.0).contains(&found.low), "{found:?}");
    assert!((109.0..110.1).contains(&found.high), "{found:?}");
}

#[test]
fn a_single_run_on_either_side_bounds_nothing() {
    let found = estimated(&[(100.0, 1, 0), (110.0, 0, 1)]).expect("enclosed");
    assert_eq!((found.low, found.high), (0.0, f64::INFINITY));
}

#[test]
fn more_runs_narrow_the_interval() {
    let width = |repeats: u32| {
        let noisy: Vec<(f64, u32, u32)> =
            [(80.0, 4), (90.0, 3), (100.0, 2), (110.0, 1), (120.0, 0)]
                .map(|(rate, met)| (rate, met * repeats, (4 - met) * repeats))
                .to_vec();
        let found = estimated(&noisy).expect("enclosed");
        found.high / found.low
    };
    assert!(width(8) < width(1), "{} {}", width(8), width(1));
}

#[test]
fn a_ratio_has_an_interval_of_its_own() {
    let slow = estimated(&[(100.0, 5, 0), (110.0, 0, 5)]).expect("enclosed");
    let fast = estimated(&[(200.0, 5, 0), (220.0, 0, 5)]).expect("enclosed");
    let (ratio, low, high) = fast.ratio_to(&slow, 0.9);
    assert!((ratio - 2.0).abs() < 1e-9);
    assert!(
        1.7 < low && low < 2.0 && 2.0 < high && high < 2.3,
        "{low} {high}"
    );
}

/// Rising rates with at least one run each.
fn any_tallies() -> impl Strategy<Value = Vec<Tally>> {
    let runs = (0_u32..6, 0_u32..6, 1.01..1.5_f64);
    prop::collection::vec(runs, 1..10).prop_map(|runs| {
        let mut rate = 1000.0;
        runs.into_iter()
            .map(|(met, missed, factor)| {
                rate *= factor;
                let missed = if met + missed == 0 { 1 } else { missed };
                Tally { rate, met, missed }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn the_fit_falls_and_keeps_the_sum(tallies in any_tallies()) {
        let fitted = pass_probabilities(&tallies);
        prop_assert_eq!(fitted.len(), tallies.len());
        prop_assert!(fitted.windows(2).all(|pair| pair[0] >= pair[1]));
        let runs = |tally: &Tally| f64::from(tally.met + tally.missed);
        let expected: f64 = fitted.iter().zip(&tallies).map(|(p, tally)| p * runs(tally)).sum();
        let met: u32 = tallies.iter().map(|tally| tally.met).sum();
        prop_assert!((expected - f64::from(met)).abs() < 1e-9);
    }

    #[test]
    fn one_more_pass_lowers_no_probability(tallies in any_tallies(), place in any::<prop::sample::Index>()) {
        let mut better = tallies.clone();
        let place = place.index(tallies.len());
        prop_assume!(better[place].missed > 0);
        better[place].met += 1;
        better[place].missed -= 1;
        let (before, after) = (pass_probabilities(&tallies), pass_probabilities(&better));
        prop_assert!(before.iter().zip(&after).all(|(before, after)| *after >= before - 1e-12));
    }

    #[test]
    fn the_interval_holds_the_knee_and_the_knee_lies_among_the_rates(tallies in any_tallies()) {
        let Some(found) = estimate(&tallies, CONFIDENCE, &mut stream(3, "law")) else {
            return Ok(());
        };
        let (first, last) = (tallies[0].rate, tallies[tallies.len() - 1].rate);
        prop_assert!(found.low <= found.knee && found.knee <= found.high);
        prop_assert!(first * 0.999_999 <= found.knee && found.knee <= last * 1.000_001);
    }

    #[test]
    fn the_unit_of_the_rate_does_not_matter(tallies in any_tallies(), factor in 0.01..100.0_f64) {
        let scaled: Vec<Tally> =
            tallies.iter().map(|tally| Tally { rate: tally.rate * factor, ..*tally }).collect();
        let found = estimate(&tallies, CONFIDENCE, &mut stream(3, "law"));
        let elsewhere = estimate(&scaled, CONFIDENCE, &mut stream(3, "law"));
        match (found, elsewhere) {
            (Some(found), Some(elsewhere)) => {
                prop_assert!((elsewhere.knee / found.knee / factor - 1.0).abs() < 1e-9);
                prop_assert!(found.high.is_infinite() || (elsewhere.high / found.high / factor - 1.0).abs() < 1e-9);
            }
            (found, elsewhere) => prop_assert_eq!(found.is_some(), elsewhere.is_some()),
        }
    }

    #[test]
    fn equal_seeds_give_equal_intervals(tallies in any_tallies(), seed in any::<u64>()) {
        let once = estimate(&tallies, CONFIDENCE, &mut stream(seed, "law"));
        let again = estimate(&tallies, CONFIDENCE, &mut stream(seed, "law"));
        prop_assert_eq!(once, again);
    }
}
