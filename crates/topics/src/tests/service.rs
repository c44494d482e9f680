//! Emulated service in a topic's path, in virtual time, against a model of one queue.

use limit::{Burst, Rate, TokenBucket};
use model::ServiceModel;
use proptest::prelude::*;

use super::super::service::GATHERING;
use super::*;

fn emulating(per_message_us: u32, per_batch_us: u32, servers: u32) -> World {
    let bounds = Bounds {
        mem_queue_size: 100_000,
        ..BOUNDS
    };
    let model = ServiceModel {
        per_message_ns: f64::from(per_message_us) * 1000.0,
        per_batch_ns: f64::from(per_batch_us) * 1000.0,
        servers,
        ..ServiceModel::default()
    };
    let ids = MessageIds::new(0, 0, 1, WallTime::from_nanos(1));
    let mut world = World::with(bounds);
    world.table = TopicTable::new(bounds, ids).emulating(&model);
    world
}

fn times(world: &mut World) -> Vec<u64> {
    world.deliveries().iter().map(|d| d.at_us).collect()
}

#[test]
fn a_lone_message_leaves_when_it_is_done_and_a_burst_is_gathered() {
    let mut world = emulating(18, 4, 1);
    world.subscribe("t", "c", 1, u32::MAX);
    world.advance_us(1000);
    world.publish("t", &["m"]);
    world.advance_us(1000);
    assert_eq!(times(&mut world), [1022]);
    world.publish("t", &["m"; 20]);
    world.advance_us(10_000);
    let times = times(&mut world);
    assert_eq!(times.len(), 20);
    for (number, at) in (1u64..).zip(&times) {
        let done = 2000 + 4 + 18 * number;
        assert!(
            (done..=done + 100).contains(at),
            "{number}: {at} for {done}"
        );
    }
    let mut wakeups = times;
    wakeups.dedup();
    assert!(wakeups.len() <= 4, "{wakeups:?}");
}

#[test]
fn topics_share_the_server_and_each_waits_for_its_own_head() {
    let mut world = emulating(1000, 0, 1);
    world.subscribe("a", "c", 1, u32::MAX);
    world.subscribe("b", "c", 2, u32::MAX);
    world.publish("a", &["m"; 2]);
    world.publish("b", &["m"]);
    world.advance_us(10_000);
    let at = |connection| move |d: &Delivery| (d.connection == connection).then_some(d.at_us);
    let deliveries = world.deliveries();
    let a: Vec<u64> = deliveries.iter().filter_map(at(1)).collect();
    let b: Vec<u64> = deliveries.iter().filter_map(at(2)).collect();
    assert_eq!((a, b), (vec![1000, 2000], vec![3000]));
}

#[test]
fn what_is_deferred_or_deleted_leaves_no_trace() {
    let mut world = emulating(1000, 0, 1);
    world.subscribe("t", "c", 1, u32::MAX);
    let key = world.topic("t");
    world.publish("t", &["m"; 5]);
    world.table.empty(key);
    world.publish("t", &["n"]);
    world.advance_us(10_000);
    // The server has worked on what was thrown away, as a real one would have.
    assert_eq!(times(&mut world), [6000]);
}

proptest! {
    /// Every message leaves at max(done, tokens), never earlier, at most the gathering later.
    #[test]
    fn messages_leave_when_served_and_paid(
        commands in prop::collection::vec((0..3_000u64, 1..20usize), 1..40),
        per_message_us in 1..200u32,
        per_batch_us in 0..50u32,
        servers in 1..4u32,
        limit in prop::option::of((200..20_000u32, 1..100u32)),
    ) {
        let mut world = emulating(per_message_us, per_batch_us, servers);
        world.subscribe("t", "c", 1, u32::MAX);
        let mut bucket = None;
        if let Some((rate, burst)) = limit {
            let (rate, burst) = (f64::from(rate), f64::from(burst));
            world.limit("t", rate, burst);
            let (rate, burst) = (Rate::new(rate).expect("valid"), Burst::new(burst).expect("valid"));
            bucket = Some(TokenBucket::empty(rate, burst, world.now()));
        }
        let mut free_at = vec![Instant::ZERO; servers as usize];
        let mut expected = Vec::new();
        let mut left = Instant::ZERO;
        for (gap_us, messages) in commands {
            world.advance_us(gap_us);
            let at = world.now();
            world.publish("t", &vec!["m"; messages]);
            for number in 0..messages {
                let batch_us = if number == 0 { per_batch_us } else { 0 };
                let first = free_at.iter_mut().min().expect("a server");
                *first = at.max(*first) + Duration::from_micros(u64::from(per_message_us + batch_us));
                let done = *first;
                let paid = bucket.as_mut().map_or(done, |bucket| bucket.take(at, 1.0));
                left = left.max(done).max(paid);
                expected.push(left);
            }
        }
        world.advance_us(30_000_000);
        let left: Vec<u64> = times(&mut world);
        prop_assert_eq!(left.len(), expected.len());
        for (left, expected) in left.into_iter().zip(expected) {
            let earliest = expected.as_nanos() / 1000;
            let latest = (expected + GATHERING).as_nanos() / 1000 + 1;
            prop_assert!((earliest..=latest).contains(&left), "{} instead of {:?}", left, expected);
        }
    }
}
