//! A limit that is changed while its limiters run.

use std::time::Duration;

use clock::Instant;

use super::super::{Limiter, Policy, Remote, SharingConfig, Update, Verdict};
use super::world::{Flow, Transport, World, at_s};
use crate::{Burst, Rate};

const LIMIT: f64 = 1000.0;
const DEPTH: f64 = 50.0;

fn config(policy: Policy) -> SharingConfig {
    SharingConfig::messages(policy, LIMIT, DEPTH, 2).expect("in range")
}

fn limiter(policy: Policy) -> Box<dyn Limiter> {
    let sharing = config(policy).checked().expect("sane");
    sharing.limiter(0, Instant::ZERO).expect("the first")
}

fn rate(rate: f64) -> Rate {
    Rate::new(rate).expect("in range")
}

fn burst(burst: f64) -> Burst {
    Burst::new(burst).expect("in range")
}

/// Messages that pass at one instant.
fn burst_at(limiter: &mut dyn Limiter, now: Instant) -> u32 {
    (0..1000)
        .map(|_| u32::from(limiter.handle(now, 1, 1.0) == Verdict::Forward))
        .sum()
}

#[test]
fn no_token_is_given_with_a_greater_limit() {
    for policy in [Policy::Static, Policy::Gtb, Policy::Fps, Policy::Ctb] {
        // Some milliseconds after the start with an empty bucket, with half of the limit or all of it.
        let mut untouched = limiter(policy);
        let held = burst_at(untouched.as_mut(), at_s(0.0213));
        let mut limiter = limiter(policy);
        limiter
            .set_limit(at_s(0.0213), rate(100.0 * LIMIT), burst(100.0 * DEPTH))
            .expect("sane");
        assert_eq!(burst_at(limiter.as_mut(), at_s(0.0213)), held, "{policy}");
        // From here on it fills a hundred times as fast.
        let gained = burst_at(limiter.as_mut(), at_s(0.0233));
        let expected = 0.002 * limiter.figures().local_limit;
        let found = f64::from(gained);
        assert!(
            (found - expected).abs() <= 1.0,
            "{policy}: {found} {expected}"
        );
    }
}

#[test]
fn a_smaller_limit_cuts_what_is_held() {
    for policy in [Policy::Static, Policy::Gtb, Policy::Fps, Policy::Ctb] {
        let mut limiter = limiter(policy);
        limiter
            .set_limit(at_s(10.0), rate(LIMIT), burst(8.0))
            .expect("sane");
        let most = limiter.part().burst.get();
        assert!(most <= 8.0, "{policy}: {most}");
        let passed = f64::from(burst_at(limiter.as_mut(), at_s(10.0)));
        assert!((most - passed).abs() < 1.0, "{policy}: {passed} of {most}");
    }
}

/// Random drop has no tokens: the new limit counts for the next packet, not from the next estimate on.
#[test]
fn random_drop_goes_by_the_new_limit_at_once() {
    let mut limiter = limiter(Policy::Grd);
    for message in 0..1000 {
        limiter.handle(at_s(f64::from(message) / 1000.0), 1, 1.0);
    }
    let others = Update::new(1000.0, 500.0).expect("in range");
    let remote = Remote {
        others,
        connected: 2,
    };
    limiter.estimate(at_s(1.0), remote);
    assert!((limiter.figures().local_limit - 500.0).abs() < 1e-6);
    limiter
        .set_limit(at_s(1.0), rate(LIMIT / 2.0), burst(DEPTH))
        .expect("sane");
    assert!((limiter.figures().local_limit - 250.0).abs() < 1e-6);
    let passed = burst_at(limiter.as_mut(), at_s(1.0));
    assert!(
        (200..300).contains(&passed),
        "{passed} of 1000, 250 expected"
    );
}

#[test]
fn what_is_enforced_changes_in_proportion_and_is_what_figures_tell() {
    for policy in Policy::ALL {
        let mut limiter = limiter(policy);
        let others = Update::new(3.0, 300.0).expect("in range");
        let remote = Remote {
            others,
            connected: 2,
        };
        let mut now = Instant::ZERO;
        for at in 0..4000_u64 {
            now += Duration::from_micros(1000);
            limiter.handle(now, at % 3, 1.0);
            if at % 50 == 49 {
                limiter.estimate(now, remote);
            }
        }
        let before = limiter.figures();
        assert!((before.arriving / 1000.0 - 1.0).abs() < 0.01, "{before:?}");
        assert!(before.passing <= before.arriving * 1.01, "{before:?}");
        assert_eq!(before.limit, LIMIT, "{policy}");
        assert_eq!(before.local_limit, limiter.part().rate.get(), "{policy}");
        assert_eq!(before.weight > 0.0, policy == Policy::Fps, "{policy}");
        limiter
            .set_limit(now, rate(LIMIT / 2.0), burst(DEPTH / 2.0))
            .expect("sane");
        let after = limiter.figures();
        assert_eq!(after.limit, LIMIT / 2.0, "{policy}");
        assert_eq!(after.arriving, before.arriving, "{policy}");
        // Others drain a global bucket, and fill a part of the limit, at rates of their own.
        let expected = match policy {
            Policy::Gtb => LIMIT / 2.0 - 3.0,
            _ => before.local_limit / 2.0,
        };
        let found = after.local_limit;
        assert!(
            (found / expected - 1.0).abs() < 0.01,
            "{policy}: {found} {expected}"
        );
    }
}

#[test]
fn a_limit_that_cannot_be_leaves_the_old_one() {
    for policy in Policy::ALL {
        let sharing = SharingConfig {
            least_depth: burst(10.0),
            ..config(policy)
        };
        let sharing = sharing.checked().expect("sane");
        let mut limiter = sharing.limiter(0, Instant::ZERO).expect("the first");
        let before = (limiter.part(), limiter.figures());
        let text = limiter
            .set_limit(at_s(1.0), rate(5.0), burst(9.0))
            .expect_err("shallower than the least depth")
            .to_string();
        assert!(
            text.starts_with("the least depth 10 exceeds the burst 9"),
            "{text}"
        );
        assert_eq!((limiter.part(), limiter.figures()), before, "{policy}");
        assert!(sharing.with_limit(rate(5.0), burst(9.0)).is_err());
    }
}

/// One limiter hears of the new limit two seconds before the other, as live changes go.
#[test]
fn running_limiters_follow_a_limit_that_is_halved_and_doubled() {
    let flows = |limiter| vec![Flow::greedy(limiter, LIMIT / 10.0, LIMIT); 2 + 3 * limiter];
    let flows = [flows(0), flows(1)].concat();
    let sharing = config(Policy::Fps).checked().expect("sane");
    let mut world = World::new(&sharing, Transport::Oracle, 1.0, flows, 7);
    world.run_until_s(15.0);
    for limit in [LIMIT / 2.0, 2.0 * LIMIT] {
        for limiter in 0..2 {
            let depth = burst(DEPTH * limit / LIMIT);
            let now = world.now;
            world.limiters[limiter]
                .set_limit(now, rate(limit), depth)
                .expect("sane");
            world.passed_in_s(2.0);
        }
        world.passed_in_s(8.0);
        let passed = world.passed_in_s(15.0);
        let total = passed[0] + passed[1];
        println!("{limit}: {passed:?}");
        assert!((total / limit - 1.0).abs() < 0.05, "{limit}: {passed:?}");
        assert!(
            (passed[0] / total * 7.0 / 2.0 - 1.0).abs() < 0.15,
            "{limit}: {passed:?}"
        );
    }
}
