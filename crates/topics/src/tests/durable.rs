//! Durable topics: what is logged says what is there, publishers are answered once it is durable, and wait where too much is not.

use std::collections::BTreeMap;

use proptest::prelude::*;

use link::Durability;

use super::backlog::SPILLING;
use super::laws::{Play, Step, steps};
use super::*;
use crate::log::{FINISHED_WAITING_MAX, LOG_WAITING_BYTES, LogAnswer, LogBatch, LogStep, UNLOGGED};

/// Nothing goes outside.
const ROOMY: Bounds = Bounds {
    mem_queue_size: 100_000,
    ..SPILLING
};

/// What has become of each message, as a log says: the queues that have it, and their deliveries.
#[derive(Debug, Default)]
struct Paper {
    channels: BTreeMap<u32, String>,
    messages: BTreeMap<u64, BTreeMap<u32, u16>>,
    last: u64,
}

impl Paper {
    fn take(&mut self, table: &mut TopicTable) -> Vec<LogBatch> {
        for _ in table.effects.log_ends.drain(..) {
            (self.channels, self.messages) = (BTreeMap::new(), BTreeMap::new());
        }
        let mut batches = Vec::new();
        for key in std::mem::take(&mut table.effects.logged) {
            batches.append(&mut table.take_logged(key));
        }
        batches.iter().for_each(|batch| self.write(batch));
        batches
    }

    fn write(&mut self, batch: &LogBatch) {
        assert!(batch.number > self.last, "batches are numbered in order");
        self.last = batch.number;
        for (place, (head, _)) in batch.messages.messages().enumerate() {
            let standings = batch.standings.iter().filter(|(of, _)| *of == place);
            let standings = standings.map(|(_, each)| (each.queue, each.attempts));
            let mut queues: BTreeMap<u32, u16> = standings.collect();
            if queues.is_empty() {
                queues.insert(UNLOGGED, 0);
            }
            assert!(
                self.messages.insert(head.id, queues).is_none(),
                "it comes once"
            );
        }
        for step in &batch.steps {
            self.apply(step);
        }
        self.messages.retain(|_, queues| !queues.is_empty());
    }

    fn apply(&mut self, step: &LogStep) {
        match step {
            LogStep::Channel(number, name) => {
                self.channels.insert(*number, name.to_string());
            }
            LogStep::ChannelGone(number) => {
                self.channels.remove(number);
                self.leave(*number);
            }
            LogStep::Passed(id) => {
                let queues = self.messages.get_mut(id).expect("it was logged");
                assert!(queues.remove(&UNLOGGED).is_some(), "it passes once");
                queues.extend(self.channels.keys().map(|&number| (number, 0)));
            }
            LogStep::Discarded(id) => {
                let queues = self.messages.get_mut(id).expect("it was logged");
                assert!(queues.remove(&UNLOGGED).is_some());
            }
            LogStep::Delivered {
                channel,
                id,
                attempts,
            }
            | LogStep::Deferred {
                channel,
                id,
                attempts,
                ..
            } => {
                let queues = self.messages.get_mut(id).expect("it was logged");
                *queues.get_mut(channel).expect("the channel has it") = *attempts;
            }
            LogStep::Finished { channel, id } => {
                let queues = self.messages.get_mut(id).expect("it was logged");
                assert!(queues.remove(channel).is_some(), "it is finished once");
            }
            LogStep::Emptied(queue) => self.leave(*queue),
            LogStep::Whole => {}
        }
    }

    fn leave(&mut self, queue: u32) {
        for queues in self.messages.values_mut() {
            queues.remove(&queue);
        }
    }

    /// Whether it says what is there.
    fn check(&self, world: &mut World) -> Result<(), TestCaseError> {
        let key = world.topic("t");
        let table = &world.table;
        let topic = table.tree.topics.get(key).expect("it is there");
        if topic.log.is_none() {
            prop_assert!(self.messages.is_empty());
            return Ok(());
        }
        let mut there: BTreeMap<u64, BTreeMap<u32, u16>> = BTreeMap::new();
        let store = &table.memory.store;
        let lifted = topic.handing.iter().map(|(message, _, _)| message);
        for message in topic.waiting.iter().chain(lifted) {
            there
                .entry(store.get(message).id)
                .or_default()
                .insert(UNLOGGED, 0);
        }
        let mut channels = BTreeMap::new();
        for &channel in &topic.channels {
            let channel = table.tree.channels.get(channel).expect("it is there");
            let number = channel.log_number;
            prop_assert_eq!(number == UNLOGGED, channel.name.is_ephemeral());
            if number != UNLOGGED {
                channels.insert(number, channel.name.to_string());
                channel.each_held(&table.tree, |message, attempts, _| {
                    there
                        .entry(store.get(message).id)
                        .or_default()
                        .insert(number, attempts);
                });
            }
        }
        prop_assert_eq!(&self.channels, &channels);
        prop_assert_eq!(&self.messages, &there);
        Ok(())
    }
}

fn declare(world: &mut World, durability: Durability) {
    let topic = world.topic("t");
    world.table.set_durability(topic, durability);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_logged_says_what_is_there(
        steps in steps(), from in 0..60usize, until in 60..200usize,
    ) {
        let mut play = Play::new(ROOMY);
        let mut paper = Paper::default();
        for (number, step) in steps.iter().enumerate() {
            if number == from {
                declare(&mut play.world, Durability::Disk);
            }
            if number == until {
                declare(&mut play.world, Durability::Memory);
            }
            let is_end = matches!(step, Step::Stop);
            play.step(step);
            paper.take(&mut play.world.table);
            paper.check(&mut play.world)?;
            if is_end {
                break;
            }
        }
    }
}

#[test]
fn publishers_are_answered_when_their_batch_is_durable() {
    let mut world = World::with(ROOMY);
    assert_eq!(world.publish("t", &["memory"]), Published::Accepted);
    declare(&mut world, Durability::Fsync);
    let Published::Logged(first) = world.publish("t", &["one"]) else {
        panic!("it is durable from now on");
    };
    assert_eq!(
        world.publish("t", &["two"]),
        Published::Logged(first),
        "the same turn"
    );
    let mut paper = Paper::default();
    let batches = paper.take(&mut world.table);
    assert_eq!(paper.messages.len(), 3, "what was there is durable as well");
    assert!(batches.iter().all(|batch| batch.is_synced));
    assert_eq!(batches.last().map(|batch| batch.number), Some(first));
    assert_eq!(world.publish("t", &["three"]), Published::Logged(first + 1));
}

#[test]
fn where_the_disk_is_behind_publishers_wait_until_it_is_not() {
    let mut world = World::with(ROOMY);
    let topic = world.topic("t");
    declare(&mut world, Durability::Disk);
    let body = "x".repeat(1024 * 1024);
    let mut numbers = Vec::new();
    while let Published::Logged(number) = world.publish("t", &[&body]) {
        numbers.push(number);
        Paper::default().take(&mut world.table);
    }
    assert_eq!(numbers.len() as u64, LOG_WAITING_BYTES / body.len() as u64);
    assert_eq!(world.publish("t", &[&body]), Published::Full);
    assert_eq!(world.publish("other", &[&body]), Published::Accepted);
    world.table.hold(topic, crate::WaitingPublisher(7), false);
    world.run();
    assert!(world.table.effects.roomy.is_empty());
    world.table.hear_log(LogAnswer {
        topic,
        number: numbers[0],
        is_durable: true,
    });
    assert_eq!(std::mem::take(&mut world.table.effects.roomy), [topic]);
    assert!(matches!(world.publish("t", &[&body]), Published::Logged(_)));
}

#[test]
fn a_log_that_was_found_keeps_the_numbers_of_its_channels() {
    let log = crate::KnownLog {
        topic: "t".parse().expect("valid"),
        channels: vec![
            (4, "a".parse().expect("valid")),
            (7, "b".parse().expect("valid")),
        ],
    };
    let mut world = World::of(ROOMY, |table| table.knowing([log]));
    // The catalog has one of them, and another that the log lacks.
    world.subscribe("t", "a", 1, 0);
    world.subscribe("t", "c", 2, 0);
    assert!(world.table.restore_logs().is_empty());
    let topic = world.topic("t");
    assert!(world.table.is_logged(topic));
    let number = |world: &World, name: &str| {
        let key = world
            .table
            .find_channel(topic, &name.parse().expect("valid"));
        key.and_then(|key| world.table.tree.channels.get(key))
            .map(|channel| channel.log_number)
    };
    let numbers = ["a", "b", "c"].map(|name| number(&world, name));
    assert_eq!(numbers, [Some(4), Some(7), Some(8)]);
    // Nobody wants it to be durable.
    world.table.end_unwanted_logs();
    assert!(!world.table.is_logged(topic));
    assert_eq!(world.table.effects.log_ends.len(), 1);
}

#[test]
fn where_the_log_knows_little_of_what_is_finished_deliveries_wait_until_it_does() {
    const READY: u32 = 100;
    let mut world = World::with(ROOMY);
    let topic = world.topic("t");
    let consumer = world.subscribe("t", "c", 1, READY);
    declare(&mut world, Durability::Disk);
    let bodies = vec!["x"; 3 * FINISHED_WAITING_MAX];
    world.publish("t", &bodies);
    let finished = finish_all(&mut world, consumer);
    assert!(finished >= FINISHED_WAITING_MAX, "{finished}");
    assert!(
        finished < FINISHED_WAITING_MAX + READY as usize,
        "{finished}"
    );
    // Others go on.
    let other = world.subscribe("other", "c", 2, READY);
    world.publish("other", &["y"; 5000]);
    assert_eq!(finish_all(&mut world, other), 5000);
    let batches = Paper::default().take(&mut world.table);
    let asked = batches.iter().rev().find(|batch| batch.is_word_wanted);
    let number = asked.expect("somebody is to say something").number;
    world.table.hear_log(LogAnswer {
        topic,
        number,
        is_durable: false,
    });
    let more = finish_all(&mut world, consumer);
    assert!(more >= FINISHED_WAITING_MAX, "{more}");
    // Without a log there is nothing to wait for.
    declare(&mut world, Durability::Memory);
    let rest = finish_all(&mut world, consumer);
    assert_eq!(finished + more + rest, bodies.len());
}

/// Has a consumer finish whatever it gets, until it gets no more; how many.
fn finish_all(world: &mut World, consumer: ConsumerKey) -> usize {
    let mut finished = 0;
    loop {
        world.run();
        let deliveries = world.deliveries();
        if deliveries.is_empty() {
            return finished;
        }
        for delivery in deliveries {
            let now = world.now();
            let done = world.table.finish(consumer, delivery.id, now);
            done.expect("it is in flight");
            finished += 1;
        }
    }
}

#[test]
fn what_could_never_be_written_is_refused_by_durable_topics_only() {
    let mut world = World::with(ROOMY);
    let longest = ROOMY.backlog.expect("it spills").logged_bytes_max as usize;
    let (fits, too_long) = ("x".repeat(longest), "x".repeat(longest + 1));
    assert_eq!(world.publish("t", &[&too_long]), Published::Accepted);
    declare(&mut world, Durability::Disk);
    let refused = world.publish("t", &["short", &too_long]);
    assert!(
        matches!(&refused, Published::Refused(text) if text.contains("--disk-budget")),
        "{refused:?}"
    );
    Paper::default().take(&mut world.table);
    let topic = world.topic("t");
    world.table.hear_log(LogAnswer {
        topic,
        number: u64::MAX,
        is_durable: true,
    });
    assert!(matches!(world.publish("t", &[&fits]), Published::Logged(_)));
    assert_eq!(world.publish("other", &[&too_long]), Published::Accepted);
}
