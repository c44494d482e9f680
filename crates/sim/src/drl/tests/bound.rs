//! The most that limiters let through together, over any stretch of time.

use limit::sharing::Policy;

use super::super::{Cut, Outcome, Reach, Scenario};
use super::{greatest, near, outcome};

/// What passed in the worst time between `from_s` and `to_s` beyond the limit times its length and the depths of all
/// buckets at once, in intervals of the limit.
fn excess_intervals(run: &Outcome, scenario: &Scenario, from_s: f64, to_s: f64) -> f64 {
    let limit = scenario.limit_mbps * 125_000.0;
    let mut most = 0.0_f64;
    let mut sum = 0.0_f64;
    for mbps in run.aggregate_mbps(run.bin_s, from_s, to_s) {
        sum = (sum + (mbps * 125_000.0 - limit) * run.bin_s).max(0.0);
        most = most.max(sum);
    }
    (most - depths_bytes(run, scenario, from_s, to_s))
        / (limit * scenario.estimate_interval_ms / 1e3)
}

/// Depths of all buckets at once, the most in that time, bytes.
fn depths_bytes(run: &Outcome, scenario: &Scenario, from_s: f64, to_s: f64) -> f64 {
    let least = scenario.sharing().expect("sane").config().least_depth.get();
    let samples = (from_s * 10.0) as u32..(to_s * 10.0) as u32;
    let depths = samples.map(|at| {
        let limits = run.limiters.iter();
        let limits: Vec<f64> = limits
            .map(|limiter| limiter.limit_mbps(f64::from(at) / 10.0))
            .collect();
        // What each may let through can be what all others leave.
        let whole = limits.iter().sum::<f64>().max(scenario.limit_mbps);
        let parts = limits.iter().map(|limit| limit / whole);
        parts
            .map(|part| (part * scenario.depth_bytes).max(least))
            .sum()
    });
    greatest(&depths.collect::<Vec<f64>>())
}

/// Limiters with 0 to 5 flows each, a megabit per second for each limiter; halves that cannot hear each other from
/// second 20 to 40, and notice half a second later.
fn halved(limiters: u32, reach: Reach, overbooking: Option<f64>, seed: u64) -> Scenario {
    let mut scenario = Scenario {
        limit_mbps: f64::from(limiters),
        depth_bytes: 7_500.0 * f64::from(limiters),
        overbooking,
        duration_s: 60.0,
        cuts: vec![Cut {
            first: limiters / 2,
            at_s: 20.0,
            heal_s: 40.0,
            notice_ms: 500.0,
        }],
        ..Scenario::scaling(limiters, 3, 2_000.0 / f64::from(limiters), seed)
    };
    scenario.updates.reach = reach;
    scenario
}

#[test]
fn halves_exceed_the_limit_by_one_interval_at_most_once_they_know_and_after_healing() {
    for (limiters, reach) in [
        (10, Reach::Mesh),
        (10, Reach::Random(3)),
        (60, Reach::Random(3)),
    ] {
        for (overbooking, returns) in [(None, 0.03), (Some(1.0), 0.06)] {
            for seed in 1..=2 {
                let scenario = halved(limiters, reach, overbooking, seed);
                let run = outcome(&scenario);
                let cut = excess_intervals(&run, &scenario, 20.5, 40.0);
                let healed = excess_intervals(&run, &scenario, 40.5, 60.0);
                println!("{limiters} {reach:?} {overbooking:?}: {cut:.1} {healed:.1} intervals");
                assert!(cut < 1.0 && healed < 1.0, "{cut} {healed}");
                let seconds = run.aggregate_mbps(1.0, 21.0, 60.0);
                let most = greatest(&seconds) / scenario.limit_mbps;
                assert!(most < 1.08, "{most} of the limit in a second");
                let returned = run.mean_mbps(45.0, 60.0);
                assert!(near(returned, scenario.limit_mbps, returns), "{returned}");
            }
        }
    }
}

/// Gaps are seen late among so many; that messages get lost shows by the weights before.
#[test]
fn limiters_may_begin_while_a_fifth_of_the_updates_is_lost() {
    let mut scenario = Scenario {
        duration_s: 9.0,
        bin_ms: 100.0,
        ..Scenario::scaling(490, 3, 2_000.0 / 490.0, 1)
    };
    scenario.updates.loss = 0.2;
    let run = outcome(&scenario);
    let seconds = run.aggregate_mbps(1.0, 0.0, 9.0);
    assert!(greatest(&seconds) < 50.0 * 1.1, "{seconds:.1?}");
}

/// What a bottleneck leaves is booked by others, too much of it at first; what was too much is paid back.
#[test]
fn what_exceeds_the_limit_is_paid_back() {
    for seed in 1..=3 {
        let scenario = Scenario::bottlenecked(seed);
        let run = outcome(&scenario);
        assert_eq!(scenario.policy, Policy::Fps);
        let excess = excess_intervals(&run, &scenario, 5.0, 60.0);
        println!("seed {seed}: {excess:.1} intervals");
        assert!(excess < 4.0, "{excess}");
        let mean = run.mean_mbps(17.0, 60.0);
        assert!(near(mean, 10.0, 0.02), "{mean}");
    }
}

/// Random drop keeps the bound by its accounts: demand alone says nothing of what has passed already.
#[test]
fn halves_that_drop_at_random_keep_the_same_bound() {
    for (limiters, reach) in [
        (10, Reach::Mesh),
        (10, Reach::Random(3)),
        (60, Reach::Random(3)),
    ] {
        for seed in 1..=3 {
            let mut scenario = halved(limiters, reach, None, seed);
            scenario.policy = Policy::Grd;
            let run = outcome(&scenario);
            let spans = [(10.0, 20.0), (20.5, 40.0), (40.5, 60.0)];
            let found = spans.map(|(from, to)| excess_intervals(&run, &scenario, from, to));
            println!("{limiters} {reach:?}: {found:.1?} intervals");
            assert!(greatest(&found) < 1.0, "{found:?}");
            for (from, to) in [(10.0, 20.0), (25.0, 40.0), (45.0, 60.0)] {
                let passed = run.mean_mbps(from, to);
                assert!(near(passed, scenario.limit_mbps, 0.015), "{passed}");
            }
        }
    }
}

#[test]
#[ignore = "minutes without optimization"]
fn halves_of_490() {
    for policy in [Policy::Fps, Policy::Grd] {
        for seed in 1..=2 {
            let mut scenario = halved(490, Reach::Random(3), None, seed);
            scenario.policy = policy;
            let run = outcome(&scenario);
            let spans = [(10.0, 20.0), (20.5, 40.0), (40.5, 60.0)];
            let found = spans.map(|(from, to)| excess_intervals(&run, &scenario, from, to));
            println!("{policy}: {found:.1?} intervals");
            assert!(greatest(&found) < 1.0);
        }
    }
}
