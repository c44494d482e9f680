//! Snapshots topic by topic, with other things done in between.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::stats::{ClientStats, StatsFilter, TopicStats};
use crate::{Step, Walk};

const WIDE: Bounds = Bounds {
    topics_max: 20_000,
    channels_max: 1000,
    channel_consumers_max: 0,
    ..BOUNDS
};

/// Takes steps until one comes to something; gives how many they were.
fn next_topic(world: &mut World, walk: &mut Walk) -> (usize, Option<Box<TopicStats>>) {
    let now = world.now();
    for steps in 1.. {
        match world.table.walk(walk, now, |_| ClientStats::default()) {
            Step::Topic(topic) => return (steps, Some(topic)),
            Step::Part => {}
            Step::End => return (steps, None),
        }
    }
    unreachable!("a walk ends");
}

fn everything() -> Walk {
    Walk::new(StatsFilter {
        include_clients: true,
        ..StatsFilter::default()
    })
}

#[test]
fn ten_thousand_topics_are_told_of_one_at_a_time_with_messages_in_between() {
    const TOPICS: usize = 10_000;
    let mut world = World::with(WIDE);
    for number in 0..TOPICS {
        world.topic(&format!("t{number}"));
    }
    let canary = world.subscribe("canary", "c", 1, 1);
    let mut walk = everything();
    let (mut steps, mut told, mut sung) = (0, BTreeSet::new(), 0);
    loop {
        world.publish("canary", &["x"]);
        sung += 1;
        let deliveries = world.deliveries();
        assert_eq!(deliveries.len(), 1, "no message waits for the snapshot");
        let (id, now) = (deliveries[0].id, world.now());
        world.table.finish(canary, id, now).expect("in flight");
        let (taken, topic) = next_topic(&mut world, &mut walk);
        steps += taken;
        let Some(topic) = topic else { break };
        told.insert(topic.topic);
    }
    assert_eq!((told.len(), sung), (TOPICS + 1, TOPICS + 2));
    assert_eq!(steps, TOPICS + 2, "a step is a topic");
}

#[test]
fn a_topic_of_many_channels_takes_several_steps() {
    let mut world = World::with(WIDE);
    for number in 0..900 {
        world.subscribe("t", &format!("c{number}"), number, 1);
    }
    let (steps, topic) = next_topic(&mut world, &mut everything());
    let topic = topic.expect("it is there");
    assert_eq!(topic.channels.len(), 900);
    assert!(topic.channels.iter().all(|each| each.clients.len() == 1));
    assert!((40..=60).contains(&steps), "{steps}");
}

#[test]
fn a_filter_goes_straight_to_its_topic() {
    let mut world = World::with(WIDE);
    for number in 0..1000 {
        world.topic(&format!("t{number}"));
    }
    for (name, found) in [("t998", 1), ("none", 0)] {
        let mut walk = Walk::new(StatsFilter {
            topic: name.to_owned(),
            ..StatsFilter::default()
        });
        let (mut steps, mut told) = (0, Vec::new());
        loop {
            let (taken, topic) = next_topic(&mut world, &mut walk);
            steps += taken;
            let Some(topic) = topic else { break };
            told.push(topic.topic);
        }
        assert_eq!(told, vec![name; found]);
        assert_eq!(steps, 2, "{name}");
    }
}

proptest! {
    /// What is there from the beginning to the end is told of once; what comes or goes meanwhile at most once.
    #[test]
    fn a_walk_meets_all_that_stays(
        changes in prop::collection::vec((0..12_u8, any::<bool>(), 0..3_usize), 0..60),
    ) {
        let mut world = World::with(WIDE);
        for number in 0..6 {
            world.topic(&format!("t{number}"));
        }
        let mut stays: BTreeSet<String> = (0..6).map(|number| format!("t{number}")).collect();
        let mut told = BTreeMap::<String, usize>::new();
        let mut walk = everything();
        let mut is_over = false;
        for (number, is_made, steps) in changes {
            let name = format!("t{number}");
            match (is_made, world.table.find(&name)) {
                (true, _) => drop(world.topic(&name)),
                (false, Some(key)) => {
                    world.table.delete(key);
                    stays.remove(&name);
                }
                (false, None) => {}
            }
            for _ in 0..steps {
                if let (_, Some(topic)) = next_topic(&mut world, &mut walk) {
                    *told.entry(topic.topic).or_default() += 1;
                } else {
                    is_over = true;
                }
            }
            if is_over {
                break;
            }
        }
        while let (_, Some(topic)) = next_topic(&mut world, &mut walk) {
            *told.entry(topic.topic).or_default() += 1;
        }
        for name in &stays {
            prop_assert_eq!(told.get(name), Some(&1), "{}", name);
        }
    }
}
