//! Overload is answered within seconds: from reports, at measured rates, without ping-pong.

use std::time::Duration;

use proptest::prelude::*;

use super::world::World;

/// Two brokers of 1,000 messages/s, 60 publishers at 10/s on one, p99 within 40 ms; then each sends 22/s.
fn more_is_sent(window: Duration, seed: u64) -> (World, u64) {
    let mut world = World::new(2, window, seed);
    world.topic("load", Some(40.0), 60, (10.0, 1, 1));
    world.run_until("fitted", 300.0);
    assert_eq!(
        world.state("load"),
        "fitted",
        "{}",
        world.story(Default::default())
    );
    assert!(world.sent().contains(&600.0), "{:?}", world.sent());
    // Reports are under way when the load grows.
    world.run(5.0 + 0.23 * seed as f64);
    world.began = world.now;
    let from = world.second();
    world.rate("load", 22.0);
    world.run(40.0);
    (world, from)
}

#[test]
fn what_is_too_much_for_a_broker_leaves_within_seconds() {
    for (window_s, most) in [(5, 15), (60, 20)] {
        for seed in 0..4 {
            let (world, from) = more_is_sent(Duration::from_secs(window_s), seed);
            let broken = world.broken_until("load", from);
            let told = world.first_move();
            assert!(told < 3.0, "{told} s");
            assert!(
                broken > 0 && broken <= most,
                "{broken} s\n{}",
                world.story(world.began)
            );
            assert_eq!(world.most_moves_in_ten_seconds(), 1);
            assert_eq!(world.lies, 0);
            assert!(world.sent().iter().all(|&sent| sent < 900.0));
        }
    }
}

/// Many brokers, with the load of `more_is_sent` on the first of them: something happens to the cluster while it grows.
fn meanwhile(brokers: usize, seed: u64, happens: impl FnOnce(&mut World)) -> (World, u64) {
    let mut world = World::new(brokers, Duration::from_secs(5), seed);
    world.topic("load", Some(40.0), 60, (10.0, 1, 1));
    world.run_until("fitted", 300.0);
    world.run(5.0 + 0.23 * seed as f64);
    world.began = world.now;
    let from = world.second();
    world.rate("load", 22.0);
    happens(&mut world);
    world.run(40.0);
    (world, from)
}

#[test]
fn a_broker_that_is_drained_takes_none_of_what_leaves_another() {
    for seed in 0..4 {
        let (world, from) = meanwhile(3, seed, |world| {
            let free = world.sent().iter().position(|&sent| sent == 0.0);
            let drained = format!("b{}", free.expect("one carries nothing") + 1);
            world.core.drain_broker(&drained, world.now).expect("known");
        });
        let broken = world.broken_until("load", from);
        assert!(broken <= 15, "{broken} s\n{}", world.story(world.began));
        assert_eq!(world.most_moves_in_ten_seconds(), 1);
        assert_eq!(world.sent().iter().filter(|&&sent| sent > 0.0).count(), 2);
        assert_eq!(world.lies, 0);
    }
}

#[test]
fn an_overload_is_answered_by_a_controller_that_has_just_come_back() {
    for (seed, after) in [(0, 0.4), (1, 1.3), (2, 2.2), (3, 4.1)] {
        let (world, from) = meanwhile(3, seed, |world| {
            world.run(after);
            world.restart_controller();
        });
        let broken = world.broken_until("load", from);
        assert!(broken <= 20, "{broken} s\n{}", world.story(world.began));
        assert_eq!(world.most_moves_in_ten_seconds(), 1);
        assert_eq!(world.lies, 0);
    }
}

#[test]
fn a_broker_that_dies_under_overload_leaves_its_part_to_the_others() {
    for seed in 0..4 {
        let (mut world, _) = meanwhile(4, seed, |_| {});
        let carries = world.sent().iter().position(|&sent| sent > 0.0);
        let since = world.now;
        let from = world.second();
        world.kill(carries.expect("one carries something"));
        world.run(40.0);
        let broken = world.broken_until("load", from);
        assert!(broken <= 15, "{broken} s\n{}", world.story(since));
        assert!(
            world.sent().iter().all(|&sent| sent < 900.0),
            "{:?}",
            world.sent()
        );
        assert_eq!(world.most_moves_in_ten_seconds(), 1);
        assert_eq!(world.lies, 0);
    }
}

#[test]
fn a_queue_at_a_broker_that_has_fallen_silent_is_not_waited_for() {
    for seed in 0..2 {
        let (world, _) = meanwhile(4, seed, |world| {
            let carries = world.sent().iter().position(|&sent| sent > 0.0);
            world.run(2.2);
            world.fall_silent(carries.expect("one carries something"));
        });
        let story = world.story(world.began);
        assert!(story.contains("messages wait"), "it had a queue: {story}");
        assert_eq!(world.state("load"), "fitted", "{story}");
    }
}

/// Two promised topics swing against each other, one without a promise beside them.
fn swing(brokers: usize, seed: u64, period: f64, rates: [(f64, f64); 2], seconds: f64) -> World {
    let mut world = World::new(brokers, Duration::from_secs(5), seed);
    world.topic("one", Some(40.0), 40, (10.0, 1, 1));
    world.topic("two", Some(60.0), 30, (10.0, 1, 3));
    world.topic("free", None, 20, (5.0, 1, 1));
    world.run_until("fitted", 100.0);
    world.began = world.now;
    for turn in 0..(seconds / period) as u32 {
        let (one, two) = rates[turn as usize % 2];
        world.rate("one", one);
        world.rate("two", two);
        world.run(period);
    }
    world
}

#[test]
fn a_load_that_swings_comes_to_rest() {
    for (seed, period) in [(0, 3.0), (1, 7.0), (2, 20.0)] {
        let rates = [(35.0, 4.0), (8.0, 40.0)];
        let world = swing(3, seed, period, rates, 140.0);
        assert_eq!(world.most_moves_in_ten_seconds(), 1);
        assert_eq!(world.lies, 0);
        assert_eq!(world.spawns, 0, "there is capacity enough");
        let (early, late) = (
            world.moves_between(0.0, 70.0),
            world.moves_between(70.0, 140.0),
        );
        assert!(
            early < 60 && late <= 3,
            "{early}, then {late}\n{}",
            world.story(world.began)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_moves_twice_in_ten_seconds_whatever_the_load_does(
        seed in 0u64..1000,
        brokers in 1usize..4,
        period in 1.0f64..15.0,
        rates in prop::array::uniform2((1.0f64..50.0, 1.0f64..50.0)),
    ) {
        let world = swing(brokers, seed, period, rates, 60.0);
        prop_assert!(world.most_moves_in_ten_seconds() <= 1, "{}", world.story(world.began));
        prop_assert_eq!(world.lies, 0, "{}", world.story(world.began));
    }
}

#[test]
fn a_promise_that_is_broken_every_other_second_is_never_called_kept() {
    let rates = [(28.422740745104278, 1.0), (17.851470757336298, 1.0)];
    let world = swing(2, 0, 1.0, rates, 60.0);
    assert_eq!(world.lies, 0, "{}", world.story(world.began));
}

#[test]
fn a_broker_that_joins_gets_its_part_at_once() {
    for seed in 0..3 {
        let mut world = World::new(1, Duration::from_secs(60), seed);
        world.topic("load", Some(40.0), 60, (10.0, 1, 1));
        world.topic("other", Some(80.0), 20, (5.0, 1, 1));
        world.run_until("fitted", 300.0);
        world.run(3.3);
        world.rate("load", 22.0);
        world.run(10.0);
        assert_eq!(world.state("load"), "out-of-brokers");
        assert!(world.spawns > 0);
        let text = world.core.topic_view("load").expect("declared").text;
        assert!(text.contains("more than all brokers"), "{text}");
        let since = world.now;
        world.join();
        world.run(2.0);
        assert!(
            world.sent()[1] > 400.0,
            "{:?}\n{}",
            world.sent(),
            world.story(since)
        );
        assert_ne!(world.state("load"), "out-of-brokers");
        let from = world.second();
        world.run(90.0);
        // What had gathered in ten seconds is worked off at what the first broker has to spare.
        let broken = world.broken_until("load", from);
        assert!(broken <= 25, "{broken} s\n{}", world.story(since));
        assert_eq!(
            (world.state("load").as_str(), world.state("other").as_str()),
            ("fitted", "fitted")
        );
        let text = world.core.topic_view("load").expect("declared").text;
        assert!(!text.contains("more than all brokers"), "{text}");
    }
}

#[test]
fn topics_without_a_promise_leave_first_and_the_tightest_last() {
    for (rate, leaves) in [(16.0, ["free", ""]), (22.0, ["free", "loose"])] {
        let mut world = World::new(1, Duration::from_secs(5), 1);
        world.topic("tight", Some(60.0), 30, (10.0, 1, 1));
        world.topic("loose", Some(500.0), 20, (10.0, 1, 1));
        world.topic("free", None, 15, (20.0, 1, 1));
        world.run_until("fitted", 100.0);
        world.join();
        world.run(5.0);
        world.began = world.now;
        world.rate("tight", rate);
        world.run(30.0);
        for topic in ["tight", "loose", "free"] {
            let has_moved = world.moved(topic) > 0;
            let expected = leaves.contains(&topic);
            assert_eq!(
                has_moved,
                expected,
                "{topic} at {rate}\n{}",
                world.story(world.began)
            );
        }
        assert_eq!((world.state("tight").as_str(), world.lies), ("fitted", 0));
    }
}
