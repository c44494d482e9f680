//! 490 limiters with 0 to 5 greedy flows each, a limit of 50 Mbit/s: DRL, section 5.6.
//!
//! A flow's fair part is three packets per second, which no TCP sends smoothly; the flows here are
//! the idealised ones of [`super::world`]. The tests show how the limiters cope with so few packets
//! and with late sums.

use clock::{stream, uniform};

use super::super::{Limiter, Policy, Sharing, SharingConfig};
use super::printed::Printed;
use super::world::{Flow, Transport, World};

const LIMITERS: u32 = 490;

/// Bytes per second.
const LIMIT: f64 = 6_250_000.0;

/// 60 ms of the limit, as in the paper's baseline.
const DEPTH: f64 = 375_000.0;

const PACKET: f64 = 1500.0;

fn sharing(policy: Policy) -> Sharing {
    let config = SharingConfig::bytes(policy, LIMIT, DEPTH, LIMITERS).expect("in range");
    config.checked().expect("sane")
}

/// Greedy flows that begin within `begin_s` seconds.
fn flows(seed: u64, begin_s: f64) -> Vec<Flow> {
    let mut random = stream(seed, "flows");
    let counts: Vec<usize> = (0..LIMITERS)
        .map(|_| (uniform(&mut random) * 6.0) as usize)
        .collect();
    let fair = LIMIT / counts.iter().sum::<usize>() as f64;
    let mut flows = Vec::new();
    for (limiter, &count) in counts.iter().enumerate() {
        for _ in 0..count {
            let flow = Flow::greedy(limiter, fair, fair / 2.0);
            flows.push(flow.begins_at_s(begin_s * uniform(&mut random)));
        }
    }
    flows
}

/// What passes in each of `seconds` seconds, as parts of the limit.
fn passed_per_second(world: &mut World, seconds: usize) -> Vec<f64> {
    let second = |_| world.passed_in_s(1.0).iter().sum::<f64>() / LIMIT;
    (0..seconds).map(second).collect()
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len() as f64
}

fn greatest(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(0.0, f64::max)
}

fn fairness(world: &World) -> f64 {
    statistics::jain(world.flows.iter().map(|flow| flow.passed))
}

#[test]
fn fps_holds_the_limit_at_490_limiters() {
    for transport in [Transport::Oracle, Transport::Gossip { branches: 3 }] {
        let mut world = World::new(&sharing(Policy::Fps), transport, PACKET, flows(1, 5.0), 1);
        let parts = passed_per_second(&mut world, 18);
        let (steady, beginning) = (mean(&parts[10..]), greatest(&parts[..10]));
        println!(
            "{transport:?}: {steady:.3}, at most {beginning:.3} before, fairness {:.3}",
            fairness(&world)
        );
        println!("{parts:.2?}");
        assert!((steady - 1.0).abs() < 0.05, "{transport:?}: {parts:.3?}");
        assert!(greatest(&parts[10..]) < 1.05, "{transport:?}: {parts:.3?}");
        // While flows begin, full buckets are emptied: all of them hold 0.4 s of the limit.
        assert!(beginning < 1.25, "{transport:?}: {parts:.3?}");
    }
}

/// All of an idle system wakes at one instant: bursts and first parts of all limiters together stay near the limit.
#[test]
fn a_system_that_wakes_all_at_once_stays_near_the_limit() {
    let all_from_10_s = flows(2, 0.0).into_iter().map(|flow| flow.begins_at_s(10.0));
    let gossip = Transport::Gossip { branches: 3 };
    let mut world = World::new(
        &sharing(Policy::Fps),
        gossip,
        PACKET,
        all_from_10_s.collect(),
        2,
    );
    world.run_until_s(10.0);
    let parts = passed_per_second(&mut world, 8);
    println!("{parts:.2?}");
    // Every bucket is full: 490 times three packets, a third of a second of the limit.
    assert!(parts[0] < 1.3, "{parts:?}");
    assert!(greatest(&parts[1..]) < 1.2, "{parts:?}");
}

/// What the additions are for.
#[test]
fn figure_2_to_the_letter_does_not_hold_it() {
    let sharing = sharing(Policy::Fps);
    for transport in [Transport::Oracle, Transport::Gossip { branches: 3 }] {
        let limiters: Vec<Box<dyn Limiter>> = Printed::limiters(&sharing);
        let mut world = World::of(limiters, &sharing, transport, PACKET, flows(1, 10.0), 1);
        let parts = passed_per_second(&mut world, 3);
        println!("{transport:?}: {parts:.2?}");
        assert!(greatest(&parts) > 4.0, "{transport:?}: {parts:.3?}");
    }
}

#[test]
fn random_drop_needs_sums_that_are_fresh() {
    for transport in [Transport::Oracle, Transport::Gossip { branches: 3 }] {
        let mut world = World::new(&sharing(Policy::Grd), transport, PACKET, flows(1, 5.0), 1);
        let parts = passed_per_second(&mut world, 15);
        println!("{transport:?}: {:.3}, {parts:.2?}", mean(&parts[7..]));
        assert!(
            (mean(&parts[7..]) - 1.0).abs() < 0.05,
            "{transport:?}: {parts:.3?}"
        );
    }
}
