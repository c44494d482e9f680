//! Full channels and too many deferred messages: whom they stop, and what they lose.

use link::OnFull;

use super::*;
use crate::channel::Channel;
use crate::fullness::{Full, FullNews};
use crate::{FlightError, WaitingPublisher};

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;

impl World {
    fn make_channel(&mut self, channel: &str) {
        let (topic, name) = (self.topic("t"), channel.parse().expect("valid"));
        self.table
            .find_or_create_channel(topic, &name)
            .expect("within bounds");
        self.run();
    }

    /// A consumer that finishes what it is sent.
    fn sink(&mut self, channel: &str, ready: u32) -> ConsumerKey {
        let subscription = Subscription {
            connection: 1,
            number: 0,
            msg_timeout: Duration::from_secs(60),
            sample_rate: 0,
            is_finished_when_sent: true,
        };
        let channel = channel.parse().expect("valid");
        let key = self.table.subscribe("t", &channel, subscription);
        let key = key.expect("within bounds");
        self.table.set_ready(key, ready);
        self.run();
        key
    }

    fn channel(&mut self, channel: &str) -> &Channel {
        let (topic, name) = (self.topic("t"), channel.parse().expect("valid"));
        let key = self.table.find_channel(topic, &name).expect("there");
        self.table.tree.channels.get(key).expect("there")
    }

    fn declare(&mut self, on_full: OnFull) {
        let topic = self.topic("t");
        self.table.set_on_full(topic, Some(on_full));
        self.run();
    }

    /// Publishes one by one until a publisher would be held, `most` at most; gives how many were taken.
    fn fill(&mut self, most: usize) -> usize {
        let taken = (0..most).take_while(|number| {
            let body = format!("m{number}");
            self.publish("t", &[&body]) == Published::Accepted
        });
        taken.count()
    }

    fn news(&mut self) -> Vec<FullNews> {
        let notes = std::mem::take(&mut self.table.effects.full);
        notes.into_iter().map(|note| note.news).collect()
    }
}

fn begins(full: Full, is_abandoned: bool) -> FullNews {
    let depth = 10;
    FullNews::Begins {
        full,
        depth,
        is_abandoned,
    }
}

#[test]
fn a_channel_that_nobody_consumes_stops_a_topic_for_a_minute_at_most() {
    let mut world = World::new();
    world.make_channel("nobody");
    world.sink("used", u32::MAX);
    assert_eq!(world.fill(100), 20, "10 in the channel, 10 behind them");
    assert_eq!(world.news(), [begins(Full::Blocks, false)]);
    let topic = world.topic("t");
    world.table.hold(topic, WaitingPublisher(1), false);
    assert_eq!(world.bodies().len(), 10);
    world.advance_us(MINUTE_US - 1);
    assert!(world.bodies().is_empty(), "it may yet be consumed");
    world.advance_us(1);
    assert_eq!(world.bodies().len(), 10, "by itself, at the minute");
    assert_eq!(world.table.effects.roomy, [topic]);
    assert_eq!(world.news(), [begins(Full::DropsOldest, true)]);
    world.table.pop_waiting(topic);
    assert_eq!(world.fill(1000), 1000, "nobody waits any more");
    let channel = world.channel("nobody");
    assert_eq!((channel.depth(), channel.dropped_oldest_count), (10, 1010));
    assert!(world.news().is_empty(), "once per episode");
    world.bodies();
    // What it kept is the newest.
    world.subscribe("t", "nobody", 2, 1);
    assert_eq!(world.bodies(), ["m990"]);
}

#[test]
fn the_minute_counts_from_when_the_last_consumer_left() {
    let mut world = World::new();
    world.advance_us(10 * MINUTE_US);
    let consumer = world.subscribe("t", "c", 1, 0);
    assert_eq!(world.fill(100), 20);
    world.advance_us(10 * MINUTE_US);
    assert_eq!(world.fill(1), 0, "a consumer that is not ready is one");
    let now = world.now();
    world.table.unsubscribe(consumer, now);
    world.run();
    world.advance_us(MINUTE_US / 2);
    // Somebody comes and goes: the minute begins anew.
    let consumer = world.subscribe("t", "c", 2, 0);
    let now = world.now();
    world.table.unsubscribe(consumer, now);
    world.advance_us(MINUTE_US - 1);
    assert_eq!(world.fill(1), 0);
    world.advance_us(1);
    assert_eq!(world.fill(100), 100);
    // With a consumer it blocks again.
    world.subscribe("t", "c", 3, 0);
    assert_eq!(world.fill(100), 10, "in the topic's queue");
    let full: Vec<_> = world.news();
    assert_eq!(
        full,
        [
            begins(Full::Blocks, false),
            begins(Full::DropsOldest, true),
            begins(Full::Blocks, false)
        ]
    );
}

#[test]
fn a_channel_that_was_never_consumed_has_its_minute_from_when_it_was_made() {
    for is_paused in [false, true] {
        let mut world = World::new();
        world.advance_us(10 * MINUTE_US);
        world.make_channel("c");
        let (topic, name) = (world.topic("t"), "c".parse().expect("valid"));
        let key = world.table.find_channel(topic, &name).expect("made");
        world.table.pause_channel(key, is_paused);
        assert_eq!(world.fill(100), 20);
        world.advance_us(MINUTE_US - 1);
        assert_eq!(world.fill(1), 0);
        world.advance_us(1);
        assert_eq!(world.fill(100), 100, "paused: {is_paused}");
    }
}

#[test]
fn a_limit_comes_before_a_full_channel() {
    let mut world = World::new();
    world.make_channel("c");
    world.limit("t", 1000.0, 5.0);
    world.advance_us(SECOND_US);
    assert_eq!(world.fill(100), 15, "5 pass at once, 10 wait for tokens");
    world.advance_us(SECOND_US);
    assert_eq!(world.fill(100), 5, "10 in the channel, 10 behind them");
    world.advance_us(MINUTE_US);
    assert_eq!(world.channel("c").dropped_oldest_count, 10);
    let topic = world.topic("t");
    let limiter = |world: &World| {
        let topic = world.table.topic(topic).expect("there");
        topic
            .limiter
            .as_ref()
            .map(|limiter| limiter.tokens_at(world.now()))
    };
    assert_eq!(limiter(&world), Some(5.0), "full again");
    assert_eq!(
        world.fill(100),
        15,
        "what is abandoned drops at the limit's rate"
    );
}

#[test]
fn a_contract_says_what_becomes_of_full_channels() {
    for (declared, taken, full) in [
        (OnFull::DropOldest, 100, Full::DropsOldest),
        (OnFull::Block, 20, Full::Blocks),
    ] {
        for has_consumer in [false, true] {
            let mut world = World::new();
            world.declare(declared);
            world.make_channel("c");
            if has_consumer {
                world.subscribe("t", "c", 1, 0);
            }
            world.advance_us(2 * MINUTE_US);
            assert_eq!(world.fill(100), taken, "{declared} {has_consumer}");
            assert_eq!(world.channel("c").fullness.full, Some(full));
            assert_eq!(world.news(), [begins(full, false)]);
        }
    }
    let mut world = World::new();
    world.subscribe("t", "c", 1, 0);
    assert_eq!(world.fill(100), 20);
    world.declare(OnFull::DropOldest);
    let topic = world.topic("t");
    let depth = world.table.topic(topic).map(|topic| topic.depth());
    assert_eq!(depth, Some(0), "a word frees what waits at once");
}

#[test]
fn an_episode_ends_at_half_of_the_bound_and_is_told_once_a_minute() {
    let mut world = World::new();
    let consumer = world.sink("c", 0);
    let episode = |world: &mut World| {
        assert_eq!(world.fill(11), 11);
        let begin = world.news();
        world.table.set_ready(consumer, u32::MAX);
        world.run();
        world.table.set_ready(consumer, 0);
        (begin, world.news())
    };
    for (wait_us, is_told) in [(0, true), (0, false), (MINUTE_US, true)] {
        world.advance_us(wait_us);
        let (begin, end) = episode(&mut world);
        if is_told {
            assert_eq!(begin, [begins(Full::Blocks, false)]);
            assert!(matches!(end[..], [FullNews::Ends { dropped: 0, .. }]));
        } else {
            assert!(begin.is_empty() && end.is_empty(), "{begin:?} {end:?}");
        }
    }
    assert_eq!(world.channel("c").fullness.episodes, 3);
}

#[test]
fn ephemeral_channels_drop_what_is_new_whatever_is_declared() {
    let mut world = World::new();
    world.declare(OnFull::DropOldest);
    world.subscribe("t", "c#ephemeral", 1, 0);
    assert_eq!(world.fill(100), 100);
    let channel = world.channel("c#ephemeral");
    assert_eq!(
        (channel.dropped_count, channel.dropped_oldest_count),
        (90, 0)
    );
    assert!(world.news().is_empty());
}

#[test]
fn deferred_messages_do_not_stop_fresh_ones() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, u32::MAX);
    let (now, hour) = (world.now(), Duration::from_secs(3600));
    for _ in 0..10 {
        assert_eq!(
            world.publish_arrived("t", &["later"], now, hour),
            Published::Accepted
        );
    }
    assert_eq!(world.fill(10), 10);
    for delivery in world.deliveries() {
        let requeued = world.table.requeue(consumer, delivery.id, hour, now);
        assert_eq!(requeued, Ok(()));
    }
    world.run();
    assert_eq!(world.channel("c").deferred_count(), 20, "ten of each kind");
    assert_eq!(world.fill(100), 100);
    assert_eq!(world.bodies().len(), 100);
}

#[test]
fn what_is_deferred_beyond_the_bound_is_refused_and_nothing_is_lost() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, u32::MAX);
    world.subscribe("t", "d#ephemeral", 2, u32::MAX);
    let (now, hour) = (world.now(), Duration::from_secs(3600));
    assert_eq!(
        world.publish_arrived("t", &["later"; 10], now, hour),
        Published::Accepted
    );
    match world.publish_arrived("t", &["one more"], now, hour) {
        Published::Refused(text) => {
            assert!(text.contains("channel c are deferred (limit 10)"), "{text}")
        }
        other => panic!("{other:?}"),
    }
    world.publish("t", &["m"; 11]);
    let deliveries = world.deliveries();
    let ours: Vec<_> = deliveries
        .iter()
        .filter(|each| each.connection == 1)
        .collect();
    for (number, delivery) in ours.iter().enumerate() {
        let requeued = world.table.requeue(consumer, delivery.id, hour, now);
        let expected = match number {
            10 => Err(FlightError::TooManyDeferred),
            _ => Ok(()),
        };
        assert_eq!(requeued, expected, "{number}");
    }
    let wrong = world.table.requeue(consumer, 1, hour, now);
    assert_eq!(wrong, Err(FlightError::UnknownId), "whatever is full");
    assert_eq!(
        world
            .table
            .requeue(consumer, ours[10].id, Duration::ZERO, now),
        Ok(())
    );
    let channel = world.channel("c");
    assert_eq!(
        (channel.deferred_count(), channel.refused_requeue_count),
        (20, 1)
    );
    assert_eq!((channel.depth(), channel.dropped_count), (1, 0));
    world.advance_us(MINUTE_US * 60);
    world.bodies();
    let again = world.publish_arrived("t", &["later"], world.now(), hour);
    assert_eq!(again, Published::Accepted, "those before are due");
}
