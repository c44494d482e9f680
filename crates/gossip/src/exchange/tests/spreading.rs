//! How soon and how well the sums of all are known.

use super::super::*;
use super::network::{Conduct, Network, own};

const ROUGH: Conduct = Conduct {
    loss: 0.2,
    twice: 0.05,
    delay: (1, 3),
};

fn random(branches: u16) -> Branches {
    Branches::Random(branches)
}

/// Intervals until sums that begin when all are connected have spread.
fn first_spread(network: &Network) -> u32 {
    3 * network.limiters[0].spreading_intervals() + 1
}

#[test]
fn sums_are_known_within_one_percent_when_they_have_spread() {
    for limiters in [3, 4, 10, 50, 200, 490] {
        for branches in [1, 2, 3, 4, 7] {
            for seed in 0..if limiters < 200 { 3 } else { 1 } {
                let mut network =
                    Network::new(limiters, random(branches), Conduct::default(), seed);
                network.run(first_spread(&network));
                let worst = network.worst();
                assert!(worst < 0.01, "{limiters} limiters, {branches}: {worst}");
                for exchange in &network.limiters {
                    assert_eq!(exchange.remote().connected, limiters);
                }
            }
        }
    }
}

#[test]
fn a_mesh_knows_the_sums_after_one_interval() {
    for (limiters, branches) in [
        (2, random(1)),
        (2, random(3)),
        (10, random(9)),
        (10, Branches::Mesh),
    ] {
        let mut network = Network::new(limiters, branches, Conduct::default(), 1);
        assert_eq!(network.limiters[0].remote().connected, 1);
        network.run(1);
        assert!(network.worst() < 1e-4);
        network.own[1] = own(100.0);
        network.run(1);
        assert!(network.worst() < 1e-4);
        network.cut(1, true);
        let remote = network.limiters[0].remote();
        assert_eq!(
            remote,
            Remote {
                others: Update::default(),
                connected: 1
            }
        );
    }
}

#[test]
fn a_change_of_one_limiter_reaches_all() {
    for (limiters, branches) in [(10, 3), (100, 3), (490, 3), (100, 1)] {
        let mut network = Network::new(limiters, random(branches), Conduct::default(), 5);
        network.run(first_spread(&network));
        let spreading = network.limiters[0].spreading_intervals();
        for demand in [50.0, 0.0] {
            network.own[3] = own(demand);
            network.run(spreading + 40);
            let worst = network.worst();
            assert!(worst < 0.03, "{limiters} by {branches}: {worst}");
        }
    }
}

#[test]
fn a_change_does_not_seem_larger_than_it_is_to_who_changes() {
    for (limiters, branches) in [(100, 3), (300, 3), (490, 7)] {
        let mut network = Network::new(limiters, random(branches), Conduct::default(), 5);
        network.run(first_spread(&network));
        for demand in [50.0, 1.0, 0.0, 25.0, 0.5] {
            network.own[3] = own(demand);
            let others = network.own.iter().enumerate().filter(|(at, _)| *at != 3);
            let others: f64 = others.map(|(_, own)| own.demand()).sum();
            for interval in 0..60 {
                network.run(1);
                let seen = network.limiters[3].remote().others.demand();
                let off = seen / others - 1.0;
                assert!(
                    off.abs() < 0.25,
                    "{limiters} by {branches}, {demand} after {interval}: {seen} for {others}"
                );
            }
        }
    }
}

/// Errors at quantiles 50, 90, 99 and 100 % of all limiters in `intervals`. In each, the demand of every limiter changes by
/// up to so large a part, one way and back.
fn quantiles(network: &mut Network, intervals: u32, part: f64) -> [f64; 4] {
    let mut errors = Vec::new();
    let demands: Vec<_> = network.own.iter().map(|own| own.demand()).collect();
    for interval in 0..intervals {
        for (at, demand) in demands.iter().enumerate() {
            let phase = f64::from(interval) * 0.3 + at as f64;
            network.own[at] = own(demand * (1.0 + part * phase.sin()));
        }
        network.run(1);
        errors.extend(network.errors());
    }
    errors.sort_by(f64::total_cmp);
    [0.5, 0.9, 0.99, 1.0].map(|part| errors[((errors.len() - 1) as f64 * part) as usize])
}

#[test]
fn loss_delay_reordering_and_duplicates_leave_an_error_that_is_bounded() {
    #[rustfmt::skip]
    let rows = [
        // limiters, branches, change, bounds of the median and of 99 %
        (10,  1, 0.0, 0.10, 0.30),
        (10,  3, 0.0, 0.03, 0.10),
        (10,  3, 0.2, 0.05, 0.20),
        (50,  3, 0.0, 0.02, 0.10),
        (50,  3, 0.2, 0.05, 0.15),
        (200, 3, 0.2, 0.05, 0.15),
        (490, 3, 0.0, 0.05, 0.15),
        (490, 3, 0.2, 0.05, 0.15),
        (490, 7, 0.2, 0.05, 0.15),
    ];
    for (limiters, branches, part, median, most) in rows {
        let mut network = Network::new(limiters, random(branches), ROUGH, 11);
        network.run(200);
        let intervals = 90_000 / limiters.clamp(150, 450);
        let errors = quantiles(&mut network, intervals, part);
        println!("{limiters} limiters, {branches} branches, change {part}: {errors:.4?}");
        assert!(errors[0] < median && errors[2] < most, "{errors:?}");
        assert!(network.heard.contains(&Heard::Overtaken));
        let lost = |heard: &Heard| matches!(heard, Heard::Counted { lost: 1.. });
        assert!(network.heard.iter().any(lost));
    }
}

#[test]
fn half_that_is_cut_off_knows_its_own_sum_and_the_whole_after_healing() {
    for (limiters, branches) in [(10, 3), (100, 3), (490, 3), (10, 9)] {
        let mut network = Network::new(limiters, random(branches), Conduct::default(), 3);
        network.run(first_spread(&network) + 30);
        let spreading = network.limiters[0].spreading_intervals();
        for apart in [true, false] {
            network.cut(limiters / 2, apart);
            let connected = if apart { limiters / 2 } else { limiters };
            // A rise counts together with sums that know of it.
            assert_eq!(network.limiters[0].remote().connected, limiters / 2);
            network.run(2 * spreading);
            let worst = network.worst();
            assert!(worst < 0.01, "{limiters} by {branches}, {apart}: {worst}");
            assert_eq!(network.limiters[0].remote().connected, connected);
            network.run(30);
        }
    }
}

#[test]
fn a_limiter_that_restarts_knows_nothing_until_sums_have_spread() {
    let mut network = Network::new(50, random(3), Conduct::default(), 9);
    // So many epochs later that its own first one seems newer.
    network.run(600 * 3);
    for epochs in [0, 140] {
        network
            .limiters
            .iter_mut()
            .for_each(|limiter| limiter.epoch += epochs);
        network.restart(7);
        network.run(1);
        assert_eq!(network.limiters[7].remote().connected, 1);
        network.run(first_spread(&network) + 2);
        let worst = network.worst();
        assert!(worst < 0.01, "{worst}");
        assert_eq!(network.limiters[7].remote().connected, 50);
        network.run(600);
    }
}

#[test]
fn what_a_lost_limiter_leaves_behind_goes_with_the_epoch() {
    let mut network = Network::new(20, random(3), Conduct::default(), 2);
    network.own[19] = own(500.0);
    network.run(first_spread(&network) + 30);
    network.cut(19, true);
    assert!(network.limiters[0].remote().others.demand() > 400.0);
    network.run(2 * network.limiters[0].spreading_intervals());
    assert!(network.worst() < 0.01);
}

#[test]
fn weights_stay_near_one_however_much_is_lost() {
    let mut network = Network::new(200, random(3), ROUGH, 4);
    network.run(400);
    for _ in 0..600 {
        network.run(1);
        let mean = network.mass()[2] / 200.0;
        assert!((0.01..100.0).contains(&mean), "{mean}");
    }
}
