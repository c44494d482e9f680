//! The time from arrival to FIN, over a window that slides.

use super::*;
use crate::stats::{ClientStats, ProcessingStats, StatsFilter, TopicStats};
use crate::{MemoryBudget, Part, Step, Walk};

const WINDOW: Duration = Duration::from_secs(10);

fn measuring() -> World {
    let bounds = Bounds {
        mem_queue_size: 1000,
        ..BOUNDS
    };
    World::of(bounds, |table| {
        table.measuring_processing(&[1.0, 0.5], WINDOW)
    })
}

impl World {
    /// Publishes a message and finishes it `us` later.
    fn process(&mut self, consumer: ConsumerKey, us: u64) {
        self.publish("t", &["m"]);
        self.advance_us(us);
        let id = self.deliveries().last().expect("delivered").id;
        let now = self.now();
        self.table.finish(consumer, id, now).expect("in flight");
    }

    fn stats(&mut self, channel: &str) -> TopicStats {
        let now = self.now();
        let mut walk = Walk::new(StatsFilter {
            topic: String::from("t"),
            channel: channel.to_owned(),
            include_clients: false,
        });
        loop {
            match self.table.walk(&mut walk, now, |_| ClientStats::default()) {
                Step::Topic(topic) => return *topic,
                Step::Part => {}
                Step::End => panic!("the topic is there"),
            }
        }
    }

    fn processing(&mut self) -> ProcessingStats {
        let mut topic = self.stats("");
        topic.channels.remove(0).processing.expect("asked for")
    }
}

/// Whether `percentiles` are these, but for what a bucket is wide.
fn assert_near(told: &ProcessingStats, count: u64, expected_us: [u64; 2]) {
    assert_eq!(told.count, count);
    let quantiles: Vec<_> = told
        .percentiles
        .iter()
        .map(|(quantile, _)| *quantile)
        .collect();
    assert_eq!(
        quantiles,
        [1.0, 0.5],
        "in the order in which they are asked for"
    );
    for ((_, value_ns), us) in told.percentiles.iter().zip(expected_us) {
        let beyond = value_ns.checked_sub(us * 1000);
        assert!(
            beyond.is_some_and(|beyond| beyond <= us * 8),
            "{told:?} for {expected_us:?}"
        );
    }
}

#[test]
fn percentiles_are_of_the_messages_that_were_finished() {
    let mut world = measuring();
    let consumer = world.subscribe("t", "c", 1, 100);
    assert_near(&world.processing(), 0, [0, 0]);
    for us in [100, 200, 300, 400, 90_000] {
        world.process(consumer, us);
    }
    assert_near(&world.processing(), 5, [90_000, 300]);
}

#[test]
fn a_wait_of_hours_is_told_as_it_was() {
    let mut world = measuring();
    world.publish("t", &["m"]);
    world.advance_us(2 * 3_600_000_000);
    let consumer = world.subscribe("t", "c", 1, 1);
    let id = world.deliveries().last().expect("delivered").id;
    let now = world.now();
    world.table.finish(consumer, id, now).expect("in flight");
    assert_near(&world.processing(), 1, [2 * 3_600_000_000; 2]);
}

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    let mut world = measuring();
    let consumer = world.subscribe("t", "c", 1, 100);
    world.process(consumer, 1000);
    // At 6 s of 10: the first half is over, and counts.
    world.advance_us(5_999_000);
    world.process(consumer, 10);
    assert_near(&world.processing(), 2, [1000, 10]);
    // At 11 s the first half is out of the window.
    world.advance_us(4_999_990);
    assert_near(&world.processing(), 1, [10, 10]);
    world.process(consumer, 20);
    assert_near(&world.processing(), 2, [20, 10]);
    // Asking changes nothing, and at the end nothing is left.
    world.advance_us(10_000_000);
    assert_near(&world.processing(), 0, [0, 0]);
    world.process(consumer, 30);
    assert_near(&world.processing(), 1, [30, 30]);
}

#[test]
fn a_topic_tells_of_all_its_channels_together() {
    let mut world = measuring();
    let first = world.subscribe("t", "a", 1, 100);
    let second = world.subscribe("t", "b", 2, 100);
    world.publish("t", &["m"]);
    let ids: Vec<_> = world
        .deliveries()
        .iter()
        .map(|d| (d.connection, d.id))
        .collect();
    for (consumer, connection, us) in [(first, 1, 500), (second, 2, 500)] {
        world.advance_us(us);
        let id = ids
            .iter()
            .find(|(of, _)| *of == connection)
            .expect("delivered")
            .1;
        let now = world.now();
        world.table.finish(consumer, id, now).expect("in flight");
    }
    for channel in ["", "b"] {
        let topic = world.stats(channel);
        assert_near(&topic.processing.expect("asked for"), 2, [1000, 500]);
        let last = topic
            .channels
            .last()
            .and_then(|channel| channel.processing.as_ref());
        assert_near(last.expect("asked for"), 1, [1000, 1000]);
    }
}

#[test]
fn nothing_is_measured_unless_it_is_asked_for() {
    let mut world = World::new();
    let consumer = world.subscribe("t", "c", 1, 100);
    world.process(consumer, 100);
    let topic = world.stats("");
    assert_eq!(
        (&topic.processing, &topic.channels[0].processing),
        (&None, &None)
    );
    // And a topic without channels has nothing to tell.
    let mut alone = measuring();
    alone.topic("t");
    assert_eq!(alone.stats("").processing, None);
}

#[test]
fn a_channel_that_measures_counts_for_more_memory() {
    let budget = MemoryBudget::new(64 << 20);
    let bounds = Bounds {
        channels_max: 50,
        ..BOUNDS
    };
    let mut world = World::of(bounds, |table| {
        table.measuring_processing(&[0.5], WINDOW).within(&budget)
    });
    for number in 0..50 {
        world.subscribe("t", &format!("c{number}"), number, 1);
    }
    // Told in steps.
    let used = budget.used(Part::Topics);
    assert!(used > 45 * 32 * 1024, "{used}");
}
