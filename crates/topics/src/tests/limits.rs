//! The limit in a topic's path, in virtual time: departures are those of the G/D/1 queue, exactly.

use limit::{OnExceed, oracle};
use proptest::prelude::*;

use super::*;

/// Gaps in µs and batch sizes of a bursty arrival process.
fn arrivals() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec(
        (
            prop_oneof![Just(0u64), 1..500u64, 2_000..40_000u64],
            1..12usize,
        ),
        1..60,
    )
}

proptest! {
    #[test]
    fn departures_are_the_oracles(steps in arrivals(), rate in 1u32..5_000, burst in 1u32..40) {
        let mut world = World::with(Bounds { mem_queue_size: 100_000, ..BOUNDS });
        world.subscribe("t", "c", 1, u32::MAX);
        world.limit("t", f64::from(rate), f64::from(burst));
        let mut stamps = Vec::new();
        for (gap, batch) in steps {
            world.advance_us(gap);
            let bodies = vec!["m"; batch];
            prop_assert_eq!(world.publish("t", &bodies), Published::Accepted);
            stamps.extend(vec![world.now(); batch]);
        }
        // An empty bucket fills in burst/rate seconds, a backlog drains at the rate.
        world.advance_us(1_000_000 * (stamps.len() as u64 + u64::from(burst) + 1) / u64::from(rate) + 1);
        // Nobody finishes anything, so slow runs see messages time out and come again.
        let first_time = |delivery: &Delivery| delivery.attempts == 1;
        let released: Vec<Instant> = world
            .deliveries()
            .into_iter()
            .filter(first_time)
            .map(|delivery| Instant::from_nanos(delivery.at_us * 1000))
            .collect();
        let limit = Limit::messages(f64::from(rate), f64::from(burst)).expect("valid");
        let costs = vec![1; stamps.len()];
        let empty = oracle::Held { tokens: 0.0, at: Instant::ZERO };
        let expected = oracle::gd1_departures(&stamps, &costs, limit.rate, limit.burst, empty);
        prop_assert_eq!(released.len(), expected.len(), "nothing is lost, nothing stays");
        for (number, (released, expected)) in released.iter().zip(&expected).enumerate() {
            // Virtual time is recorded in whole µs here.
            let late = expected.as_nanos().abs_diff(released.as_nanos());
            prop_assert!(late <= 1_001, "message {}: {:?} instead of {:?}", number, released, expected);
        }
        // Departures are rounded up to whole nanoseconds.
        prop_assert!(oracle::window_excess(&expected, limit.rate, limit.burst) <= 2e-9 * f64::from(rate));
    }

    #[test]
    fn reading_order_does_not_matter_within_a_turn(order in Just((0..20u64).collect::<Vec<_>>()).prop_shuffle()) {
        // Twenty publishers' messages arrive 1 ms apart and are all read at once, in any order: all
        // are conformant to (1000/s, 1) at their arrival, so none waits.
        let mut world = World::with(Bounds { mem_queue_size: 100, ..BOUNDS });
        world.subscribe("t", "c", 1, 100);
        world.limit("t", 1000.0, 1.0);
        world.advance_us(100_000);
        let first = world.now();
        world.advance_us(20_000);
        let key = world.topic("t");
        for number in order {
            let at = first + Duration::from_millis(number);
            let arrival = Arrival { at, wall_ns: 0, read: world.now(), half_rtt_us: 0, flow: 0 };
            let body = number.to_string();
            world.table.publish(key, std::iter::once(body.as_bytes()), arrival, Duration::ZERO);
        }
        world.run();
        let bodies = world.bodies();
        prop_assert_eq!(bodies, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

#[test]
fn the_time_of_reading_delays_what_was_conformant_on_arrival() {
    for (clock, delayed) in [("kernel", 0), ("read", 18)] {
        let mut world = World::with(Bounds {
            mem_queue_size: 100,
            ..BOUNDS
        });
        world.subscribe("t", "c", 1, 100);
        world.limit("t", 1000.0, 2.0);
        world.advance_us(1_000_000);
        let first = world.now();
        world.advance_us(20_000);
        let read = world.now();
        for number in 0..20 {
            let at = if clock == "kernel" {
                first + Duration::from_millis(number)
            } else {
                read
            };
            world.publish_arrived("t", &["m"], at, Duration::ZERO);
        }
        let key = world.topic("t");
        world.advance_us(1_000_000);
        assert_eq!(
            world.table.topic(key).map(|topic| topic.counts.delayed),
            Some(delayed),
            "{clock}"
        );
    }
}

#[test]
fn drop_and_reject_judge_at_arrival() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    let key = world.topic("t");
    let mut limit = Limit::messages(10.0, 2.0).expect("valid");
    limit.on_exceed = OnExceed::Drop;
    world.table.set_limit(key, Some(limit), world.out.now);
    world.advance_us(1_000_000);
    assert_eq!(world.publish("t", &["a", "b", "c"]), Published::Accepted);
    assert_eq!(world.bodies(), ["a", "b"]);
    assert_eq!(
        world.table.topic(key).map(|topic| topic.counts.dropped),
        Some(1)
    );
    limit.on_exceed = OnExceed::Reject;
    world.table.set_limit(key, Some(limit), world.out.now);
    assert!(
        matches!(world.publish("t", &["d"]), Published::Refused(text) if text.contains("(10 messages/s, burst 2)"))
    );
    world.advance_us(1_000_000);
    assert_eq!(world.publish("t", &["e"]), Published::Accepted);
    assert_eq!(world.bodies(), ["e"]);
}

#[test]
fn a_batch_larger_than_the_burst_gets_through_at_the_rate() {
    let mut world = World::with(Bounds {
        mem_queue_size: 100,
        ..BOUNDS
    });
    world.subscribe("t", "c", 1, 100);
    world.limit("t", 100.0, 2.0);
    world.advance_us(1_000_000);
    world.publish("t", &["m"; 6]);
    world.advance_us(1_000_000);
    let at: Vec<u64> = world
        .deliveries()
        .iter()
        .map(|d| (d.at_us - 1_000_000) / 1000)
        .collect();
    assert_eq!(at, [0, 0, 10, 20, 30, 40]);
}

#[test]
fn a_limit_can_change_and_go_while_messages_wait() {
    let mut world = World::with(Bounds {
        mem_queue_size: 100,
        ..BOUNDS
    });
    world.subscribe("t", "c", 1, 100);
    world.limit("t", 1.0, 1.0);
    world.publish("t", &["m"; 30]);
    world.advance_us(1_000_000);
    assert_eq!(
        world.bodies().len(),
        1,
        "an empty bucket at first, then one a second"
    );
    world.limit("t", 10.0, 5.0);
    world.run();
    world.advance_us(1_000_000);
    assert_eq!(
        world.bodies().len(),
        10,
        "the new rate at once, no gift from the larger burst"
    );
    let key = world.topic("t");
    world.table.set_limit(key, None, world.out.now);
    world.run();
    assert_eq!(world.bodies().len(), 19);
}

#[test]
fn frequent_changes_do_not_starve_a_message_larger_than_the_burst() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    let key = world.topic("t");
    let mut limit = Limit::messages(100.0, 10.0).expect("valid");
    limit.unit = limit::Unit::Bytes;
    world.table.set_limit(key, Some(limit), world.out.now);
    world.publish("t", &["a body of thirty bytes, just so"]);
    for _ in 0..9 {
        world.advance_us(30_000);
        world.table.set_limit(key, Some(limit), world.out.now);
    }
    assert!(world.bodies().is_empty());
    world.advance_us(40_000);
    assert_eq!(
        world.bodies().len(),
        1,
        "31 bytes from an empty bucket at 100 bytes/s"
    );
}
