//! A stop with a place outside memory: the next life has every message, once, in order, unchanged.

use super::backlog::{Keeper, SPILLING, consume, numbers, publish};
use super::handover::queue_of;
use super::*;
use crate::Loss;

/// The next life, `us` later, with what the keeper has.
fn restart(world: World, keeper: &mut Keeper, us: u64) -> World {
    let mut world = world;
    assert_eq!(keeper.save(&mut world), []);
    let mut next = World::with(SPILLING);
    let began = WallTime::from_nanos(world.now().as_nanos() << 16);
    next.table = TopicTable::new(SPILLING, MessageIds::new(0, 0, 1, began));
    next.out.now = world.now();
    next.advance_us(us);
    keeper.restore(&mut next);
    next
}

#[test]
fn all_that_waited_is_there_in_its_order_over_any_number_of_restarts() {
    for answers in [0, 1, 2, usize::MAX] {
        let mut world = World::with(SPILLING);
        let mut keeper = Keeper::default();
        let consumer = world.subscribe("t", "c", 1, 0);
        let mut published = publish(&mut world, &mut keeper, 0..300);
        assert_eq!(published, 300);
        world.table.set_ready(consumer, 3);
        world.run();
        let mut taken = 0;
        for _ in 0..4 {
            // Something is on its way both ways.
            keeper.work(&mut world, answers);
            world.publish("t", &[&published.to_string()]);
            published += 1;
            world = restart(world, &mut keeper, 1_000);
            let consumer = world.subscribe("t", "c", 1, 1);
            world.run();
            for _ in 0..20 {
                keeper.work(&mut world, usize::MAX);
                world.run();
                for delivery in world.deliveries() {
                    assert_eq!(delivery.body, taken.to_string());
                    let now = world.now();
                    let finished = world.table.finish(consumer, delivery.id, now);
                    finished.expect("it is in flight");
                    taken += 1;
                }
                world.run();
            }
            // What was delivered meanwhile comes again.
            world.deliveries();
        }
        world = restart(world, &mut keeper, 1_000);
        let consumer = world.subscribe("t", "c", 1, 3);
        world.run();
        let rest = consume(&mut world, &mut keeper, consumer);
        assert_eq!(rest, numbers(taken..published), "{answers} answers");
        assert_eq!((world.table.memory.store.len(), keeper.messages()), (0, 0));
    }
}

#[test]
fn flights_come_again_with_their_attempts_and_delays_go_on() {
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    let consumer = world.subscribe("t", "c", 1, 3);
    let now = world.now();
    let later = Duration::from_secs(10);
    world.publish_arrived("t", &["delayed"], now, later);
    world.publish("t", &["requeued", "flying"]);
    let flights = world.deliveries();
    let id_of = |body: &str| {
        let flight = flights.iter().find(|each| each.body == body);
        flight.expect("it was delivered").id
    };
    let (requeued, flying) = (id_of("requeued"), id_of("flying"));
    let now = world.now();
    let delay = Duration::from_secs(5);
    world
        .table
        .requeue(consumer, requeued, delay, now)
        .expect("in flight");
    let mut world = restart(world, &mut keeper, 1_000_000);
    world.subscribe("t", "c", 1, 10);
    world.run();
    let see = |world: &mut World, keeper: &mut Keeper| {
        keeper.work(world, usize::MAX);
        world.run();
        let seen = world.deliveries().into_iter();
        seen.map(|each| (each.body, each.attempts, each.id))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        see(&mut world, &mut keeper),
        [(String::from("flying"), 2, flying)]
    );
    world.advance_us(3_999_999);
    assert_eq!(see(&mut world, &mut keeper), []);
    world.advance_us(1);
    assert_eq!(
        see(&mut world, &mut keeper),
        [(String::from("requeued"), 2, requeued)]
    );
    world.advance_us(4_999_999);
    assert_eq!(see(&mut world, &mut keeper), []);
    world.advance_us(1);
    let delayed = see(&mut world, &mut keeper);
    assert_eq!(
        (delayed.len(), delayed[0].0.as_str(), delayed[0].1),
        (1, "delayed", 1)
    );
}

#[test]
fn a_stop_waits_for_what_is_in_flight_and_delivers_nothing_more() {
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    let consumer = world.subscribe("t", "c", 1, 1);
    let other = world.subscribe("t", "d#ephemeral", 2, 1);
    world.publish("t", &["0", "1", "2"]);
    let first = world.deliveries();
    assert_eq!(first.len(), 2);
    let now = world.now();
    world.table.begin_ending(Duration::from_secs(5), now);
    world.table.set_ready(consumer, 10);
    world.run();
    assert!(!world.table.has_ended(now));
    for delivery in first {
        let key = if delivery.connection == 1 {
            consumer
        } else {
            other
        };
        world
            .table
            .finish(key, delivery.id, now)
            .expect("in flight");
    }
    world.run();
    // Nobody keeps what is ephemeral.
    let again = world.deliveries();
    assert!(again.iter().all(|each| each.connection == 2) && !again.is_empty());
    for delivery in again {
        world
            .table
            .finish(other, delivery.id, now)
            .expect("in flight");
        world.run();
    }
    for delivery in world.deliveries() {
        world
            .table
            .finish(other, delivery.id, now)
            .expect("in flight");
    }
    assert!(world.table.has_ended(now));
    assert_eq!(keeper.save(&mut world), []);
    assert_eq!(keeper.messages(), 2);
}

#[test]
fn consumers_that_go_on_do_not_keep_a_stop_that_loses_nothing() {
    const BODIES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    let consumer = world.subscribe("t", "c", 1, 8);
    world.publish("t", &BODIES);
    let mut flights = world.deliveries().into_iter();
    let now = world.now();
    world.table.begin_ending(Duration::from_secs(5), now);
    // One message each two seconds: there is always progress.
    for seconds in [2, 4] {
        world.advance_us(2_000_000);
        let (id, now) = (flights.next().expect("in flight").id, world.now());
        assert!(!world.table.has_ended(now), "after {seconds} s");
        world.table.finish(consumer, id, now).expect("in flight");
    }
    world.advance_us(1_000_000);
    let now = world.now();
    assert!(world.table.has_ended(now));
    assert_eq!(keeper.save(&mut world), []);
    assert_eq!(keeper.messages(), 6);
}

#[test]
fn what_cannot_be_written_at_the_end_is_lost_and_counted() {
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    world.subscribe("t", "c", 1, 2);
    publish(&mut world, &mut keeper, 0..100);
    let now = world.now();
    world.publish_arrived("t", &["later"], now, Duration::from_secs(10));
    let outside = keeper.messages() as u64;
    keeper.set_fails(true);
    let losses = keeper.save(&mut world);
    let all: u64 = losses.iter().map(Loss::messages).sum();
    assert_eq!(all + outside, 101);
    let flights: u64 = losses.iter().map(|loss| loss.in_flight).sum();
    assert_eq!(flights, 2);
}

#[test]
fn a_queue_with_a_backlog_is_handed_over_whole() {
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    world.subscribe("t", "c", 1, 0);
    publish(&mut world, &mut keeper, 0..200);
    let mut there = Vec::new();
    for _ in 0..1000 {
        keeper.work(&mut world, usize::MAX);
        let now = world.now() + Duration::from_secs(60);
        for queue in [queue_of("t", Some("c")), queue_of("t", None)] {
            let batch = world.table.lift(&queue, Duration::ZERO, now);
            let bodies = batch
                .iter()
                .map(|each| String::from_utf8_lossy(&each.body).into_owned());
            there.extend(bodies);
            world.table.settle(&queue, true, now);
        }
        world.run();
    }
    there.sort_by_key(|number| number.parse::<usize>().unwrap_or_default());
    assert_eq!(there, numbers(0..200));
    assert_eq!((world.table.memory.store.len(), keeper.messages()), (0, 0));
}

#[test]
fn a_message_that_a_crash_brought_back_a_second_time_is_delivered_and_counted_as_dropped() {
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    world.subscribe("t", "c", 1, 0);
    publish(&mut world, &mut keeper, 0..4);
    assert_eq!(keeper.save(&mut world), []);
    keeper.double();
    let mut world = World::with(SPILLING);
    keeper.restore(&mut world);
    let consumer = world.subscribe("t", "c", 1, 100);
    world.run();
    for _ in 0..10 {
        keeper.work(&mut world, usize::MAX);
        world.run();
    }
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), 8);
    let now = world.now();
    let finished = deliveries
        .iter()
        .filter(|each| world.table.finish(consumer, each.id, now).is_ok());
    assert_eq!(finished.count(), 4);
    assert_eq!(world.table.memory.store.len(), 0);
}
