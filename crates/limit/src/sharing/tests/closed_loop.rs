//! Greedy and held-back flows at few limiters: DRL, sections 5.1, 5.2, 5.4 and 5.6.

use super::super::{Policy, Sharing, SharingConfig};
use super::world::{Flow, Transport, World};

/// 10 Mbit/s and 75,000 bytes: the paper's baseline.
const LIMIT: f64 = 1_250_000.0;
const DEPTH: f64 = 75_000.0;
const PACKET: f64 = 1500.0;

/// One packet more per round trip of 40 ms, every 40 ms.
const GROWTH: f64 = PACKET / (0.04 * 0.04);

fn sharing(policy: Policy, limiters: u32) -> Sharing {
    let config = SharingConfig::bytes(policy, LIMIT, DEPTH, limiters).expect("in range");
    config.checked().expect("sane")
}

fn greedy(limiter: usize, count: usize) -> Vec<Flow> {
    vec![Flow::greedy(limiter, LIMIT / 10.0, GROWTH); count]
}

/// Parts of the limit.
fn parts(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate / LIMIT).collect()
}

fn near(found: f64, expected: f64, by: f64) -> bool {
    (found - expected).abs() <= by
}

/// Parts of the limit that pass two limiters with 3 and 7 greedy flows.
fn three_and_seven(policy: Policy, transport: Transport, seed: u64) -> Vec<f64> {
    let flows = [greedy(0, 3), greedy(1, 7)].concat();
    let mut world = World::new(&sharing(policy, 2), transport, PACKET, flows, seed);
    world.run_until_s(10.0);
    parts(&world.passed_in_s(30.0))
}

#[test]
fn seven_flows_get_seven_parts_of_ten() {
    let mut rows = vec![];
    for seed in 0..5 {
        for policy in [Policy::Grd, Policy::Fps] {
            let passed = three_and_seven(policy, Transport::Oracle, seed);
            let total = passed[0] + passed[1];
            rows.push((policy, seed, total, passed[0] / total));
        }
    }
    println!("{rows:.3?}");
    for (policy, seed, total, three) in rows {
        assert!(near(total, 1.0, 0.05), "{policy}, seed {seed}: {total}");
        assert!(near(three, 0.3, 0.03), "{policy}, seed {seed}: {three}");
    }
}

#[test]
fn one_bucket_is_the_reference_and_fixed_parts_are_fixed() {
    let mut world = World::new(
        &sharing(Policy::Ctb, 1),
        Transport::Oracle,
        PACKET,
        greedy(0, 10),
        1,
    );
    world.run_until_s(10.0);
    let passed = parts(&world.passed_in_s(30.0));
    assert!(near(passed[0], 1.0, 0.02), "{passed:?}");

    let passed = three_and_seven(Policy::Static, Transport::Oracle, 1);
    assert!(
        passed.iter().all(|&part| near(part, 0.5, 0.03)),
        "{passed:?}"
    );
}

/// The paper's own finding: the limiter with more flows takes more than its flows' part.
#[test]
fn a_global_bucket_holds_the_limit_and_is_unfair() {
    for seed in 0..3 {
        let passed = three_and_seven(Policy::Gtb, Transport::Oracle, seed);
        println!("gtb {passed:.3?}");
        let total = passed[0] + passed[1];
        assert!(total > 0.8 && total < 1.02, "{passed:?}");
        assert!(passed[0] / total < 0.27, "{passed:?}");
    }
}

/// Figure 7: at 15 s the seven flows lose all but 2 of 10 Mbit/s to a link of their own; at 31 s a flow arrives beside them.
#[test]
fn figure_7() {
    let mut flows = [greedy(0, 3), greedy(1, 7)].concat();
    flows.extend(greedy(1, 1).into_iter().map(|flow| flow.begins_at_s(31.0)));
    let mut world = World::new(
        &sharing(Policy::Fps, 2),
        Transport::Oracle,
        PACKET,
        flows,
        1,
    );
    world.run_until_s(15.0);
    for flow in &mut world.flows[3..10] {
        flow.most = 0.2 * LIMIT / 7.0;
    }
    world.run_until_s(21.0);
    let before = parts(&world.passed_in_s(10.0));
    world.run_until_s(39.0);
    let after = parts(&world.passed_in_s(20.0));
    let limits = parts(&world.local_limits());
    println!("before {before:.3?}, after {after:.3?}, local limits {limits:.3?}");
    assert!(near(before[0], 0.8, 0.05), "{before:?}");
    assert!(near(before[1], 0.2, 0.01), "{before:?}");
    assert!(near(after[0], 0.6, 0.06), "{after:?}");
    assert!(near(after[1], 0.4, 0.04), "{after:?}");
}

/// Figure 6: one more flow at one more limiter every 10 seconds.
#[test]
fn flows_that_join_get_their_part() {
    let flows = (0..5).flat_map(|at| {
        greedy(at, 1)
            .into_iter()
            .map(move |flow| flow.begins_at_s(10.0 * at as f64))
    });
    let flows = flows.collect();
    let mut world = World::new(
        &sharing(Policy::Fps, 5),
        Transport::Oracle,
        PACKET,
        flows,
        2,
    );
    for present in 1..=5_usize {
        world.run_until_s(10.0 * present as f64 - 5.0);
        let passed = parts(&world.passed_in_s(5.0));
        println!("{present}: {passed:.3?}");
        let fair = 1.0 / present as f64;
        assert!(near(passed.iter().sum(), 1.0, 0.05), "{passed:?}");
        for &part in &passed[..present] {
            assert!(near(part, fair, 0.15 * fair), "{present}: {passed:?}");
        }
    }
}

#[test]
fn an_idle_limiter_gives_its_part_away_and_comes_back() {
    let mut flows = greedy(0, 3);
    flows.extend(greedy(1, 7).into_iter().map(|flow| flow.ends_at_s(20.0)));
    flows.extend(greedy(1, 7).into_iter().map(|flow| flow.begins_at_s(40.0)));
    let mut world = World::new(
        &sharing(Policy::Fps, 2),
        Transport::Oracle,
        PACKET,
        flows,
        3,
    );
    world.run_until_s(20.5);
    let idle = parts(&world.local_limits());
    assert!(
        near(idle[1], 0.01, 0.002),
        "given up within half a second: {idle:?}"
    );
    world.run_until_s(25.0);
    let alone = parts(&world.passed_in_s(15.0));
    assert!(alone[0] > 0.95, "{alone:?}");
    world.run_until_s(43.0);
    let back = parts(&world.passed_in_s(20.0));
    assert!(near(back[1], 0.7, 0.07), "{back:?}");
    assert!(near(back[0] + back[1], 1.0, 0.05), "{back:?}");
}

#[test]
fn updates_that_are_lost_change_little() {
    for loss in [0.05, 0.3] {
        let passed = three_and_seven(Policy::Fps, Transport::Named { loss }, 4);
        let total = passed[0] + passed[1];
        assert!(near(total, 1.0, 0.05), "{loss}: {passed:?}");
        assert!(near(passed[0] / total, 0.3, 0.03), "{loss}: {passed:?}");
    }
}

/// Section 5.6: whoever is cut off falls back to 1/N, the others share what is left.
#[test]
fn a_limiter_that_is_gone_takes_its_part_along() {
    for policy in [Policy::Grd, Policy::Fps] {
        let flows = (0..4).flat_map(|at| greedy(at, at + 1)).collect();
        let transport = Transport::Named { loss: 0.0 };
        let mut world = World::new(&sharing(policy, 4), transport, PACKET, flows, 5);
        world.run_until_s(20.0);
        world.gone[3] = true;
        world.run_until_s(25.0);
        let passed = parts(&world.passed_in_s(15.0));
        println!("{policy}: {passed:.3?}");
        assert!(near(passed[3], 0.25, 0.02), "{policy}: {passed:?}");
        let rest: f64 = passed[..3].iter().sum();
        assert!(near(rest, 0.75, 0.04), "{policy}: {passed:?}");
        for (at, part) in passed[..3].iter().enumerate() {
            let fair = 0.75 * (at + 1) as f64 / 6.0;
            assert!(near(*part, fair, 0.15 * fair), "{policy}: {passed:?}");
        }
        world.gone = vec![true; 4];
        world.run_until_s(45.0);
        let apart = parts(&world.passed_in_s(10.0));
        assert!(apart.iter().all(|&part| part < 0.26), "{policy}: {apart:?}");
    }
}
