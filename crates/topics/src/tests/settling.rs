//! Announcements for all topics: the result is the same whether each hears them in its turn, when
//! it is looked at, or at once.

use std::collections::BTreeMap;

use limit::{Grant, Limit, OnExceed, Prolongation, Share, SharePolicy};
use proptest::prelude::*;

use super::*;
use crate::stats::{ClientStats, StatsFilter, TopicStats};
use crate::{Group, Step as WalkStep, Walk};

const TOPICS: usize = 5;

const ROOMY: Bounds = Bounds {
    mem_queue_size: 10_000,
    topics_max: 2 * TOPICS,
    ..BOUNDS
};

/// The same table twice: in one all topics hear each word at once, in the other some now and then.
struct Both {
    at_once: World,
    in_slices: World,
}

impl Both {
    fn new() -> Both {
        let world = || World::of(ROOMY, TopicTable::controlled);
        Both {
            at_once: world(),
            in_slices: world(),
        }
    }

    fn each(&mut self, mut act: impl FnMut(&mut World)) {
        act(&mut self.at_once);
        act(&mut self.in_slices);
    }

    /// Says something to both.
    fn say(&mut self, word: impl Fn(&mut TopicTable, Instant)) {
        self.each(|world| word(&mut world.table, world.out.now));
        self.at_once.table.settle_all(self.at_once.out.now);
        self.each(World::run);
    }

    fn settle(&mut self, topics: usize) {
        for _ in 0..topics {
            self.in_slices.table.settle_next(self.in_slices.out.now);
        }
        self.in_slices.run();
    }

    /// What has become of topics but for those named, once all have heard everything.
    fn outcomes(&mut self, but_for: &[usize]) -> [BTreeMap<String, (String, Vec<Delivery>)>; 2] {
        self.settle(usize::from(u8::MAX));
        assert!(!self.in_slices.table.is_settling());
        [&mut self.at_once, &mut self.in_slices].map(|world| {
            let deliveries = world.deliveries();
            let told = topics(world).into_iter().map(|stats| {
                let of = |delivery: &&Delivery| stats.topic == name(delivery.connection as usize);
                let delivered = deliveries.iter().filter(of).cloned().collect();
                (stats.topic.clone(), (format!("{stats:?}"), delivered))
            });
            let is_meant = |topic: &String| but_for.iter().all(|&number| *topic != name(number));
            told.filter(|(topic, _)| is_meant(topic)).collect()
        })
    }
}

fn name(topic: usize) -> String {
    format!("t{topic}")
}

fn topics(world: &mut World) -> Vec<TopicStats> {
    let (mut walk, mut all) = (Walk::new(StatsFilter::default()), Vec::new());
    loop {
        let now = world.now();
        match world.table.walk(&mut walk, now, |_| ClientStats::default()) {
            WalkStep::Topic(stats) => all.push(*stats),
            WalkStep::Part => {}
            WalkStep::End => return all,
        }
    }
}

fn group(brokers: u32, generation: u64) -> Group {
    Group {
        brokers,
        generation,
        ..Group::ALONE
    }
}

/// Where it is dropped what exceeds it, nothing waits for a greater part.
fn limit(is_gossiped: bool, on_exceed: OnExceed) -> Limit {
    Limit {
        on_exceed,
        sharing: if is_gossiped {
            SharePolicy::Gtb
        } else {
            SharePolicy::default()
        },
        ..Limit::messages(1000.0, 20.0).expect("valid")
    }
}

fn grant(seq: u64, rate: f64) -> Grant {
    let share = Share::whole(&Limit::messages(rate, 10.0).expect("valid"));
    Grant {
        epoch: 1,
        seq,
        share: Some(share),
        floor: None,
        ttl_ms: 500,
        answers_report: seq,
        round: 0,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Hear(Teller),
    Join(u32),
    Renew,
    Grant(usize, f64),
    Report,
    Publish(usize, usize),
    Delete(usize),
    Answered(usize),
    Settle(usize),
    Wait(u64),
}

/// Steps that concern limits: time passes while topics have yet to hear of some.
fn steps_of_limits() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..5u32).prop_map(Step::Join),
        2 => Just(Step::Renew),
        2 => (0..TOPICS, 1..1000u32).prop_map(|(topic, rate)| Step::Grant(topic, f64::from(rate))),
        1 => Just(Step::Report),
        6 => (0..TOPICS, 1..20usize).prop_map(|(topic, messages)| Step::Publish(topic, messages)),
        4 => (0..TOPICS).prop_map(Step::Settle),
        4 => (1..300_000u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..80)
}

/// Steps that concern topics that are held, within one instant.
fn steps_of_words() -> impl Strategy<Value = Vec<Step>> {
    let teller = prop_oneof![
        Just(Teller::Answering),
        Just(Teller::GivenUp),
        Just(Teller::Silent)
    ];
    let step = prop_oneof![
        3 => teller.prop_map(Step::Hear),
        6 => (0..TOPICS, 1..20usize).prop_map(|(topic, messages)| Step::Publish(topic, messages)),
        1 => (0..TOPICS).prop_map(Step::Delete),
        1 => (0..TOPICS).prop_map(Step::Answered),
        1 => Just(Step::Report),
        5 => (0..TOPICS).prop_map(Step::Settle),
    ];
    prop::collection::vec(step, 1..80)
}

fn publish(world: &mut World, topic: usize, messages: usize) {
    let name = name(topic);
    if world.table.find(&name).is_none() {
        world.subscribe(&name, "c", topic as u64, 1_000_000);
    }
    let bodies: Vec<String> = (0..messages).map(|number| number.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    assert_eq!(world.publish(&name, &bodies), Published::Accepted);
}

/// Does a step; `number` is that of the report or grant that it may be.
fn act(both: &mut Both, step: Step, number: u64) {
    match step {
        Step::Hear(teller) => {
            // What passes before its topic's turn passes under this word, so what is known is not taken back before that.
            if teller != Teller::Answering {
                both.settle(usize::from(u8::MAX));
            }
            both.say(|table, _| table.hear(teller));
        }
        Step::Join(brokers) => both.say(|table, now| {
            let group = (brokers > 0).then(|| group(brokers, number));
            table.join(group, now);
        }),
        Step::Renew => both.say(|table, now| {
            let report = number.saturating_sub(1);
            table.prolong_leases(Prolongation::Renewed { report }, now);
        }),
        Step::Grant(topic, rate) => both.each(|world| {
            let (key, now) = (world.topic(&name(topic)), world.now());
            world.table.grant(key, &grant(number, rate), now);
            world.run();
        }),
        Step::Report => both.each(|world| {
            let now = world.now();
            world.table.report(number, usize::MAX, now);
            world.run();
        }),
        Step::Publish(topic, messages) => both.each(|world| publish(world, topic, messages)),
        Step::Delete(topic) => both.each(|world| {
            let key = world.table.find(&name(topic));
            key.into_iter().for_each(|key| world.table.delete(key));
        }),
        Step::Answered(topic) => both.each(|world| {
            let name = name(topic).parse().expect("valid");
            world.table.answered(&name);
            world.run();
        }),
        Step::Settle(topics) => both.settle(topics),
        Step::Wait(us) => both.each(|world| world.advance_us(us)),
    }
}

proptest! {
    #[test]
    fn limits_end_alike_in_slices_and_at_once(steps in steps_of_limits()) {
        let mut both = Both::new();
        both.each(|world| {
            world.table.hear(Teller::Answering);
            world.advance_us(1_000_000);
            for topic in 0..TOPICS {
                world.subscribe(&name(topic), "c", topic as u64, 1_000_000);
                let (key, now) = (world.topic(&name(topic)), world.now());
                let limit = limit(topic % 2 == 0, OnExceed::Drop);
                world.table.set_shared_limit(key, Some(limit), Some(topic as u16), now);
                world.table.answered(&name(topic).parse().expect("valid"));
            }
        });
        for (number, step) in steps.into_iter().enumerate() {
            act(&mut both, step, number as u64 + 1);
        }
        let [at_once, in_slices] = both.outcomes(&[]);
        prop_assert_eq!(at_once, in_slices);
    }

    #[test]
    fn topics_that_are_held_end_alike_in_slices_and_at_once(steps in steps_of_words()) {
        let (mut both, mut deleted) = (Both::new(), Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            // What of its messages had been delivered before is chance.
            if let Step::Delete(topic) = step {
                deleted.push(topic);
            }
            act(&mut both, step, number as u64 + 1);
        }
        // What passed unjudged counts.
        both.settle(usize::from(u8::MAX));
        both.each(|world| {
            for topic in 0..TOPICS {
                let (key, now) = (world.topic(&name(topic)), world.now());
                world.table.set_limit(key, Some(limit(false, OnExceed::Delay)), now);
            }
        });
        let [at_once, in_slices] = both.outcomes(&deleted);
        prop_assert_eq!(at_once, in_slices);
    }
}

#[test]
fn a_word_looks_at_no_topic_and_each_step_at_one() {
    let mut world = World::of(ROOMY, TopicTable::controlled);
    for topic in 0..TOPICS {
        publish(&mut world, topic, 1);
    }
    assert_eq!(world.bodies().len(), 0, "all are held");
    world.table.hear(Teller::Answering);
    world.run();
    assert_eq!(world.bodies().len(), 0, "none was looked at");
    let now = world.now();
    for left in (0..TOPICS).rev() {
        assert_eq!(world.table.settle_next(now), left > 0);
        world.run();
        assert_eq!(world.bodies().len(), 1);
    }
    for (word, slots) in [(Teller::Silent, 0), (Teller::GivenUp, TOPICS)] {
        world.table.hear(word);
        assert_eq!(world.table.settle_all(now), slots, "{word:?}");
    }
}

#[test]
fn what_comes_into_being_between_two_slices_waits_for_its_own_answer() {
    let mut world = World::of(ROOMY, TopicTable::controlled);
    publish(&mut world, 0, 1);
    world.table.hear(Teller::Answering);
    publish(&mut world, 1, 1);
    let now = world.now();
    world.table.settle_all(now);
    world.run();
    let connections: Vec<u64> = world.deliveries().iter().map(|to| to.connection).collect();
    assert_eq!(connections, [0]);
}

#[test]
fn what_waits_for_a_greater_part_goes_on_in_its_turn_and_as_of_the_word() {
    let mut world = World::of(ROOMY, TopicTable::gathering);
    world.advance_us(1_000_000);
    world.subscribe("t0", "c", 0, 1_000_000);
    let (key, now) = (world.topic("t0"), world.now());
    let limit = limit(true, OnExceed::Delay);
    world.table.set_shared_limit(key, Some(limit), None, now);
    publish(&mut world, 0, 3);
    assert_eq!((world.bodies().len(), world.table.next_wakeup()), (0, None));
    world.table.join(Some(group(1, 1)), now);
    world.stall_us(2_000);
    assert_eq!(world.table.next_wakeup(), None, "it was not looked at");
    let now = world.now();
    assert!(!world.table.settle_next(now));
    world.run();
    assert_eq!(
        world.bodies(),
        ["0", "1"],
        "of a token a millisecond since the word"
    );
}

#[test]
fn queues_are_looked_for_a_topic_at_a_time() {
    let mut world = World::of(ROOMY, TopicTable::gathering);
    for topic in 0..TOPICS {
        let name = name(topic);
        world.publish(&name, &["a"]);
    }
    let (mut walk, mut steps) = (StrandedWalk::new(Duration::ZERO), 0);
    let now = world.now();
    let gone = world.topic("t4");
    while world.table.stranded_next(&mut walk, now) {
        steps += 1;
        if steps == 2 {
            world.table.delete(gone);
        }
    }
    let queues = walk.queues();
    let found: Vec<&str> = queues.iter().map(|queue| queue.topic.as_str()).collect();
    assert_eq!((steps, &found[..]), (TOPICS, &["t0", "t1", "t2", "t3"][..]));
}
