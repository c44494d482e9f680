//! One limiter at a time, and laws that hold whatever arrives.

use std::time::Duration;

use clock::Instant;
use proptest::prelude::*;

use super::super::{Figures, Limiter, Policy, Remote, SharingConfig, Update, Verdict};
use super::world::{Flow, Transport, World};
use crate::{Burst, Rate};

const LIMIT: f64 = 1000.0;

fn limiter(policy: Policy, limiters: u32) -> Box<dyn Limiter> {
    let config = SharingConfig::messages(policy, LIMIT, 50.0, limiters).expect("in range");
    let sharing = config.checked().expect("sane");
    sharing.limiter(0, Instant::ZERO).expect("the first")
}

fn remote(demand: f64, connected: u32) -> Remote {
    Remote {
        others: Update::new(demand, demand).expect("in range"),
        connected,
    }
}

/// Offers `rate` messages per second for `seconds`, and returns the part that passes in the second half.
fn part_that_passes(limiter: &mut dyn Limiter, rate: f64, remote: Remote, seconds: f64) -> f64 {
    let gap = Duration::from_secs_f64(1.0 / rate);
    let interval = Duration::from_millis(50);
    let (mut now, mut ended) = (Instant::ZERO, Instant::ZERO);
    let end = Instant::ZERO + Duration::from_secs_f64(seconds);
    let half = Instant::ZERO + Duration::from_secs_f64(seconds / 2.0);
    let (mut offered, mut passed) = (0_u32, 0_u32);
    while now < end {
        now += gap;
        if now - ended >= interval {
            limiter.estimate(now, remote);
            ended = now;
        }
        let verdict = limiter.handle(now, 1, 1.0);
        if now > half {
            offered += 1;
            passed += u32::from(verdict == Verdict::Forward);
        }
    }
    f64::from(passed) / f64::from(offered)
}

#[test]
fn random_drops_are_in_proportion_to_the_excess() {
    // Here, elsewhere, and what part of it is the limit.
    for (here, there, part) in [
        (500.0, 300.0, 1.0),
        (500.0, 750.0, 0.8),
        (1000.0, 1000.0, 0.5),
        (3000.0, 1000.0, 0.25),
        (100.0, 9900.0, 0.1),
    ] {
        let mut limiter = limiter(Policy::Grd, 2);
        let found = part_that_passes(limiter.as_mut(), here, remote(there, 2), 100.0);
        assert!((found - part).abs() < 0.015, "{here} and {there}: {found}");
        let own = limiter.part().rate.get();
        let expected = if part < 1.0 {
            here * part
        } else {
            LIMIT - there
        };
        assert!((own / expected - 1.0).abs() < 0.03, "{own} {expected}");
    }
}

#[test]
fn a_global_bucket_gets_what_the_others_leave() {
    for (here, there, part) in [
        (500.0, 400.0, 1.0),
        (500.0, 750.0, 0.5),
        (500.0, 1200.0, 0.0),
    ] {
        let mut limiter = limiter(Policy::Gtb, 2);
        let found = part_that_passes(limiter.as_mut(), here, remote(there, 2), 20.0);
        assert!((found - part).abs() < 0.01, "{here} and {there}: {found}");
    }
    // One of the two is gone: half of the limit is.
    let mut limiter = limiter(Policy::Gtb, 2);
    let found = part_that_passes(limiter.as_mut(), 1000.0, remote(0.0, 1), 20.0);
    assert!((found - 0.5).abs() < 0.01, "{found}");
}

#[test]
fn a_part_is_what_a_limiter_lets_through() {
    for (policy, remote) in [
        (Policy::Static, remote(0.0, 4)),
        (Policy::Ctb, remote(0.0, 4)),
        (Policy::Fps, remote(3.0, 4)),
    ] {
        let mut limiter = limiter(policy, 4);
        let found = part_that_passes(limiter.as_mut(), 4000.0, remote, 60.0) * 4000.0;
        let part = limiter.part().rate.get();
        assert!(
            (found / part - 1.0).abs() < 0.01,
            "{policy}: {found} of {part}"
        );
    }
}

/// Where excess waits instead, the limiter only watches, and comes to the same rate.
#[test]
fn to_watch_is_as_good_as_to_decide() {
    let mut limiter = limiter(Policy::Fps, 2);
    let mut now = Instant::ZERO;
    for _ in 0..400 {
        let rate = limiter.part().rate.get();
        // Three publishers keep a queue filled: what is observed is what the bucket lets go, and all of it waited.
        for flow in 0..3 {
            limiter.observe(now, flow, rate * 0.05 / 3.0, true);
        }
        now += Duration::from_millis(50);
        limiter.estimate(
            now,
            Remote {
                others: Update::new(7.0, 700.0).expect("in range"),
                connected: 2,
            },
        );
    }
    let rate = limiter.part().rate.get();
    assert!((rate / 300.0 - 1.0).abs() < 0.02, "{rate}");
}

/// A limiter that nobody but one uses is left all but the idle part.
#[test]
fn idle_limiters_hold_two_percent_together() {
    let config = SharingConfig::messages(Policy::Fps, LIMIT, 50.0, 50).expect("in range");
    let sharing = config.checked().expect("sane");
    let flows = vec![Flow::steady(7, 3.0 * LIMIT)];
    let mut world = World::new(&sharing, Transport::Oracle, 1.0, flows, 1);
    world.run_until_s(20.0);
    let limits = world.local_limits();
    let idle: f64 = limits.iter().sum::<f64>() - limits[7];
    assert!((idle / LIMIT - 0.0196).abs() < 0.0005, "{idle}");
    let passed: f64 = world.passed_in_s(10.0).iter().sum();
    assert!(passed > 0.97 * LIMIT && passed < 1.01 * LIMIT, "{passed}");
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(1e300),
        0.0..100.0_f64,
        0.0..1e6_f64,
    ]
}

#[derive(Clone, Debug)]
enum Event {
    Handle {
        after_us: u32,
        flow: u64,
        units: f64,
    },
    Observe {
        flow: u64,
        units: f64,
        waits: bool,
    },
    Estimate {
        after_us: u32,
        demand: f64,
        passed: f64,
        connected: u32,
    },
    SetLimit {
        rate: f64,
        burst: f64,
    },
}

fn any_limit() -> impl Strategy<Value = (f64, f64)> {
    (1.0..1e5_f64, 1.0..1e3_f64)
}

fn any_event() -> impl Strategy<Value = Event> {
    let update = || prop_oneof![Just(0.0), 0.0..50.0_f64, 0.0..1e15_f64];
    prop_oneof![
        8 => (0..20_000_u32, 0..40_u64, any_number())
            .prop_map(|(after_us, flow, units)| Event::Handle { after_us, flow, units }),
        2 => (0..40_u64, any_number(), any::<bool>())
            .prop_map(|(flow, units, waits)| Event::Observe { flow, units, waits }),
        4 => (0..3_000_000_u32, update(), update(), 0..12_u32).prop_map(
            |(after_us, demand, passed, connected)| Event::Estimate { after_us, demand, passed, connected }
        ),
        1 => any_limit().prop_map(|(rate, burst)| Event::SetLimit { rate, burst }),
    ]
}

proptest! {
    /// Whatever arrives and whatever others say, a limiter stays within the limit and sane.
    #[test]
    fn nothing_that_arrives_or_is_heard_breaks_a_limiter(
        policy in prop::sample::select(&Policy::ALL[..]),
        events in prop::collection::vec(any_event(), 1..200),
    ) {
        let config = SharingConfig::messages(policy, LIMIT, 50.0, 10).expect("in range");
        let config = SharingConfig { sampled_flows: 8, resample_probability: 0.5, ..config };
        let mut limiter = config.checked().expect("sane").limiter(3, Instant::ZERO).expect("of ten");
        let mut now = Instant::ZERO;
        let mut limit = (LIMIT, 50.0);
        for event in events {
            match event {
                Event::Handle { after_us, flow, units } => {
                    now += Duration::from_micros(u64::from(after_us));
                    limiter.handle(now, flow, units);
                }
                Event::Observe { flow, units, waits } => limiter.observe(now, flow, units, waits),
                Event::Estimate { after_us, demand, passed, connected } => {
                    now += Duration::from_micros(u64::from(after_us));
                    let others = Update::new(demand, passed).expect("in range");
                    let update = limiter.estimate(now, Remote { others, connected });
                    prop_assert!(Update::new(update.demand(), update.passed()).is_ok());
                }
                Event::SetLimit { rate, burst } => {
                    let set = limiter.set_limit(
                        now,
                        Rate::new(rate).expect("in range"),
                        Burst::new(burst).expect("in range"),
                    );
                    prop_assert_eq!(set, Ok(()));
                    limit = (rate, burst);
                }
            }
            let part = limiter.part();
            let (rate, burst) = limit;
            prop_assert!(part.rate.get() <= rate * config.overbooking * 1.000_001, "{part}");
            prop_assert!(part.burst.get() <= burst, "{part}");
            let Figures { arriving, passing, weight, local_limit, limit } = limiter.figures();
            for figure in [arriving, passing, weight, local_limit, limit] {
                prop_assert!(figure.is_finite() && figure >= 0.0, "{policy}: {figure}");
            }
            prop_assert_eq!(local_limit, part.rate.get());
        }
    }

    /// However often the limit changes, what passes an empty bucket is no more than came in at the rates in force.
    #[test]
    fn no_change_of_the_limit_gives_tokens(
        policy in prop::sample::select(&[Policy::Static, Policy::Gtb, Policy::Fps, Policy::Ctb][..]),
        limits in prop::collection::vec((any_limit(), 0..400_u64), 1..30),
    ) {
        let mut limiter = limiter(policy, 1);
        let (mut now, mut passed, mut came_in) = (Instant::ZERO, 0.0, 0.0);
        for ((rate, burst), steps) in limits {
            limiter
                .set_limit(now, Rate::new(rate).expect("in range"), Burst::new(burst).expect("in range"))
                .expect("sane");
            for step in 0..steps {
                came_in += limiter.part().rate.get() * 0.001;
                now += Duration::from_millis(1);
                if limiter.handle(now, step % 3, 1.0) == Verdict::Forward {
                    passed += 1.0;
                }
                if step % 50 == 49 {
                    limiter.estimate(now, remote(0.0, 1));
                }
            }
        }
        prop_assert!(passed <= came_in + 1e-6 * came_in, "{policy}: {passed} of {came_in}");
    }

    /// A bucket lets through b + r·t at most in t seconds, and fps never has a greater one than overbooked.
    #[test]
    fn fps_alone_never_exceeds_its_overbooked_limit(
        gaps_us in prop::collection::vec(0..2_000_u32, 100..600),
    ) {
        let mut limiter = limiter(Policy::Fps, 1);
        let (mut now, mut passed) = (Instant::ZERO, 0.0);
        for (at, gap_us) in gaps_us.into_iter().enumerate() {
            now += Duration::from_micros(u64::from(gap_us));
            if limiter.handle(now, at as u64 % 5, 1.0) == Verdict::Forward {
                passed += 1.0;
            }
            if at % 20 == 0 {
                limiter.estimate(now, remote(0.0, 1));
            }
        }
        let seconds = (now - Instant::ZERO).as_secs_f64();
        prop_assert!(passed <= 50.0 + 4.0 / 3.0 * LIMIT * seconds + 1e-6);
    }
}

/// Demand that others have not told of yet passes for the part of an interval, however great it is.
#[test]
fn random_drop_owes_the_part_of_an_interval_at_most() {
    let mut limiter = limiter(Policy::Grd, 4);
    let interval = Duration::from_millis(50);
    let mut now = Instant::ZERO;
    for _ in 0..40 {
        now += interval;
        limiter.estimate(now, remote(400.0, 4));
    }
    // L is 1000, 400 are asked for elsewhere, and each of four may have a quarter of what is left; its depth is as much of 50.
    let part = (LIMIT - 400.0) / 4.0;
    let passed = (0..5000).filter(|_| limiter.handle(now, 1, 1.0) == Verdict::Forward);
    let most = 50.0 * part / LIMIT + part * interval.as_secs_f64();
    let passed = passed.count() as f64;
    assert!(passed <= most && passed > most - 2.0, "{passed} of {most}");
}
