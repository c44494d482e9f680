//! Queues, channels, RDY, FIN, REQ, TOUCH, timeouts, pauses, bounds.

use super::*;
use crate::{FlightError, WaitingPublisher};

const MINUTE_US: u64 = 60_000_000;

#[test]
fn messages_wait_in_the_topic_for_a_first_channel() {
    let mut world = World::new();
    world.publish("t", &["a", "b"]);
    let key = world.topic("t");
    assert_eq!(world.table.topic(key).map(|topic| topic.depth()), Some(2));
    world.subscribe("t", "c", 1, 10);
    assert_eq!(world.bodies(), ["a", "b"]);
}

#[test]
fn every_channel_gets_a_copy_and_one_of_its_consumers_each() {
    let mut world = World::new();
    world.subscribe("t", "one", 1, 10);
    world.subscribe("t", "one", 2, 10);
    world.subscribe("t", "two", 3, 10);
    world.publish("t", &["a", "b", "c", "d"]);
    let mut per_connection = [0; 4];
    let deliveries = world.deliveries();
    for delivery in &deliveries {
        per_connection[delivery.connection as usize] += 1;
    }
    assert_eq!(
        per_connection,
        [0, 2, 2, 4],
        "two consumers of a channel take turns"
    );
    let ids = |connection| -> Vec<u64> {
        deliveries
            .iter()
            .filter(|d| d.connection == connection)
            .map(|d| d.id)
            .collect()
    };
    assert!(
        ids(1).iter().chain(&ids(2)).all(|id| ids(3).contains(id)),
        "one id over all channels"
    );
}

#[test]
fn ready_count_bounds_what_is_in_flight() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 2);
    world.publish("t", &["a", "b", "c"]);
    let first = world.deliveries();
    assert_eq!(first.len(), 2);
    let now = world.now();
    assert_eq!(world.table.finish(consumer, first[0].id, now), Ok(()));
    world.run();
    assert_eq!(world.bodies(), ["c"]);
    world.table.set_ready(consumer, 0);
    assert_eq!(world.table.finish(consumer, first[1].id, now), Ok(()));
    world.publish("t", &["d"]);
    assert_eq!(world.bodies(), Vec::<String>::new());
}

#[test]
fn finish_requeue_and_touch_need_an_owned_flight() {
    let mut world = World::new();
    let owner = world.subscribe("t", "c", 1, 1);
    let other = world.subscribe("t", "c", 2, 0);
    world.publish("t", &["a"]);
    let (id, now) = (world.deliveries()[0].id, world.now());
    let longest = Duration::from_secs(900);
    assert_eq!(
        world.table.finish(other, id, now),
        Err(FlightError::OtherClient)
    );
    assert_eq!(
        world.table.requeue(other, id, Duration::ZERO, now),
        Err(FlightError::OtherClient)
    );
    assert_eq!(
        world.table.touch(other, id, longest, now),
        Err(FlightError::OtherClient)
    );
    assert_eq!(
        world.table.touch(owner, id + 1, longest, now),
        Err(FlightError::UnknownId)
    );
    assert_eq!(world.table.finish(owner, id, now), Ok(()));
    assert_eq!(
        world.table.finish(owner, id, now),
        Err(FlightError::UnknownId)
    );
}

#[test]
fn requeued_messages_come_again_with_one_more_attempt() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 1);
    world.publish("t", &["a"]);
    let id = world.deliveries()[0].id;
    let now = world.now();
    world
        .table
        .requeue(consumer, id, Duration::ZERO, now)
        .expect("in flight");
    world.run();
    assert_eq!(
        world
            .deliveries()
            .iter()
            .map(|d| (d.id, d.attempts))
            .collect::<Vec<_>>(),
        [(id, 2)]
    );
    world
        .table
        .requeue(consumer, id, Duration::from_micros(500), now)
        .expect("in flight");
    world.advance_us(499);
    assert!(world.deliveries().is_empty());
    world.advance_us(1);
    assert_eq!(
        world
            .deliveries()
            .iter()
            .map(|d| (d.id, d.attempts))
            .collect::<Vec<_>>(),
        [(id, 3)]
    );
}

#[test]
fn a_flight_times_out_unless_it_is_touched_and_never_beyond_the_maximum() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 1);
    world.publish("t", &["a"]);
    let id = world.deliveries()[0].id;
    world.advance_us(MINUTE_US - 1);
    let now = world.now();
    world
        .table
        .touch(consumer, id, Duration::from_secs(90), now)
        .expect("in flight");
    world.advance_us(MINUTE_US / 2);
    assert!(world.deliveries().is_empty(), "touched");
    world.advance_us(1);
    let again = world.deliveries();
    assert_eq!(
        (again.len(), again[0].attempts),
        (1, 2),
        "90 s after its delivery, not 120"
    );
}

#[test]
fn what_a_leaving_consumer_had_goes_to_the_others_at_once() {
    let mut world = World::new();
    let leaving = world.subscribe("t", "c", 1, 5);
    world.publish("t", &["a", "b"]);
    assert_eq!(world.bodies().len(), 2);
    world.subscribe("t", "c", 2, 5);
    let now = world.now();
    world.table.unsubscribe(leaving, now);
    world.run();
    let again = world.deliveries();
    assert!(
        again.iter().all(|d| d.connection == 2 && d.attempts == 2),
        "{again:?}"
    );
    assert_eq!(again.len(), 2);
}

#[test]
fn a_full_output_stops_deliveries_to_that_consumer_only() {
    let mut world = World::new();
    let slow = world.subscribe("t", "c", 1, 100);
    world.out.room = Some(1);
    world.publish("t", &["a", "b", "c"]);
    assert_eq!(world.bodies(), ["a"]);
    world.out.room = None;
    world.subscribe("t", "c", 2, 100);
    assert_eq!(
        world
            .deliveries()
            .iter()
            .map(|d| d.connection)
            .collect::<Vec<_>>(),
        [2, 2]
    );
    world.table.set_writable(slow, true);
    world.publish("t", &["d", "e"]);
    assert!(world.deliveries().iter().any(|d| d.connection == 1));
}

#[test]
fn deferred_messages_come_when_their_delay_is_over() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 10);
    let now = world.now();
    for (body, delay_us) in [("late", 900), ("early", 300), ("now", 0)] {
        world.publish_arrived("t", &[body], now, Duration::from_micros(delay_us));
    }
    world.advance_us(1000);
    let seen: Vec<_> = world
        .deliveries()
        .into_iter()
        .map(|d| (d.at_us, d.body))
        .collect();
    assert_eq!(
        seen,
        [
            (0, "now".into()),
            (300, "early".into()),
            (900, "late".into())
        ]
    );
}

#[test]
fn paused_topics_and_channels_hold_their_messages() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 10);
    let topic = world.topic("t");
    let channel = world.table.consumer(consumer).expect("subscribed").channel;
    world.table.pause(topic, true);
    world.publish("t", &["a"]);
    assert!(world.bodies().is_empty());
    world.table.pause_channel(channel, true);
    world.table.pause(topic, false);
    world.run();
    assert!(world.bodies().is_empty());
    world.table.pause_channel(channel, false);
    world.run();
    assert_eq!(world.bodies(), ["a"]);
}

#[test]
fn a_full_queue_holds_publishers_and_lets_them_go_on_when_there_is_room() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 1);
    for number in 0..21 {
        assert_eq!(
            world.publish("t", &["m"]),
            Published::Accepted,
            "message {number}: 1 in flight, 10 + 10 queued"
        );
    }
    assert_eq!(world.publish("t", &["m"]), Published::Full);
    let topic = world.topic("t");
    world.table.hold(topic, WaitingPublisher(7), false);
    assert!(world.table.has_waiting(topic));
    let (id, now) = (world.deliveries()[0].id, world.now());
    world.table.finish(consumer, id, now).expect("in flight");
    world.run();
    assert_eq!(world.table.effects.roomy, [topic]);
    assert!(matches!(
        world.table.pop_waiting(topic),
        Some(WaitingPublisher(7))
    ));
    assert_eq!(world.publish("t", &["m"]), Published::Accepted);
    assert_eq!(world.publish("t", &["m"]), Published::Full);
}

#[test]
fn a_batch_larger_than_the_queue_enters_an_empty_one() {
    let mut world = World::new();
    let batch = ["m"; 25];
    assert_eq!(world.publish("t", &batch), Published::Accepted);
    assert_eq!(world.publish("t", &["m"]), Published::Full);
}

#[test]
fn ephemeral_queues_drop_at_their_bound_and_vanish_with_their_last_user() {
    let mut world = World::new();
    world.publish("t#ephemeral", &["m"; 12]);
    let topic = world.topic("t#ephemeral");
    let consumer = world.subscribe("t#ephemeral", "c#ephemeral", 1, 0);
    for _ in 0..30 {
        assert_eq!(world.publish("t#ephemeral", &["m"]), Published::Accepted);
    }
    let channel = world.table.consumer(consumer).expect("subscribed").channel;
    let state = world.table.tree.channels.get(channel).expect("there");
    assert_eq!(
        (state.depth(), state.message_count),
        (10, state.dropped_count + 10)
    );
    let now = world.now();
    world.table.unsubscribe(consumer, now);
    assert!(world.table.topic(topic).is_none() && world.table.find("t#ephemeral").is_none());
    assert_eq!(
        world.table.memory.store.len(),
        0,
        "no message outlives its queues"
    );
}

#[test]
fn deleting_closes_consumers_and_frees_messages() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 1);
    world.subscribe("t", "d", 2, 1);
    world.publish("t", &["a", "b", "c"]);
    let topic = world.topic("t");
    world.table.hold(topic, WaitingPublisher(9), false);
    world.table.delete(topic);
    world.table.effects.close.sort_unstable();
    assert_eq!(world.table.effects.close, [1, 2]);
    assert!(matches!(
        world.table.effects.without_topic[..],
        [WaitingPublisher(9)]
    ));
    assert_eq!(
        (world.table.memory.store.len(), world.table.find("t")),
        (0, None)
    );
}

#[test]
fn emptying_discards_what_waits_and_what_is_in_flight() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 1);
    world.publish("t", &["a", "b", "c"]);
    let id = world.deliveries()[0].id;
    let channel = world.table.consumer(consumer).expect("subscribed").channel;
    world.table.empty_channel(channel);
    let now = world.now();
    assert_eq!(
        world.table.finish(consumer, id, now),
        Err(FlightError::UnknownId)
    );
    world.publish("t", &["d"]);
    assert_eq!(world.bodies(), ["d"], "its RDY is free again");
}

#[test]
fn bounds_on_topics_channels_and_consumers_refuse_with_the_bound() {
    let mut world = World::new();
    let subscription = Subscription {
        connection: 1,
        number: 0,
        msg_timeout: Duration::from_secs(60),
        sample_rate: 0,
        is_finished_when_sent: false,
    };
    for name in ["a", "b", "c", "d"] {
        world.topic(name);
    }
    let refused = |result: Result<ConsumerKey, super::super::refusal::Refusal>| {
        result
            .map_err(|refusal| refusal.to_string())
            .expect_err("at the bound")
    };
    let channel = |name: &str| name.parse().expect("valid");
    assert_eq!(
        refused(world.table.subscribe("e", &channel("x"), subscription)),
        "too many topics (limit 4)"
    );
    for name in ["x", "y", "z", "z"] {
        world
            .table
            .subscribe("a", &channel(name), subscription)
            .expect("within bounds");
    }
    assert_eq!(
        refused(world.table.subscribe("a", &channel("w"), subscription)),
        "too many channels (limit 3)"
    );
    assert_eq!(
        refused(world.table.subscribe("a", &channel("z"), subscription)),
        "consumers for a:z exceeds limit of 2"
    );
}

#[test]
fn sampling_gives_a_consumer_its_share() {
    let mut world = World::with(Bounds {
        mem_queue_size: 1000,
        ..BOUNDS
    });
    let subscription = Subscription {
        connection: 1,
        number: 0,
        msg_timeout: Duration::from_secs(60),
        sample_rate: 25,
        is_finished_when_sent: false,
    };
    let key = world
        .table
        .subscribe("t", &"c".parse().expect("valid"), subscription)
        .expect("within bounds");
    world.table.set_ready(key, 2500);
    for _ in 0..10 {
        world.publish("t", &["m"; 100]);
    }
    assert_eq!(world.bodies().len(), 250);
}

#[test]
fn a_consumer_that_says_nothing_has_its_messages_finished_as_they_are_sent() {
    let mut world = World::new();
    let subscription = Subscription {
        connection: 1,
        number: 0,
        msg_timeout: Duration::from_millis(1),
        sample_rate: 0,
        is_finished_when_sent: true,
    };
    let key = world
        .table
        .subscribe("t", &"c".parse().expect("valid"), subscription)
        .expect("within bounds");
    world.table.set_ready(key, u32::MAX);
    world.publish("t", &["m1", "m2", "m3"]);
    world.advance_us(10_000);
    assert_eq!(
        world.bodies(),
        ["m1", "m2", "m3"],
        "once each, whatever the timeout"
    );
    let consumer = world.table.consumer(key).expect("it stays");
    assert_eq!((consumer.in_flight_count, consumer.finish_count), (0, 3));
    assert!(world.table.losses().is_empty());
}

#[test]
fn a_topic_is_served_in_parts_and_asks_for_the_rest() {
    let mut world = World::new();
    let topic = world.topic("t");
    world.subscribe("t", "a", 1, 100);
    world.subscribe("t", "b", 2, 100);
    let now = world.now();
    let arrival = Arrival {
        at: now,
        wall_ns: 0,
        read: now,
        half_rtt_us: 0,
        flow: 0,
    };
    let bodies = ["m"; 10].map(str::as_bytes);
    let published = world
        .table
        .publish(topic, bodies.into_iter(), arrival, Duration::ZERO);
    assert_eq!(published, Published::Accepted);
    let mut delivered = Vec::new();
    while let Some(key) = world.table.pop_dirty() {
        assert_eq!(key, topic);
        world.table.run_topic(key, now, 4, &mut world.out);
        delivered.push(world.bodies().len());
    }
    // Four messages to each of two channels at a time, until a part has nothing to do.
    assert_eq!(delivered, [8, 8, 4, 0]);
}
