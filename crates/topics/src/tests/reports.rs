//! Which topics a report to the controller names, and how long leases of the others last.

use limit::{Grant, Prolongation, Share};

use super::*;

fn world() -> World {
    let bounds = Bounds {
        topics_max: 16,
        ..BOUNDS
    };
    let mut world = World::of(bounds, TopicTable::controlled);
    world.table.hear(Teller::Answering);
    world
}

impl World {
    /// Names of topics in the next report, and of those that are gone.
    fn named(&mut self, number: u64, bytes_max: usize) -> (Vec<String>, Vec<String>, bool) {
        self.advance_us(1_000_000);
        let now = self.now();
        let news = self.table.report(number, bytes_max, now);
        let topics = news.topics.into_iter().map(|said| said.topic);
        (topics.collect(), news.gone, news.has_more)
    }
}

#[test]
fn a_topic_that_nothing_happens_with_is_named_no_more_until_something_does() {
    let mut world = world();
    let (topic, now) = (world.topic("t"), world.now());
    let limit = Limit::messages(10.0, 5.0).expect("valid");
    world.table.set_limit(topic, Some(limit), now);
    let mut number = 0;
    let mut is_named = |world: &mut World| {
        number += 1;
        !world.named(number, usize::MAX).0.is_empty()
    };
    let times = (0..200).filter(|_| is_named(&mut world)).count();
    assert!((3..20).contains(&times), "{times}");
    assert!(!is_named(&mut world));
    world.publish("t", &["m"]);
    assert!(is_named(&mut world), "a message came");
    let times = (0..200).filter(|_| is_named(&mut world)).count();
    assert!((64..100).contains(&times), "{times}");
    assert!(!is_named(&mut world));
    world.subscribe("t", "c", 1, 0);
    assert!(is_named(&mut world), "a channel came");
    assert!((0..200).any(|_| !is_named(&mut world)));
    world.table.begin_reports();
    assert!(is_named(&mut world), "another link heard nothing yet");
    world.table.begin_reports();
    world.table.set_limit(topic, None, now);
    world.table.delete(topic);
    let gone = world.named(1000, usize::MAX).1;
    assert!(gone.is_empty(), "and not that it was there: {gone:?}");
}

#[test]
fn what_is_not_to_be_named_any_more_is_said() {
    let mut world = world();
    let (topic, now) = (world.topic("t"), world.now());
    world.table.set_limit(topic, limit(), now);
    assert_eq!(world.named(1, usize::MAX).0, ["t"]);
    world.table.set_limit(topic, None, now);
    let (named, gone, _) = world.named(2, usize::MAX);
    assert_eq!((named.len(), gone), (0, vec![String::from("t")]));
    world.table.set_limit(topic, limit(), now);
    assert_eq!(world.named(3, usize::MAX).0, ["t"]);
    world.table.set_limit(topic, None, now);
    world.table.delete(topic);
    assert_eq!(world.named(4, usize::MAX).1, ["t"]);
    assert_eq!(world.named(5, usize::MAX), (vec![], vec![], false));
}

fn renew(world: &mut World, report: u64, now: Instant) {
    let by = Prolongation::Renewed { report };
    world.table.prolong_leases(by, now);
}

fn limit() -> Option<Limit> {
    Some(Limit::messages(10.0, 5.0).expect("valid"))
}

#[test]
fn what_does_not_fit_into_one_report_follows_with_the_next() {
    let mut world = world();
    let now = world.now();
    for number in 0..10 {
        let topic = world.topic(&format!("t{number}"));
        world.table.set_limit(topic, limit(), now);
    }
    let mut all: Vec<String> = Vec::new();
    let mut has_more = Vec::new();
    for number in 1..=4 {
        let (named, _, more) = world.named(number, 3 * 400);
        assert!(named.len() <= 3, "{named:?}");
        all.extend(named);
        has_more.push(more);
    }
    all.sort();
    all.dedup();
    assert_eq!((all.len(), has_more), (10, vec![true; 4]));
}

#[test]
fn a_lease_that_is_renewed_lasts_and_one_that_has_ended_does_not() {
    let mut world = world();
    let (topic, now) = (world.topic("t"), world.now());
    world.table.set_limit(topic, limit(), now);
    world.named(1, usize::MAX);
    let share = limit().map(|limit| Share::whole(&limit));
    let grant = Grant {
        epoch: 1,
        seq: 1,
        share,
        floor: None,
        ttl_ms: 3000,
        answers_report: 1,
        round: 0,
    };
    let now = world.now();
    assert!(world.table.grant(topic, &grant, now));
    let held = |world: &World| {
        let limiter = world
            .table
            .topic(topic)
            .and_then(|topic| topic.limiter.as_ref());
        let said = world.table.said();
        limiter.and_then(|limiter| limiter.share_once_heard(said, world.now()))
    };
    for number in 2..20 {
        world.named(number, usize::MAX);
        let now = world.now();
        renew(&mut world, number, now);
        assert_eq!(held(&world), share, "{number}");
    }
    let now = world.now();
    renew(&mut world, 99, now);
    world.advance_us(3_000_000);
    assert_eq!(held(&world), None);
    world.named(20, usize::MAX);
    let now = world.now();
    renew(&mut world, 20, now);
    assert_eq!(held(&world), None, "what has ended stays ended");
}
