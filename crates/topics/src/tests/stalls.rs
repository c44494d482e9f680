//! A process that does nothing for a while earns nothing by it: releases on its own clock stay within
//! r·t + b + r·20 ms, whatever arrived or waited meanwhile.

use limit::{JudgedBy, OnExceed, Unit, oracle};
use proptest::prelude::*;

use super::*;

const RATE: f64 = 1000.0;
const BURST: f64 = 50.0;

/// Tokens of 20 ms at [`RATE`].
const LATE: usize = 20;

const ROOMY: Bounds = Bounds {
    mem_queue_size: 100_000,
    ..BOUNDS
};

fn limit(on_exceed: OnExceed) -> Limit {
    let limit = Limit::messages(RATE, BURST).expect("valid");
    Limit { on_exceed, ..limit }
}

/// A topic whose bucket is full.
fn world(on_exceed: OnExceed) -> World {
    let mut world = World::with(ROOMY);
    world.subscribe("t", "c", 1, u32::MAX);
    let (key, now) = (world.topic("t"), world.now());
    world.table.set_limit(key, Some(limit(on_exceed)), now);
    world.advance_us(1_000_000);
    world
}

#[test]
fn what_waited_through_a_stall_leaves_by_the_burst_and_no_more() {
    let mut world = world(OnExceed::Delay);
    world.publish("t", &["m"; 10_000]);
    assert_eq!(world.bodies().len(), BURST as usize);
    world.stall_us(10_000_000);
    world.run();
    assert_eq!(world.bodies().len(), BURST as usize + LATE);
    world.advance_us(1_000_000);
    assert_eq!(world.bodies().len(), RATE as usize, "and then at the rate");
}

#[test]
fn what_arrived_during_a_stall_leaves_by_the_burst_and_no_more() {
    for (on_exceed, admitted) in [
        (OnExceed::Delay, BURST as usize + LATE),
        // Judged at their arrivals, the last of which is a millisecond before the end.
        (OnExceed::Drop, BURST as usize + LATE - 1),
        (OnExceed::Reject, BURST as usize + LATE - 1),
    ] {
        let mut world = world(on_exceed);
        let began = world.now();
        world.stall_us(10_000_000);
        // Conformant, each of them, had anybody been there: one per millisecond.
        for number in 0..10_000 {
            let at = began + Duration::from_millis(number);
            world.read_arrived("t", &["m"], at);
        }
        world.run();
        assert_eq!(world.bodies().len(), admitted, "{on_exceed}");
    }
}

#[test]
fn a_reactor_that_is_late_as_usual_delays_nobody() {
    let mut world = world(OnExceed::Delay);
    let began = world.now();
    world.stall_us(20_000);
    for number in 0..20 {
        let at = began + Duration::from_millis(number);
        world.read_arrived("t", &["m"; 1], at);
        world.read_arrived("t", &["m"; 2], at);
    }
    world.run();
    assert_eq!(world.bodies().len(), 60, "50 held, 1 per ms since");
}

#[test]
fn a_pause_of_a_topic_is_no_licence_either() {
    let mut world = world(OnExceed::Delay);
    let key = world.topic("t");
    world.table.pause(key, true);
    for _ in 0..1000 {
        world.publish("t", &["m"]);
        world.advance_us(1000);
    }
    world.table.pause(key, false);
    world.run();
    assert_eq!(world.bodies().len(), BURST as usize + LATE);
}

#[test]
fn a_command_that_was_held_back_is_judged_when_it_goes_on() {
    let mut world = world(OnExceed::Drop);
    let read_long_ago = Arrival {
        at: world.now(),
        wall_ns: 0,
        read: world.now(),
        half_rtt_us: 0,
        flow: 0,
    };
    world.advance_us(10_000_000);
    let (key, bodies) = (world.topic("t"), [b"m".as_slice(); 50]);
    let outcome = world
        .table
        .publish(key, bodies.into_iter(), read_long_ago, Duration::ZERO);
    assert_eq!(outcome, Published::Accepted);
    // Were the first 50 judged when they were read, the bucket would be full again.
    world.publish("t", &["m"; 50]);
    assert_eq!(world.bodies().len(), BURST as usize + LATE);
}

#[test]
fn after_a_message_larger_than_the_burst_a_stall_counts_for_20_ms_too() {
    let mut world = World::with(ROOMY);
    world.subscribe("t", "c", 1, u32::MAX);
    let (key, now) = (world.topic("t"), world.now());
    let mut limit = Limit::messages(1000.0, 100.0).expect("valid");
    limit.unit = Unit::Bytes;
    world.table.set_limit(key, Some(limit), now);
    let (large, small) = ("x".repeat(150), "x".repeat(10));
    world.publish("t", &[&large]);
    for _ in 0..50 {
        world.publish("t", &[&small]);
    }
    world.stall_us(10_000_000);
    world.run();
    // It leaves its burst empty, whenever it goes: 20 ms are 20 bytes.
    assert_eq!(world.bodies().len(), 1 + 2);
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize),
    Advance(u64),
    /// Nothing is done for so long, while a message arrives every so often.
    Stall(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..80usize).prop_map(Step::Publish),
        3 => (1..60_000u64).prop_map(Step::Advance),
        1 => (1_000..3_000_000u64, 500..50_000u64).prop_map(|(us, gap)| Step::Stall(us, gap)),
    ];
    prop::collection::vec(step, 1..30)
}

proptest! {
    #[test]
    fn releases_exceed_the_limit_by_no_more_than_20_ms_and_judged_by_release_not_at_all(
        steps in steps(),
        rate in 50u32..3_000,
        burst in 1u32..40,
        is_strict: bool,
    ) {
        let mut world = World::with(ROOMY);
        world.subscribe("t", "c", 1, u32::MAX);
        let (key, now) = (world.topic("t"), world.now());
        let limit = Limit {
            judged_by: if is_strict { JudgedBy::Release } else { JudgedBy::Arrival },
            ..Limit::messages(f64::from(rate), f64::from(burst)).expect("valid")
        };
        world.table.set_limit(key, Some(limit), now);
        let mut published = 0;
        for step in steps {
            match step {
                Step::Publish(messages) => {
                    published += messages;
                    world.publish("t", &vec!["m"; messages]);
                }
                Step::Advance(us) => world.advance_us(us),
                Step::Stall(us, gap) => {
                    let began = world.now();
                    world.stall_us(us);
                    for late in (0..us).step_by(gap as usize) {
                        published += 1;
                        world.read_arrived("t", &["m"], began + Duration::from_micros(late));
                    }
                    world.run();
                }
            }
        }
        let released = world.released();
        // Instants are recorded in whole microseconds here.
        let most = f64::from(rate) * (if is_strict { 0.0 } else { 0.020 } + 2e-6);
        let excess = oracle::window_excess(&released, limit.rate, limit.burst);
        prop_assert!(released.is_empty() || excess <= most, "{excess} of {most}");
        // And nothing stays for ever.
        world.advance_us(1_000_000 * (published as u64 + u64::from(burst) + 1) / u64::from(rate) + 1);
        prop_assert_eq!(world.table.topic(key).map(|topic| topic.counts.passed), Some(published as u64));
    }
}
