//! Theory against the paper's limits, against itself, and against measurements that are functions.

use std::convert::Infallible;
use std::time::Duration;

use clock::Instant;
use proptest::prelude::*;

use super::*;
use crate::CpuShare;

fn share(value: f64) -> CpuShare {
    CpuShare::new(value).expect("a share")
}

#[test]
fn a_share_guarantees_its_part_of_the_rate() {
    for (share, shares, expected) in [
        (0.2, 1.0, 2_000.0),
        (0.2, 0.4, 5_000.0),
        (1.0, 1.0, 10_000.0),
    ] {
        let rate = guaranteed_rate(10_000.0, share, shares);
        assert!(
            (rate - expected).abs() < 1e-6,
            "{share} of {shares}: {rate}"
        );
    }
}

#[test]
fn an_exponential_queue_is_as_in_textbooks() {
    let queue = Mm1 {
        arrival_rate: 750.0,
        service_rate: 1_000.0,
    };
    assert!((queue.intensity() - 0.75).abs() < 1e-12);
    assert_eq!(queue.mean_response(), Some(Duration::from_millis(4)));
    assert_eq!(queue.mean_wait(), Some(Duration::from_millis(3)));
    assert!((queue.mean_present().expect("stable") - 3.0).abs() < 1e-9);
    let median = queue
        .response_percentile(0.5)
        .expect("stable")
        .as_secs_f64();
    assert!((median - 0.004 * 2.0_f64.ln()).abs() < 1e-9);
    for arrival_rate in [1_000.0, 1_001.0] {
        let queue = Mm1 {
            arrival_rate,
            service_rate: 1_000.0,
        };
        assert_eq!(queue.mean_response(), None, "{arrival_rate}");
        assert_eq!(queue.mean_wait(), None);
        assert_eq!(queue.mean_present(), None);
        assert_eq!(queue.response_percentile(0.99), None);
    }
}

#[test]
fn nothing_waits_where_nothing_passes() {
    assert_eq!(mean_wait(3.0, 0.0), None);
    assert_eq!(mean_wait(0.0, 0.0), None);
    assert_eq!(mean_wait(3.0, 750.0), Some(Duration::from_millis(4)));
}

/// The two limits that the paper names for its formula, and where ours differs from its words.
#[test]
fn the_largest_share_has_the_papers_limits() {
    for threads in [1, 2, 4, 8, 64] {
        let whole = 1.0 / f64::from(threads);
        assert!((largest_share(threads, 1.0) - whole).abs() < 1e-12);
        assert!(largest_share(threads, 1e-9) > 1.0 - 1e-6);
        assert!((largest_share(threads, 0.0) - 1.0).abs() < 1e-12);
    }
    assert!((largest_share(2, 0.5) - 0.75).abs() < 1e-12);
    // With P fixed it goes as 1/(N·P), which is not 1/N.
    let many = largest_share(1_000, 0.25);
    assert!((many * 1_000.0 * 0.25 - 1.0).abs() < 1e-6);
    assert!(many > 3.9 / 1_000.0);
}

proptest! {
    #[test]
    fn the_largest_share_is_between_an_equal_part_and_all(threads in 1_u32..200, part in 0.0_f64..=1.0) {
        let share = largest_share(threads, part);
        prop_assert!(share <= 1.0 + 1e-12);
        prop_assert!(share >= 1.0 / f64::from(threads) - 1e-12);
        prop_assert!(largest_share(threads + 1, part) <= share + 1e-12, "more threads, less for one task");
    }

    #[test]
    fn littles_law_goes_both_ways(rate in 0.001_f64..1e6, micros in 1_u64..10_000_000) {
        let time = Duration::from_micros(micros);
        let back = mean_wait(mean_queue_length(rate, time), rate).expect("a rate");
        prop_assert!(back.abs_diff(time) <= Duration::from_nanos(2 + micros / 100_000));
    }

    /// Against all windows, counted one by one.
    #[test]
    fn demand_is_that_of_the_worst_window(
        gaps in prop::collection::vec((0_u64..40, 1_u64..20), 0..60),
        window in 1_u64..100,
    ) {
        let mut at = 0;
        let arrivals: Vec<(u64, u64)> = gaps
            .into_iter()
            .map(|(gap, work)| {
                at += gap;
                (at, work)
            })
            .collect();
        let mut demand = Demand::new(Duration::from_nanos(window));
        for &(at, work) in &arrivals {
            let before = demand.at(Instant::from_nanos(at));
            demand.add(Instant::from_nanos(at), Duration::from_nanos(work));
            prop_assert!(demand.largest() >= before + Duration::from_nanos(work));
        }
        let within = |begin: u64| -> u64 {
            let is_in = |&&(at, _): &&(u64, u64)| (begin..begin + window).contains(&at);
            arrivals.iter().filter(is_in).map(|&(_, work)| work).sum()
        };
        let worst = arrivals.iter().map(|&(at, _)| within(at)).max();
        prop_assert_eq!(demand.largest(), Duration::from_nanos(worst.unwrap_or(0)));
    }

    /// The wait falls as in a queue with the share for a server; the share found is the smallest within the tolerance.
    #[test]
    fn a_share_is_found_where_there_is_one(needed in 0.01_f64..1.0, most in 0.02_f64..=1.0) {
        let wait_of = |share: CpuShare| Duration::from_secs_f64(needed / share.as_f64());
        let search = ShareSearch {
            wanted: Duration::from_secs(1),
            least: share(0.01),
            most: share(most),
            tolerance: 0.02,
            measurements_max: 40,
        };
        let mut asked = Vec::new();
        let outcome = search.run(|share| {
            asked.push(share);
            Ok::<_, Infallible>(Some(wait_of(share)))
        });
        let Ok(outcome) = outcome;
        prop_assert!(asked.iter().all(|&share| share <= search.most));
        let mut once = asked.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), asked.len(), "nothing is measured twice");
        match outcome {
            Ok(found) => {
                prop_assert_eq!(found.measurements as usize, asked.len());
                prop_assert_eq!(found.wait, wait_of(found.share));
                prop_assert!(found.wait <= search.wanted);
                prop_assert!(found.share == search.least || found.share.as_f64() <= needed * 1.021 + 2e-6);
            }
            Err(infeasible) => {
                prop_assert_eq!(infeasible.why, Why::NothingLeft(search.most));
                prop_assert!(search.most.as_f64() < needed);
                prop_assert_eq!(infeasible.best, Some((search.most, wait_of(search.most))));
            }
        }
    }

    /// More work ahead, longer events and more allotment of others never shorten the bound.
    #[test]
    fn the_bound_grows_with_what_is_in_the_way(
        parts in prop::collection::vec((1_u64..2_000, 0_u64..300), 2..6),
        work in 0_u64..30_000,
        more in 1_u64..2_000,
        quantum in 1_u64..200,
    ) {
        let claims: Vec<Claim> = parts
            .iter()
            .map(|&(allotment, turn)| Claim {
                allotment: Duration::from_micros(allotment),
                turn_max: Duration::from_micros(turn),
            })
            .collect();
        let quantum = Duration::from_micros(quantum);
        let bound = |claims: &[Claim], work| wait_bound(claims, 0, quantum, Duration::from_micros(work));
        let base = bound(&claims, work);
        prop_assert!(bound(&claims, work + more) >= base);
        let mut others = claims.clone();
        others[1].allotment += Duration::from_micros(more);
        prop_assert!(bound(&others, work) >= base);
        let mut longer = claims;
        longer[0].turn_max += Duration::from_micros(more);
        prop_assert!(bound(&longer, work) >= base);
    }
}

#[test]
fn the_bound_without_work_ahead_is_the_one_of_the_text() {
    let shares = [Some(share(0.1)), Some(share(0.9))];
    let claims = claims(
        Duration::from_millis(10),
        100,
        &shares,
        &[Duration::ZERO; 2],
    );
    assert_eq!(claims[0].allotment, Duration::from_millis(1));
    let quantum = Duration::from_micros(100);
    // (T − A_i) + (A_j − A_i), and the width of a bucket.
    let bound = wait_bound(&claims, 0, quantum, Duration::ZERO);
    assert_eq!(bound, Duration::from_micros(9_000 + 8_000 + 100));
    // The other way round nobody has more credits: T − A_i.
    let bound = wait_bound(&claims, 1, quantum, Duration::ZERO);
    assert_eq!(bound, Duration::from_micros(1_000));
    // An allotment of work ahead costs one more period.
    let ahead = wait_bound(&claims, 1, quantum, Duration::from_millis(9));
    assert_eq!(ahead, Duration::from_millis(9 + 2));
}

#[test]
fn who_declares_nothing_claims_what_is_left() {
    let turns = [Duration::from_micros(5); 3];
    let of = |shares: &[Option<CpuShare>]| -> Vec<u128> {
        let claims = claims(Duration::from_millis(10), 100, shares, &turns);
        claims
            .iter()
            .map(|claim| claim.allotment.as_micros())
            .collect()
    };
    assert_eq!(of(&[Some(share(0.5)), None, None]), [5_000, 2_500, 2_500]);
    assert_eq!(of(&[Some(CpuShare::WHOLE), None, None]), [10_000, 100, 100]);
}

#[test]
fn a_search_ends_where_it_was_told_to() {
    let search = ShareSearch {
        wanted: Duration::from_millis(2),
        least: share(0.001),
        most: share(0.8),
        tolerance: 0.01,
        measurements_max: 3,
    };
    let slow = |_| Ok::<_, Infallible>(Some(Duration::from_millis(3)));
    let Ok(outcome) = search.run(slow);
    let infeasible = outcome.expect_err("it never holds");
    assert_eq!(infeasible.why, Why::Measurements(3));
    assert_eq!(
        infeasible.best,
        Some((share(0.001), Duration::from_millis(3)))
    );

    let Ok(outcome) = search.run(|_| Ok::<_, Infallible>(None));
    assert_eq!(outcome.expect_err("it is unstable").best, None);

    let fast = |_| Ok::<_, Infallible>(Some(Duration::ZERO));
    let Ok(outcome) = search.run(fast);
    let found = outcome.expect("it holds at once");
    assert_eq!((found.share, found.measurements), (share(0.001), 1));

    let broken = search.run(|share| {
        if share > search.least {
            Err("gone")
        } else {
            Ok(None)
        }
    });
    assert_eq!(broken, Err("gone"));
}
