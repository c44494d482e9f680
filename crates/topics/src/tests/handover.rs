//! Queues that move from one broker to another.

use bytes::Bytes;

use super::*;
use crate::{Batch, Handed, NotTaken, QueueName};

const PATIENCE: Duration = Duration::from_secs(5);

/// A queue's name from plain text.
pub(super) fn queue_of(topic: &str, channel: Option<&str>) -> QueueName {
    QueueName {
        topic: topic.parse().expect("valid"),
        channel: channel.map(|channel| channel.parse().expect("valid")),
    }
}

/// Batch `number` of one stream.
pub(super) fn batch_of(number: u64, bodies: &[&str]) -> Batch {
    let handed = |body: &&str| Handed {
        published_ns: 0,
        delay: Duration::ZERO,
        attempts: 0,
        has_paid: false,
        body: Bytes::copy_from_slice(body.as_bytes()),
    };
    Batch {
        stream: 1,
        number,
        messages: bodies.iter().map(handed).collect(),
    }
}

/// A world whose channel `c` of topic `t` nobody consumes, with messages.
fn with_messages(bodies: &[&str]) -> World {
    let mut world = World::new();
    let key = world.topic("t");
    let made = world
        .table
        .find_or_create_channel(key, &"c".parse().expect("valid"));
    made.expect("within bounds");
    world.publish("t", bodies);
    world
}

/// Hands over everything that is stranded; batches are numbered from `number`.
fn carry(source: &mut World, target: &mut World, mut number: u64) -> Vec<QueueName> {
    let now = source.now();
    let queues = source.table.stranded(PATIENCE, now);
    for queue in &queues {
        loop {
            let messages = source.table.lift(queue, PATIENCE, now);
            if messages.is_empty() {
                break;
            }
            let batch = Batch {
                stream: 7,
                number,
                messages,
            };
            let taken = target.table.take_over(queue, &batch, target.out.now);
            source.table.settle(queue, taken.is_ok(), now);
            if taken.is_err() {
                break;
            }
            number += 1;
        }
    }
    source.run();
    target.run();
    queues
}

fn unfinished(world: &World) -> u64 {
    let topics = world
        .table
        .tree
        .topics
        .iter()
        .map(|(_, topic)| topic.unfinished());
    let channels = world.table.tree.channels.iter();
    topics.sum::<u64>()
        + channels
            .map(|(_, channel)| channel.unfinished())
            .sum::<u64>()
}

#[test]
fn a_channel_without_consumers_is_handed_over_in_order() {
    let mut source = with_messages(&["a", "b", "c"]);
    let mut target = World::new();
    source.advance_us(1_000);
    assert_eq!(
        carry(&mut source, &mut target, 1),
        [queue_of("t", Some("c"))]
    );
    assert_eq!((unfinished(&source), unfinished(&target)), (0, 3));
    assert_eq!(source.table.memory.store.len(), 0, "the bodies are free");
    target.subscribe("t", "c", 1, 10);
    let deliveries = target.deliveries();
    let bodies: Vec<&str> = deliveries.iter().map(|d| d.body.as_str()).collect();
    assert_eq!(bodies, ["a", "b", "c"]);
    assert!(deliveries.iter().all(|delivery| delivery.attempts == 1));
}

#[test]
fn attempts_and_delays_go_along() {
    let mut source = with_messages(&["a"]);
    let consumer = source.subscribe("t", "c", 1, 1);
    let id = source.deliveries()[0].id;
    let now = source.now();
    let ten = Duration::from_secs(10);
    assert_eq!(source.table.requeue(consumer, id, ten, now), Ok(()));
    source.table.unsubscribe(consumer, now);
    source.advance_us(4_000_000);
    let mut target = World::new();
    carry(&mut source, &mut target, 1);
    assert_eq!((unfinished(&source), unfinished(&target)), (0, 1));
    target.subscribe("t", "c", 1, 1);
    target.advance_us(5_999_000);
    assert_eq!(target.deliveries(), []);
    target.advance_us(2_000);
    let delivery = target.deliveries().remove(0);
    assert_eq!((delivery.attempts, delivery.at_us), (2, 6_000_000));
}

#[test]
fn the_time_of_publishing_goes_along() {
    let mut source = World::new();
    source.advance_us(7);
    source.publish("t", &["a"]);
    let lifted = source
        .table
        .lift(&queue_of("t", None), PATIENCE, source.out.now);
    assert_eq!(lifted[0].published_ns, 7_000);
}

#[test]
fn a_topic_that_nothing_takes_from_is_handed_over() {
    type Make = fn(&mut World);
    let paused: Make = |world| {
        world.subscribe("t", "c", 1, 10);
        let key = world.topic("t");
        world.table.pause(key, true);
    };
    let without_channels: Make = |_| {};
    for make in [paused, without_channels] {
        let (mut source, mut target) = (World::new(), World::new());
        make(&mut source);
        source.publish("t", &["a", "b"]);
        assert_eq!(carry(&mut source, &mut target, 1), [queue_of("t", None)]);
        assert_eq!((unfinished(&source), unfinished(&target)), (0, 2));
        target.subscribe("t", "c", 1, 10);
        assert_eq!(target.bodies(), ["a", "b"]);
    }
}

#[test]
fn what_flows_is_left_to_its_consumers_until_it_has_waited_long() {
    let mut source = with_messages(&["a", "b", "c"]);
    source.subscribe("t", "c", 1, 1);
    let mut target = World::new();
    assert_eq!(carry(&mut source, &mut target, 1), []);
    source.advance_us(5_000_000);
    carry(&mut source, &mut target, 1);
    assert_eq!(unfinished(&source), 1, "what is in flight stays");
    target.subscribe("t", "c", 1, 10);
    assert_eq!(target.bodies(), ["b", "c"]);
}

#[test]
fn ephemeral_queues_stay() {
    let mut source = World::new();
    source.subscribe("t", "c#ephemeral", 1, 0);
    source.subscribe("e#ephemeral", "c", 1, 0);
    source.publish("t", &["a"]);
    source.publish("e#ephemeral", &["a"]);
    source.advance_us(60_000_000);
    assert_eq!(source.table.stranded(PATIENCE, source.out.now), []);
    let mut target = World::new();
    for (topic, channel) in [("t", "c#ephemeral"), ("e#ephemeral", "c")] {
        let queue = queue_of(topic, Some(channel));
        let taken = target
            .table
            .take_over(&queue, &batch_of(1, &["a"]), target.out.now);
        assert_eq!(taken, Err(NotTaken::Ephemeral));
    }
}

/// A batch that is on its way while its channel is deleted must not bring it back.
#[test]
fn under_a_controller_a_batch_makes_no_channel() {
    let mut world = World::of(BOUNDS, TopicTable::controlled);
    let (now, table) = (world.now(), &mut world.table);
    let queue = queue_of("t", Some("c"));
    table.find_or_create("t").expect("room");
    let taken = table.take_over(&queue, &batch_of(1, &["a"]), now);
    assert_eq!(taken, Err(NotTaken::Unknown));
    let known = crate::KnownTopic {
        name: queue.topic.clone(),
        is_paused: false,
        channels: vec![("c".parse().expect("valid"), false)],
    };
    table.learn(&known).expect("room");
    assert_eq!(
        table.take_over(&queue, &batch_of(1, &["a"]), now),
        Ok(Published::Accepted)
    );
    // Where its topic is not, nobody has told of its channels yet.
    let elsewhere = queue_of("u", Some("c"));
    assert_eq!(
        table.take_over(&elsewhere, &batch_of(2, &["a"]), now),
        Ok(Published::Accepted)
    );
}

#[test]
fn a_batch_that_is_said_twice_is_taken_once() {
    let mut target = World::new();
    let queue = queue_of("t", Some("c"));
    let now = target.now();
    for (number, here) in [(1, 1), (1, 1), (2, 2), (1, 2), (2, 2), (3, 3)] {
        let batch = batch_of(number, &["x"]);
        assert_eq!(
            target.table.take_over(&queue, &batch, now),
            Ok(Published::Accepted)
        );
        assert_eq!(unfinished(&target), here, "batch {number}");
    }
}

#[test]
fn a_full_queue_takes_nothing_of_a_batch_and_what_was_lifted_goes_back_in_order() {
    let mut source = with_messages(&["a", "b", "c"]);
    let mut target = with_messages(&["1", "2", "3", "4", "5", "6", "7", "8"]);
    carry(&mut source, &mut target, 1);
    assert_eq!((unfinished(&source), unfinished(&target)), (3, 8));
    source.subscribe("t", "c", 1, 10);
    assert_eq!(source.bodies(), ["a", "b", "c"]);
}

#[test]
fn an_order_to_empty_reaches_what_is_on_its_way() {
    let mut source = with_messages(&["a", "b"]);
    let queue = queue_of("t", Some("c"));
    let now = source.now();
    assert_eq!(source.table.lift(&queue, PATIENCE, now).len(), 2);
    assert_eq!(unfinished(&source), 2, "on its way it is still here");
    let key = source.topic("t");
    let channel = source.table.find_channel(key, &"c".parse().expect("valid"));
    source.table.empty_channel(channel.expect("made"));
    source.table.settle(&queue, false, now);
    assert_eq!(
        (unfinished(&source), source.table.memory.store.len()),
        (0, 0)
    );
}

#[test]
fn what_has_paid_for_its_limit_does_not_pay_again() {
    let mut source = World::new();
    source.limit("t", 10.0, 2.0);
    let key = source.topic("t");
    source.table.pause(key, true);
    let limit = Limit::messages(10.0, 2.0).expect("valid");
    let dropping = limit::Limit {
        on_exceed: limit::OnExceed::Drop,
        ..limit
    };
    let now = source.now();
    source.table.set_limit(key, Some(dropping), now);
    source.advance_us(1_000_000);
    source.publish("t", &["a", "b", "c"]);
    let mut target = World::new();
    let key = target.topic("t");
    target.table.set_limit(key, Some(dropping), Instant::ZERO);
    carry(&mut source, &mut target, 1);
    target.subscribe("t", "c", 1, 10);
    assert_eq!(
        target.bodies(),
        ["a", "b"],
        "c was dropped where it arrived"
    );
}

#[test]
fn what_has_not_paid_waits_for_the_tokens_of_its_new_place() {
    let mut source = World::new();
    source.publish("t", &["a", "b", "c"]);
    let mut target = World::new();
    target.limit("t", 10.0, 1.0);
    target.subscribe("t", "c", 1, 10);
    carry(&mut source, &mut target, 1);
    target.advance_us(1_000_000);
    let released: Vec<u64> = target.deliveries().iter().map(|d| d.at_us).collect();
    assert_eq!(released, [100_000, 200_000, 300_000]);
}
