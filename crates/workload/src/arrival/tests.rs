//! Arrivals compared with their spec.

mod groups;
mod laws;
mod rates;

use std::time::Duration;

use super::Arrival;
use crate::{Class, Cluster, Pattern, Ramp, Spec, Topic};

const SECOND_NS: u64 = 1_000_000_000;

fn spec(publishers: Vec<Class>) -> Spec {
    let spec = Spec {
        seed: 1,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(10),
        publishers,
        topic: Topic::default(),
        cluster: Cluster::default(),
        failures: Vec::new(),
    };
    assert_eq!(spec.check(), Ok(()));
    spec
}

fn poisson() -> Class {
    Class::new(100, 10.0)
}

fn periodic() -> Class {
    Class {
        arrivals: Pattern::Periodic,
        ..poisson()
    }
}

fn first(class: &Class, arrivals: usize) -> Vec<Arrival> {
    spec(vec![class.clone()])
        .arrivals()
        .take(arrivals)
        .collect()
}

/// What is sent between two instants, in seconds.
fn between(class: &Class, begin_s: f64, end_s: f64) -> Vec<Arrival> {
    let (begin_ns, end_ns) = ((begin_s * 1e9) as u64, (end_s * 1e9) as u64);
    spec(vec![class.clone()])
        .arrivals()
        .skip_while(|arrival| arrival.at_ns < begin_ns)
        .take_while(|arrival| arrival.at_ns < end_ns)
        .collect()
}

fn messages(arrivals: &[Arrival]) -> f64 {
    arrivals
        .iter()
        .map(|arrival| f64::from(arrival.messages))
        .sum()
}

fn ramp(from: f64, to: f64, over_s: u64) -> Option<Ramp> {
    let over = Duration::from_secs(over_s);
    Some(Ramp { from, to, over })
}

#[test]
fn the_seed_decides() {
    for class in [poisson(), periodic()] {
        let one = spec(vec![class]);
        let other = Spec {
            seed: 2,
            ..one.clone()
        };
        let first = |spec: &Spec| spec.arrivals().take(500).collect::<Vec<_>>();
        assert_eq!(first(&one), first(&one));
        assert_ne!(first(&one), first(&other));
    }
}

#[test]
fn classes_do_not_disturb_each_other() {
    let alone = first(&poisson(), 1000);
    let mut together = spec(vec![poisson(), periodic(), poisson()]).arrivals();
    let of_first: Vec<Arrival> = together
        .by_ref()
        .filter(|arrival| arrival.publisher < 100)
        .take(1000)
        .collect();
    assert_eq!(alone, of_first);
    // Classes that are alike send at different times all the same.
    let third = together
        .find(|arrival| arrival.publisher >= 200)
        .expect("endless");
    assert!(alone.iter().all(|arrival| arrival.at_ns != third.at_ns));
}

#[test]
fn profiles_say_who_sends_what() {
    let grouped = Class {
        group_publishers: 4,
        batch_messages: 3,
        body_bytes: 50,
        on: Duration::from_secs(1),
        off: Duration::from_secs(3),
        ramp: ramp(1.0, 2.0, 10),
        ..Class::new(10, 8.0)
    };
    let spec = spec(vec![grouped.clone(), Class::new(2, 5.0), grouped]);
    let profiles = spec.profiles();
    assert_eq!(profiles.len(), spec.publisher_count() as usize);
    let groups: Vec<Option<u32>> = profiles.iter().map(|profile| profile.group).collect();
    let of_ten = |first: u32| (0..10).map(move |member| Some(first + member / 4));
    let expected: Vec<Option<u32>> = of_ten(0).chain([None, None]).chain(of_ten(3)).collect();
    assert_eq!(groups, expected);
    let classes: Vec<u32> = profiles.iter().map(|profile| profile.class).collect();
    assert_eq!((classes[9], classes[10], classes[12]), (0, 1, 2));
    let profile = profiles[0];
    // A quarter of the time on, twice the rate at the ramp's end.
    assert_eq!(profile.rate, 4.0);
    assert_eq!((profile.batch_messages, profile.body_bytes), (3, 50));
    assert_eq!(
        spec.messages_per_second(),
        10.0 * 4.0 + 2.0 * 5.0 + 10.0 * 4.0
    );
}

#[test]
fn a_ramp_to_nothing_ends() {
    for class in [poisson(), periodic()] {
        for pauses in [Duration::ZERO, Duration::from_millis(100)] {
            let class = Class {
                ramp: ramp(1.0, 0.0, 10),
                on: pauses,
                off: pauses,
                ..class.clone()
            };
            let arrivals: Vec<Arrival> = spec(vec![class]).arrivals().collect();
            let last = arrivals.last().expect("it began");
            assert!(last.at_ns <= 10 * SECOND_NS, "{last:?}");
            assert!(last.at_ns > 8 * SECOND_NS, "{last:?}");
        }
    }
}

#[test]
fn time_ends_without_overflow() {
    let slowest = Class {
        batch_messages: u16::MAX,
        arrivals: Pattern::Periodic,
        ramp: ramp(1e-12, 1e-12, 1),
        ..Class::new(1, 1e-6)
    };
    assert_eq!(spec(vec![slowest.clone()]).arrivals().count(), 0);
    let pausing = Class {
        on: Duration::from_millis(1),
        off: Duration::from_millis(1),
        ..slowest
    };
    assert_eq!(spec(vec![pausing]).arrivals().count(), 0);
}
