//! Profiling windows in virtual time: which messages belong to one, and what it reports.

use std::time::Duration;

use super::*;
use crate::window::{WindowOrder, WindowResult};

const ORDER: WindowOrder = WindowOrder {
    percentile: 99.0,
    with_trace: false,
    promise_us: None,
};

impl World {
    fn roomy() -> World {
        World::with(Bounds {
            mem_queue_size: 10_000,
            ..BOUNDS
        })
    }

    fn begin_window(&mut self, topic: TopicKey) -> bool {
        let now = self.now();
        self.table.begin_window(topic, &ORDER, now)
    }

    fn end_window(&mut self, topic: TopicKey) -> Option<WindowResult> {
        let now = self.now();
        self.table.end_window(topic, now)
    }
}

fn assert_near(value: Option<f64>, expected_us: f64) {
    let value = value.expect("enough messages");
    assert!(
        (value - expected_us).abs() <= expected_us / 500.0 + 1.0,
        "{value} µs instead of {expected_us}"
    );
}

#[test]
fn a_window_sees_what_its_limit_delays_and_nothing_from_before() {
    let mut world = World::roomy();
    world.subscribe("t", "c", 1, u32::MAX);
    let topic = world.topic("t");
    world.publish("t", &["before"; 500]);
    world.advance_us(1000);
    assert!(world.begin_window(topic));
    world.limit("t", 1000.0, 1.0);
    world.publish("t", &["m"; 200]);
    world.advance_us(150_000);
    world.advance_us(150_000);
    let result = world.end_window(topic).expect("a window was open");
    assert_eq!((result.messages, result.samples), (200, 200));
    // An empty bucket: message n leaves after n ms.
    assert_near(result.p50_us, 100_000.0);
    assert_near(result.latency_us, 198_000.0);
    assert_eq!(world.end_window(topic), None, "it was closed");
}

#[test]
fn what_is_late_on_purpose_is_released_and_not_late() {
    let mut world = World::roomy();
    world.subscribe("t", "c", 1, u32::MAX);
    let topic = world.topic("t");
    assert!(world.begin_window(topic));
    for _ in 0..150 {
        world.publish("t", &["m"]);
    }
    let now = world.now();
    world.publish_arrived("t", &["deferred"], now, Duration::from_secs(5));
    // Nobody finishes anything: all come again after a minute, and again.
    world.advance_us(130_000_000);
    let redelivered = world.deliveries().iter().any(|each| each.attempts > 2);
    assert!(redelivered);
    let result = world.end_window(topic).expect("a window was open");
    assert_eq!((result.messages, result.samples), (151, 150));
    assert_near(result.latency_us, 0.0);
}

#[test]
fn a_second_window_replaces_the_first_and_one_left_open_is_closed() {
    let mut world = World::roomy();
    world.subscribe("t", "c", 1, u32::MAX);
    let topic = world.topic("t");
    assert_eq!(world.end_window(topic), None);
    assert!(world.begin_window(topic));
    world.publish("t", &["m"; 7]);
    assert!(world.begin_window(topic));
    world.publish("t", &["m"; 3]);
    let result = world.end_window(topic).expect("a window was open");
    assert_eq!((result.messages, result.latency_us), (3, None), "too few");
    assert!(world.begin_window(topic));
    world.advance_us(600_000_000);
    world.publish("t", &["m"]);
    assert_eq!(world.end_window(topic), None);
}
