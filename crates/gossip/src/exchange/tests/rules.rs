//! Single messages, and what may never be lost.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::network::{Conduct, INTERVAL, Network, own};

fn message(sequence: u16, epoch: u8, demand: f32, weight: f32) -> Message {
    Message {
        sequence,
        epoch,
        demand,
        passed: 0.0,
        weight,
    }
}

fn exchange(branches: Branches) -> Exchange {
    let mut exchange = Exchange::new(10, 0, branches, INTERVAL);
    for peer in 1..9 {
        exchange.connected(peer);
    }
    exchange
}

const COUNTED: Heard = Heard::Counted { lost: 0 };

#[test]
fn messages_are_counted_overtaken_or_refused() {
    let (random, mesh) = (Branches::Random(3), Branches::Mesh);
    let nan = f32::NAN;
    #[rustfmt::skip]
    let rows = [
        // from, message, what becomes of it
        (random, 1, message(1, 0, 1.0, 0.25),      COUNTED),
        (random, 1, message(1, 0, 1.0, 0.25),      Heard::Overtaken),
        (random, 1, message(4, 0, 1.0, 0.25),      Heard::Counted { lost: 2 }),
        (random, 1, message(3, 0, 1.0, 0.25),      Heard::Overtaken),
        (random, 1, message(1004, 0, 1.0, 0.25),   Heard::Counted { lost: 16 }),
        (random, 1, message(1005, 255, 1.0, 0.25), Heard::Overtaken),
        (random, 1, message(1006, 1, 1.0, 0.25),   COUNTED),
        (random, 1, message(1007, 0, 1.0, 0.25),   Heard::Overtaken),
        (random, 1, message(1008, 1, 1.0, 0.25),   COUNTED),
        (random, 2, message(65535, 1, 1.0, 0.25),  COUNTED),
        (random, 2, message(0, 1, 1.0, 0.25),      COUNTED),
        (random, 2, message(1, 1, 1.0, 0.0),       Heard::Refused),
        (random, 2, message(1, 1, 1.0, -0.5),      Heard::Refused),
        (random, 2, message(1, 1, nan, 0.25),      Heard::Refused),
        (random, 2, message(1, 1, 1.0, nan),       Heard::Refused),
        (random, 2, message(1, 1, -1.0, 0.25),     Heard::Refused),
        (random, 2, message(1, 1, 2e15, 0.25),     Heard::Refused),
        (random, 2, message(1, 1, 1.0, 2e9),       Heard::Refused),
        (random, 0, message(1, 1, 1.0, 0.25),      Heard::Refused),
        (random, 9, message(1, 1, 1.0, 0.25),      Heard::Refused),
        (random, 10, message(1, 1, 1.0, 0.25),     Heard::Refused),
        (mesh,   1, message(7, 0, 1.0, 0.0),       COUNTED),
        (mesh,   1, message(9, 0, 1.0, 0.0),       Heard::Counted { lost: 1 }),
        (mesh,   1, message(8, 0, 1.0, 0.0),       Heard::Overtaken),
        (mesh,   1, message(10, 0, 1.0, 0.25),     Heard::Refused),
    ];
    let mut exchanges = [exchange(random), exchange(mesh)];
    for (at, (branches, from, message, expected)) in rows.into_iter().enumerate() {
        let exchange = &mut exchanges[usize::from(branches == mesh)];
        let before = exchange.mass;
        assert_eq!(exchange.heard(from, message), expected, "row {at}");
        match expected {
            Heard::Counted { .. } if branches == random => assert_ne!(exchange.mass, before),
            _ => assert_eq!(exchange.mass, before),
        }
    }
}

#[test]
fn a_newer_epoch_begins_from_own_numbers() {
    let mut exchange = exchange(Branches::Random(3));
    let mut random = clock::stream(1, "test");
    exchange.end_interval(own(8.0), &mut random, |_, _| {});
    exchange.heard(1, message(1, 0, 100.0, 5.0));
    assert_eq!(
        exchange.heard(1, message(3, 1, 2.0, 0.5)),
        Heard::Counted { lost: 1 }
    );
    assert_eq!(
        exchange.mass.parts(),
        [8.0 + 2.0 * 2.0, 8000.0, 1.0 + 2.0 * 0.5]
    );
}

#[test]
fn who_comes_back_counts_from_its_first_word() {
    let mut exchange = exchange(Branches::Random(3));
    assert_eq!(exchange.heard(1, message(900, 0, 1.0, 0.25)), COUNTED);
    exchange.disconnected(1);
    assert_eq!(exchange.remote().connected, 1);
    assert_eq!(
        exchange.heard(1, message(901, 0, 1.0, 0.25)),
        Heard::Refused
    );
    exchange.connected(1);
    assert_eq!(exchange.heard(1, message(1, 0, 1.0, 0.25)), COUNTED);
}

#[test]
fn of_two_epochs_one_is_newer() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(is_newer(a, b), a != b && !is_newer(b, a), "{a} {b}");
        }
    }
    assert!(is_newer(0, 255) && is_newer(1, 0) && !is_newer(255, 0));
}

#[test]
fn distinct_connected_limiters_are_told_and_each_as_often() {
    let mut exchange = exchange(Branches::Random(3));
    exchange.disconnected(4);
    let mut random = clock::stream(1, "test");
    let mut told = [0_u32; 10];
    for _ in 0..7000 {
        let mut to = Vec::new();
        exchange.end_interval(own(1.0), &mut random, |peer, message| {
            told[peer as usize] += 1;
            assert_eq!(message.sequence, told[peer as usize] as u16);
            to.push(peer);
        });
        to.sort_unstable();
        to.dedup();
        assert_eq!(to.len(), 3);
    }
    assert_eq!((told[0], told[4], told[9]), (0, 0, 0));
    for peer in [1, 2, 3, 5, 6, 7, 8] {
        assert!((2800..3200).contains(&told[peer]), "{told:?}");
    }
}

#[test]
fn who_is_alone_keeps_its_mass() {
    let mut exchange = Exchange::new(10, 0, Branches::Random(3), INTERVAL);
    let mut random = clock::stream(1, "test");
    for _ in 0..5000 {
        exchange.end_interval(own(3.0), &mut random, |_, _| panic!("told nobody"));
        assert_eq!(exchange.mass.parts(), [3.0, 3000.0, 1.0]);
        assert_eq!(exchange.remote().others, Update::default());
        assert_eq!(exchange.remote().connected, 1);
    }
}

proptest! {
    #[test]
    fn a_division_loses_nothing(demand in 0.0..1e15_f64, passed in 0.0..1.0_f64, parts in 0_u32..8) {
        let own = Update::new(demand, passed).expect("in range");
        let mut mass = Mass::of(own);
        let before = mass.parts();
        let part = mass.divide(parts);
        let given = [part.demand, part.passed, part.weight];
        for ((before, after), given) in before.into_iter().zip(mass.parts()).zip(given) {
            let given = f64::from(given);
            // Exact: no operand has more bits than the result.
            prop_assert_eq!(after + given * f64::from(parts), before);
            prop_assert!(given <= after && after - given <= before * 2.0_f64.powi(-12));
        }
    }

    #[test]
    fn without_loss_the_mass_is_the_sum_of_all(
        limiters in 3_u32..12,
        branches in 1_u16..5,
        // Longer ones look like loss.
        delay in 0_u64..2,
        seed in any::<u64>(),
        changes in vec((0_usize..12, 0.0..1e6_f64), 1..20),
    ) {
        let conduct = Conduct { delay: (delay, delay), ..Conduct::default() };
        let mut network = Network::new(limiters, Branches::Random(branches), conduct, seed);
        prop_assume!(network.limiters[0].branches != Branches::Mesh);
        // Into the first epoch of all, and until what was under way of the one before is gone.
        network.run(3 * network.limiters[0].spreading_intervals());
        for (me, demand) in changes {
            network.own[me % limiters as usize] = own(demand);
            network.run(1);
            let told = || network.limiters.iter().map(|limiter| limiter.told);
            let expected = [
                told().map(|told| told.demand()).sum(),
                told().map(|told| told.passed()).sum(),
                f64::from(limiters),
            ];
            for (sum, expected) in network.mass().into_iter().zip(expected) {
                prop_assert!((sum - expected).abs() < 1e-6 * (1e6 + expected), "{sum} {expected}");
            }
            for limiter in &network.limiters {
                prop_assert!(limiter.mass.parts().into_iter().all(|part| part >= 0.0));
            }
        }
        // What could not enter at once has entered in the end.
        // Who hears of whom is chance, so it takes its time.
        network.run(3 * network.limiters[0].spreading_intervals() + 40);
        for (limiter, own) in network.limiters.iter().zip(&network.own) {
            let missing = (limiter.told.demand() - own.demand()).abs();
            prop_assert!(missing < 1e-6 * (1e6 + own.demand()), "{missing} of {own:?}");
        }
    }

    #[test]
    fn whatever_is_heard_remote_stays_in_range(
        heard in vec((0_u32..12, any::<u16>(), any::<u8>(), any::<f32>(), any::<f32>()), 0..60),
    ) {
        let mut exchange = exchange(Branches::Random(3));
        let mut random = clock::stream(1, "test");
        for (from, sequence, epoch, demand, weight) in heard {
            exchange.heard(from, message(sequence, epoch, demand, weight));
            exchange.end_interval(own(1.0), &mut random, |_, message| {
                assert!(believed(message, false).is_some());
            });
            let remote = exchange.remote();
            prop_assert!((0.0..=Update::MAX).contains(&remote.others.demand()));
            prop_assert!((1..=9).contains(&remote.connected));
        }
    }
}
