//! Where publishes come from and how long they wait, as reported to publishers and controllers.

use limit::Unit;

use super::super::trace::Source;
use super::*;
use crate::trace::TraceResult;
use crate::window::{WindowOrder, WindowResult};

const SENSOR: Source = Source {
    reactor: 0,
    connection: 7,
    is_declared: true,
};

const STRANGER: Source = Source {
    reactor: 1,
    connection: 7,
    is_declared: false,
};

const ORDER: WindowOrder = WindowOrder {
    percentile: 99.0,
    with_trace: true,
    promise_us: None,
};

impl World {
    fn publish_from(&mut self, source: Source, name: &str, messages: usize) {
        let bodies = vec!["m"; messages];
        assert_eq!(self.publish("t", &bodies), Published::Accepted);
        let now = self.now();
        let arrival = Arrival {
            at: now,
            wall_ns: now.as_nanos().cast_signed(),
            read: now,
            half_rtt_us: 0,
            flow: 0,
        };
        let key = self.topic("t");
        let name = || name.to_owned();
        self.table
            .note_source(key, source, messages as u32, &arrival, name);
    }

    fn begin_trace(&mut self, order: WindowOrder) {
        let (key, now) = (self.topic("t"), self.now());
        assert!(self.table.begin_window(key, &order, now));
    }

    fn end_trace(&mut self) -> Option<WindowResult> {
        let (key, now) = (self.topic("t"), self.now());
        self.table.end_window(key, now)
    }

    fn begin_recording(&mut self) {
        let (key, now) = (self.topic("t"), self.now());
        assert!(self.table.begin_recording(key, now));
    }

    fn end_recording(&mut self) -> Option<TraceResult> {
        let (key, now) = (self.topic("t"), self.now());
        self.table.end_recording(key, now)
    }

    fn expected_wait_us(&mut self) -> u128 {
        let (key, now) = (self.topic("t"), self.now());
        self.table.expected_wait(key, now).as_micros()
    }
}

#[test]
fn messages_of_strangers_are_counted_as_fixed() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    world.publish_from(SENSOR, "s1", 3);
    world.publish_from(STRANGER, "~10.0.0.1:9", 2);
    world.publish_from(Source::HTTP, Source::HTTP_NAME, 1);
    let key = world.topic("t");
    let topic = world.table.topic(key).expect("it is there");
    assert_eq!((topic.counts.messages, topic.counts.fixed), (6, 3));
}

#[test]
fn a_window_brings_the_arrivals_within_it() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    world.publish_from(SENSOR, "s1", 1);
    world.advance_us(5);
    world.begin_trace(ORDER);
    world.publish_from(STRANGER, "~10.0.0.1:9", 2);
    world.advance_us(5);
    world.publish_from(SENSOR, "s1", 3);
    let window = world.end_trace().expect("open");
    assert_eq!(window.publishers, ["~10.0.0.1:9", "s1"]);
    assert_eq!(window.arrivals, [(5_000, 0, 2), (10_000, 1, 3)]);
    assert!(!window.is_trace_cut && window.messages == 5);
    world.publish_from(SENSOR, "s1", 1);
    assert_eq!(world.end_trace(), None);
}

#[test]
fn a_window_without_a_trace_names_nobody() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    world.begin_trace(WindowOrder {
        with_trace: false,
        ..ORDER
    });
    world.publish_from(SENSOR, "s1", 1);
    let window = world.end_trace().expect("open");
    assert!(window.publishers.is_empty() && window.arrivals.is_empty());
}

#[test]
fn a_recording_and_a_window_at_the_same_time_both_see_everything() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    assert_eq!(world.end_recording(), None, "none is open");
    world.begin_recording();
    world.publish_from(SENSOR, "s1", 1);
    world.advance_us(5);
    world.begin_trace(ORDER);
    world.publish_from(STRANGER, "~10.0.0.1:9", 2);
    world.advance_us(5);
    // The first window is thrown away, and the recording with neither of them.
    world.begin_trace(ORDER);
    world.publish_from(SENSOR, "s1", 3);
    world.advance_us(5);
    let window = world.end_trace().expect("open");
    assert_eq!(window.publishers, ["s1"]);
    assert_eq!(
        (window.messages, window.arrivals),
        (3, vec![(10_000, 0, 3)])
    );
    world.begin_trace(ORDER);
    world.publish_from(STRANGER, "~10.0.0.1:9", 4);
    let recording = world.end_recording().expect("open");
    assert_eq!(recording.publishers, ["s1", "~10.0.0.1:9"]);
    let expected = [(0, 0, 1), (5_000, 1, 2), (10_000, 0, 3), (15_000, 1, 4)];
    assert_eq!(
        (&recording.arrivals[..], recording.is_cut),
        (&expected[..], false)
    );
    world.publish_from(SENSOR, "s1", 5);
    assert_eq!(world.end_recording(), None, "it was ended");
    let window = world
        .end_trace()
        .expect("the recording's end is not the window's");
    assert_eq!(window.arrivals, [(15_000, 0, 4), (15_000, 1, 5)]);
}

#[test]
fn a_forgotten_recording_is_dropped_and_a_window_beside_it_goes_on() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    world.begin_recording();
    world.advance_us(1_000_000);
    world.begin_trace(ORDER);
    world.advance_us(599_000_000);
    world.publish_from(SENSOR, "s1", 1);
    let key = world.topic("t");
    let topic = world.table.tree.topics.get(key).expect("there");
    assert!(topic.observed.recording.is_none() && topic.observed.trace.is_some());
    world.begin_recording();
    world.advance_us(600_000_000);
    assert_eq!(world.end_recording(), None, "nobody published meanwhile");
}

#[test]
fn a_forgotten_trace_is_dropped() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    world.begin_trace(ORDER);
    world.advance_us(599_000_000);
    world.publish_from(SENSOR, "s1", 1);
    let key = world.topic("t");
    let has_trace = |world: &World| {
        world
            .table
            .tree
            .topics
            .get(key)
            .expect("there")
            .observed
            .trace
            .is_some()
    };
    assert!(has_trace(&world));
    world.advance_us(1_000_000);
    world.publish_from(SENSOR, "s1", 1);
    assert!(!has_trace(&world));
}

#[test]
fn the_expected_wait_is_that_of_the_last_message() {
    let mut world = World::with(Bounds {
        mem_queue_size: 1000,
        ..BOUNDS
    });
    world.subscribe("t", "c", 1, 1000);
    assert_eq!(world.expected_wait_us(), 0, "no limit");
    world.limit("t", 100.0, 5.0);
    world.publish("t", &["m"; 50]);
    // The bucket began empty: a message leaves every 10 ms.
    assert_eq!(world.expected_wait_us(), 500_000);
    world.advance_us(203_000);
    assert_eq!(world.expected_wait_us(), 297_000);
    world.advance_us(297_000);
    assert_eq!(world.deliveries().len(), 50);
    assert_eq!(world.expected_wait_us(), 0, "nothing waits");
}

#[test]
fn a_wait_is_expected_before_the_topic_has_run() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 1000);
    world.limit("t", 100.0, 5.0);
    world.advance_us(20_000);
    let (key, now) = (world.topic("t"), world.now());
    let arrival = Arrival {
        at: now,
        wall_ns: now.as_nanos().cast_signed(),
        read: now,
        half_rtt_us: 0,
        flow: 0,
    };
    for (messages, expected_us) in [(2, 0), (1, 10_000), (2, 30_000)] {
        let bodies = std::iter::repeat_n(b"m".as_slice(), messages);
        let outcome = world.table.publish(key, bodies, arrival, Duration::ZERO);
        assert_eq!(outcome, Published::Accepted);
        assert_eq!(world.expected_wait_us(), expected_us);
    }
    world.run();
    assert_eq!(
        world.expected_wait_us(),
        30_000,
        "nor does the run change it"
    );
}

#[test]
fn a_message_larger_than_the_burst_is_not_waited_for_twice() {
    let mut world = World::new();
    world.subscribe("t", "c", 1, 1000);
    let (key, now) = (world.topic("t"), world.now());
    let mut limit = Limit::messages(1000.0, 100.0).expect("valid");
    limit.unit = Unit::Bytes;
    world.table.set_limit(key, Some(limit), now);
    world.publish("t", &[&"m".repeat(300), &"m".repeat(50)]);
    assert_eq!(world.expected_wait_us(), 350_000);
    world.advance_us(100_000);
    assert_eq!(world.expected_wait_us(), 250_000);
}
