//! The paper's experiments with few limiters (DRL, sections 5.1, 5.2 and 5.4).

use limit::sharing::Policy;

use super::super::{Outcome, Scenario};
use super::{near, outcome};

fn baseline(policy: Policy, seed: u64) -> Outcome {
    outcome(&Scenario {
        policy,
        duration_s: 40.0,
        ..Scenario::baseline(seed)
    })
}

/// Kernel TCP on the same paths had: forwarded 10.00, 9.86, 10.04 and 10.00 Mbps; Jain's index .984 to .992, .72 to .79,
/// .996 to .999 and .968 to .985; with `ctb` 106 drops per second.
#[test]
fn the_baseline_is_what_kernel_tcp_makes_of_it() {
    for (policy, fairness) in [
        (Policy::Ctb, 0.95..1.0),
        (Policy::Gtb, 0.3..0.95),
        (Policy::Grd, 0.99..1.0),
        (Policy::Fps, 0.95..1.0),
    ] {
        let runs: Vec<Outcome> = (1..=3).map(|seed| baseline(policy, seed)).collect();
        let mean = |of: &dyn Fn(&Outcome) -> f64| runs.iter().map(of).sum::<f64>() / 3.0;
        let forwarded = mean(&|run| run.mean_mbps(10.0, 40.0));
        assert!(near(forwarded, 10.0, 0.02), "{policy}: {forwarded}");
        let index = mean(&|run| run.fairness(10.0, 40.0));
        assert!(fairness.contains(&index), "{policy}: {index}");
        let drops = mean(&|run| run.drops() as f64 / run.duration_s);
        assert!(
            (70.0..130.0).contains(&drops),
            "{policy}: {drops} per second"
        );
        if policy != Policy::Grd && policy != Policy::Gtb {
            let seconds = runs
                .iter()
                .flat_map(|run| run.aggregate_mbps(1.0, 10.0, 40.0));
            for second in seconds {
                assert!(near(second, 10.0, 0.06), "{policy}: {second} in a second");
            }
        }
    }
}

#[test]
fn fps_divides_the_baseline_three_to_seven() {
    let run = baseline(Policy::Fps, 1);
    let side = |limiter| run.limiter_mbps(limiter, 30.0, 10.0, 40.0)[0];
    assert!(near(side(0), 3.0, 0.15), "{}", side(0));
    assert!(near(side(1), 7.0, 0.07), "{}", side(1));
    // An update per limiter and interval, of 48 bytes.
    assert_eq!(run.updates, 2 * 800);
    assert_eq!(run.control_bytes, 48 * run.updates);
    // What is enforced is what is let through.
    let limits = run.limiters.iter().map(|limiter| limiter.limit_mbps(39.0));
    assert!(near(limits.sum(), 10.0, 0.05));
}

#[test]
fn fps_gives_bottlenecked_flows_what_they_need_and_the_rest_to_others() {
    for seed in 1..=2 {
        let run = outcome(&Scenario::bottlenecked(seed));
        let of = |limiter, from_s, to_s| run.limiter_mbps(limiter, to_s - from_s, from_s, to_s)[0];
        // From second 15 on 7 flows have 2 Mbps together.
        assert!(near(of(0, 25.0, 31.0), 8.0, 0.1), "{}", of(0, 25.0, 31.0));
        assert!(near(of(1, 25.0, 31.0), 2.0, 0.1), "{}", of(1, 25.0, 31.0));
        // From second 31 on one without a bottleneck is beside them: 4 flows share 8 Mbps.
        assert!(near(of(0, 41.0, 60.0), 6.0, 0.1), "{}", of(0, 41.0, 60.0));
        assert!(near(of(1, 41.0, 60.0), 4.0, 0.1), "{}", of(1, 41.0, 60.0));
        let single = run.flows[10].goodput_mbps(41.0, 60.0) * 1500.0 / 1448.0;
        assert!(near(single, 2.0, 0.1), "{single}");
    }
}

#[test]
fn flows_that_join_get_their_part_at_short_and_long_intervals() {
    for (interval_ms, off) in [(50.0, 0.2), (500.0, 0.25)] {
        let run = outcome(&Scenario::joining(interval_ms, 1));
        for joined in 1..=4 {
            let (from_s, to_s) = (
                10.0 * f64::from(joined) + 4.0,
                10.0 * f64::from(joined) + 10.0,
            );
            let fair = 10.0 / f64::from(joined + 1);
            for limiter in 0..=joined as usize {
                let rate = run.limiter_mbps(limiter, 6.0, from_s, to_s)[0];
                assert!(
                    near(rate, fair, off),
                    "{interval_ms} ms, {joined} joined: {rate} at {limiter}"
                );
            }
            let all = run.mean_mbps(from_s, to_s);
            assert!(
                near(all, 10.0, 0.03),
                "{interval_ms} ms, {joined} joined: {all}"
            );
        }
    }
}
