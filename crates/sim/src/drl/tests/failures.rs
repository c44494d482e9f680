//! Updates that are lost, late or overtaken, and limiters that cannot hear each other.

use super::super::{Cut, Reach, Scenario, Updates};
use super::{greatest, near, outcome};

/// Ten limiters with 0 to 5 flows each at 10 Mbps.
fn ten(updates: Updates) -> Scenario {
    Scenario {
        limit_mbps: 10.0,
        depth_bytes: 75_000.0,
        duration_s: 40.0,
        updates,
        ..Scenario::scaling(10, 3, 20.0, 1)
    }
}

#[test]
fn a_fifth_of_the_updates_may_be_lost_or_overtaken_or_all_be_late() {
    for reach in [Reach::Mesh, Reach::Random(3)] {
        for (name, loss, reordered, delay_ms) in [
            ("loss", 0.2, 0.0, 20.0),
            ("reordering", 0.0, 0.2, 20.0),
            ("delay", 0.0, 0.0, 100.0),
            ("all of it", 0.2, 0.2, 60.0),
        ] {
            let updates = Updates {
                reach,
                loss,
                reordered,
                delay_ms,
            };
            let run = outcome(&ten(updates));
            let lost = run.updates_lost as f64 / run.updates as f64;
            assert!((lost - loss).abs() < 0.02, "{name}: {lost} lost");
            let all = run.mean_mbps(10.0, 40.0);
            assert!(near(all, 10.0, 0.05), "{name} {reach:?}: {all}");
            let fairness = run.fairness(10.0, 40.0);
            assert!(fairness > 0.9, "{name} {reach:?}: {fairness}");
        }
    }
}

#[test]
fn halves_that_cannot_hear_each_other_stay_within_the_limit_together() {
    for reach in [Reach::Oracle, Reach::Mesh, Reach::Random(3)] {
        let mut scenario = ten(Updates {
            reach,
            ..Updates::default()
        });
        scenario.duration_s = 60.0;
        scenario.cuts = vec![Cut {
            first: 5,
            at_s: 20.0,
            heal_s: 40.0,
            notice_ms: 500.0,
        }];
        let run = outcome(&scenario);
        let cut = run.mean_mbps(21.0, 40.0);
        assert!(cut < 10.0 * 1.03, "{reach:?}: {cut}");
        // A half that takes less than its part leaves it unused.
        let halves: Vec<f64> = [0..5, 5..10]
            .map(|half| {
                let rates = half.map(|limiter| run.limiter_mbps(limiter, 15.0, 25.0, 40.0)[0]);
                rates.sum()
            })
            .to_vec();
        assert!(greatest(&halves) < 5.0 * 1.05, "{reach:?}: {halves:?}");
        let healed = run.mean_mbps(45.0, 60.0);
        assert!(near(healed, 10.0, 0.03), "{reach:?}: {healed}");
    }
}
