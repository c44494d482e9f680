//! What a controller is told of topics, and the log of releases.

use limit::{Grant, OnExceed, Share, Unit};

use super::*;

fn controlled() -> World {
    let bounds = Bounds {
        mem_queue_size: 100_000,
        ..BOUNDS
    };
    let mut world = World::of(bounds, TopicTable::controlled);
    world.subscribe("t", "c", 1, u32::MAX);
    world.table.hear(Teller::Answering);
    world
}

impl World {
    fn reported(&mut self, number: u64) -> link::TopicReport {
        let now = self.now();
        let mut topics = self.table.report(number, usize::MAX, now).topics;
        assert_eq!(topics.len(), 1, "{topics:?}");
        topics.remove(0)
    }

    /// A limit on `t` with a share of the same size.
    fn share(&mut self, limit: Limit) {
        let (key, now) = (self.topic("t"), self.now());
        self.table.set_limit(key, Some(limit), now);
        self.table.report(1, usize::MAX, now);
        let grant = Grant {
            epoch: 3,
            seq: 1,
            share: Some(Share::whole(&limit)),
            floor: None,
            ttl_ms: 60_000,
            answers_report: 1,
            round: 0,
        };
        assert!(self.table.grant(key, &grant, now));
    }
}

#[test]
fn the_backlog_is_what_waits_and_what_the_bucket_lacks() {
    let mut world = controlled();
    let limit = Limit::messages(10.0, 5.0).expect("valid");
    world.share(limit);
    world.advance_us(2_000_000);
    world.publish("t", &["m"; 12]);
    let said = world.reported(2);
    assert_eq!(
        (&said.topic[..], &said.channels[..]),
        ("t", &["c".to_owned()][..])
    );
    assert_eq!((said.messages, said.depth, said.max_backlog), (12, 7, 12.0));
    assert_eq!(
        (said.held, said.confirmed),
        (Some(Share::whole(&limit)), (3, 1))
    );
    world.advance_us(3_000_000);
    let said = world.reported(3);
    assert_eq!((said.messages, said.depth), (0, 0));
    // Since it was first heard of, all of it is in the window.
    assert!(said.mean_rate > 1.0 && said.max_backlog == 12.0, "{said:?}");
    world.advance_us(60_000_000);
    let said = world.reported(4);
    assert_eq!((said.mean_rate, said.max_backlog), (0.0, 0.0));
}

#[test]
fn a_topic_is_told_of_while_messages_of_it_are_not_finished() {
    let mut world = controlled();
    world.subscribe("t", "away", 2, 0);
    world.publish("t", &["m"; 5]);
    let said = world.reported(1);
    // In flight to the one channel's consumer, waiting in the other.
    assert_eq!((said.messages, said.depth, said.unfinished), (5, 0, 10));
    world.advance_us(20_000_000);
    let said = world.reported(2);
    assert_eq!((said.mean_rate, said.unfinished), (0.0, 10));
}

#[test]
fn what_is_late_by_the_promise_is_counted_between_reports() {
    let mut world = controlled();
    let limit = Limit::messages(10.0, 5.0).expect("valid");
    world.share(limit);
    world.advance_us(2_000_000);
    assert_eq!(world.reported(2).lateness, None, "nothing is promised");
    let key = world.topic("t");
    let order = crate::window::WindowOrder {
        percentile: 99.0,
        with_trace: false,
        promise_us: Some(150_000.0),
    };
    let now = world.now();
    assert!(world.table.begin_window(key, &order, now));
    // Five pass at once, the sixth after 100 ms, the seventh after 200 ms; five wait.
    world.publish("t", &["m"; 12]);
    world.advance_us(100_000);
    world.advance_us(100_000);
    let lateness = |delivered, late, backlog| {
        Some(link::Lateness {
            delivered,
            late,
            backlog,
        })
    };
    assert_eq!(world.reported(3).lateness, lateness(7, 1, 5));
    // The end of the window is not the end of the promise.
    let now = world.now();
    world.table.end_window(key, now);
    world.table.pause(key, true);
    assert_eq!(
        world.reported(4).lateness,
        lateness(0, 0, 0),
        "what is paused waits for nobody"
    );
}

#[test]
fn what_is_refused_was_asked_for() {
    for on_exceed in [OnExceed::Drop, OnExceed::Reject] {
        let mut world = controlled();
        let limit = Limit {
            on_exceed,
            unit: Unit::Bytes,
            ..Limit::messages(10.0, 20.0).expect("valid")
        };
        world.share(limit);
        world.advance_us(10_000_000);
        for _ in 0..4 {
            world.publish("t", &["ten bytes!"]);
        }
        world.advance_us(1_000_000);
        let said = world.reported(2);
        assert_eq!(said.mean_rate, 4.0, "{on_exceed}: 40 bytes in ten seconds");
        assert_eq!(
            said.max_backlog, 30.0,
            "{on_exceed}: two and the one too many"
        );
    }
}

#[test]
fn a_topic_without_a_limit_is_named_while_it_has_traffic() {
    let mut world = controlled();
    let now = world.now();
    assert!(world.table.report(1, usize::MAX, now).topics.is_empty());
    world.publish("t", &["m"; 3]);
    let said = world.reported(2);
    assert_eq!(
        (said.messages, said.fixed_messages, said.held),
        (3, 0, None)
    );
    assert_eq!((said.max_backlog, said.confirmed), (0.0, (0, 0)));
    world.advance_us(20_000_000);
    assert_eq!(
        world.reported(3).messages,
        0,
        "its messages are not finished"
    );
    let (topic, name) = (world.topic("t"), "c".parse().expect("valid"));
    let channel = world.table.find_channel(topic, &name);
    world.table.delete_channel(channel.expect("there"));
    let now = world.now();
    assert!(world.table.report(4, usize::MAX, now).topics.is_empty());
}

#[test]
fn without_subscribers_nothing_waits_for_tokens() {
    let mut world = World::of(BOUNDS, TopicTable::controlled);
    world.share(Limit::messages(10.0, 5.0).expect("valid"));
    world.advance_us(10_000_000);
    world.publish("t", &["m"; 8]);
    let said = world.reported(2);
    assert_eq!((said.depth, said.max_backlog), (8, 0.0));
}

#[test]
fn a_limit_between_a_report_and_its_answer_takes_the_answer() {
    let mut world = controlled();
    let now = world.now();
    world.table.report(41, usize::MAX, now);
    world.limit("t", 10.0, 1.0);
    let grant = Grant {
        epoch: 1,
        seq: 1,
        share: None,
        floor: None,
        ttl_ms: 1000,
        answers_report: 41,
        round: 0,
    };
    let key = world.topic("t");
    assert!(world.table.grant(key, &grant, now));
    assert_eq!(world.reported(42).confirmed, (1, 1));
}

#[test]
fn releases_are_logged_up_to_the_bound_until_they_are_taken() {
    let mut world = World::of(BOUNDS, |table| table.logging_releases(3));
    world.subscribe("t", "c", 1, 100);
    world.advance_us(5);
    world.publish("t", &["a"]);
    world.advance_us(5);
    world.publish("t", &["b", "c", "d"]);
    let key = world.topic("t");
    assert_eq!(world.table.take_releases(key), [5_000, 10_000, 10_000]);
    world.publish("t", &["e"]);
    assert_eq!(world.table.take_releases(key), [10_000]);
    assert!(world.table.take_releases(key).is_empty());
    let mut world = World::new();
    world.subscribe("t", "c", 1, 100);
    world.publish("t", &["a"]);
    let key = world.topic("t");
    assert!(world.table.take_releases(key).is_empty(), "nobody asked");
}
