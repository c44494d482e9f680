//! 490 limiters with 0 to 5 flows each, at 50 Mbps (DRL, section 5.6).

use limit::sharing::Policy;

use super::super::{Outcome, Reach, Scenario};
use super::{greatest, near, outcome};

/// All flows have begun after about 5 s.
fn scaled(policy: Policy, limiters: u32, reach: Reach, duration_s: f64) -> Outcome {
    let spacing_ms = 2_000.0 / f64::from(limiters);
    let mut scenario = Scenario {
        policy,
        duration_s,
        bin_ms: 100.0,
        ..Scenario::scaling(limiters, 3, spacing_ms, 1)
    };
    scenario.updates.reach = reach;
    outcome(&scenario)
}

#[test]
fn fps_holds_the_limit_at_490_limiters() {
    let run = scaled(Policy::Fps, 490, Reach::Random(3), 18.0);
    let all = run.mean_mbps(11.0, 18.0);
    assert!(near(all, 50.0, 0.05), "{all}");
    let seconds = run.aggregate_mbps(1.0, 0.0, 18.0);
    assert!(greatest(&seconds) < 50.0 * 1.15, "{seconds:.1?}");
    let limits = run.limiters.iter().map(|limiter| limiter.limit_mbps(17.0));
    let sum: f64 = limits.sum();
    assert!(
        sum < 50.0 * 4.0 / 3.0,
        "{sum}: never overbooked by more than a third"
    );
    // 48 bytes to three others, 20 times a second.
    assert!(near(run.control_bps(), 490.0 * 3.0 * 20.0 * 384.0, 0.01));
}

/// "Beyond 50 limiters, GRD fails to limit the aggregate rate" (section 5.6): not with these sums.
#[test]
fn many_limiters_hold_the_limit_with_exact_sums_and_with_gossip() {
    for (policy, reach) in [
        (Policy::Grd, Reach::Oracle),
        (Policy::Grd, Reach::Random(3)),
        (Policy::Grd, Reach::Random(7)),
        (Policy::Fps, Reach::Random(3)),
    ] {
        let all = scaled(policy, 100, reach, 15.0).mean_mbps(7.0, 15.0);
        assert!(near(all, 50.0, 0.03), "{policy} {reach:?}: {all}");
    }
}
