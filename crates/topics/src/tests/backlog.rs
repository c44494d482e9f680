//! Queues with a backlog, and a keeper of segments that is as slow and unreliable as a test wants.

use std::collections::{HashMap, VecDeque};

use super::*;
use crate::{
    BacklogAnswer, BacklogBounds, BacklogOrder, BacklogOutcome, Outside, QueueName, Segment,
    WaitingPublisher,
};

/// Keeps what queues have outside, and carries orders out when it is told to.
#[derive(Default)]
pub(super) struct Keeper {
    kept: HashMap<(QueueName, u64), Segment>,
    orders: VecDeque<BacklogOrder>,
    fails: bool,
    /// Messages that it loses of each segment.
    loses: usize,
}

impl Keeper {
    /// Hears what is asked for, and carries so many orders out, those that need no answer aside.
    pub(super) fn work(&mut self, world: &mut World, mut count: usize) {
        self.orders.extend(world.table.effects.backlog.drain(..));
        while let Some(order) = self.orders.pop_front() {
            let (queue, number, outcome) = match order {
                BacklogOrder::Forget(queue, number) => {
                    self.kept.remove(&(queue.name, number));
                    continue;
                }
                BacklogOrder::ForgetAll(queue) => {
                    self.kept.retain(|(kept, _), _| *kept != queue.name);
                    continue;
                }
                order if count == 0 => {
                    self.orders.push_front(order);
                    return;
                }
                BacklogOrder::Write(queue, number, _) if self.fails => {
                    (queue.key, number, BacklogOutcome::NotWritten)
                }
                BacklogOrder::Write(queue, number, segment) => {
                    self.kept.insert((queue.name, number), segment);
                    (queue.key, number, BacklogOutcome::Written)
                }
                BacklogOrder::Read(queue, number) if self.fails => {
                    (queue.key, number, BacklogOutcome::NotRead)
                }
                BacklogOrder::Read(queue, number) => {
                    let outcome = match self.kept.get(&(queue.name, number)) {
                        Some(segment) => BacklogOutcome::Read(self.without_lost(segment)),
                        // It was told to forget it since.
                        None => BacklogOutcome::NotRead,
                    };
                    (queue.key, number, outcome)
                }
            };
            count -= 1;
            let answer = BacklogAnswer {
                queue,
                number,
                outcome,
            };
            let now = world.now();
            world.table.hear_backlog(answer, now);
            world.run();
            self.orders.extend(world.table.effects.backlog.drain(..));
        }
    }

    /// The table ends and all it has comes here; gives what is lost.
    pub(super) fn save(&mut self, world: &mut World) -> Vec<crate::Loss> {
        self.work(world, 0);
        let orders = std::mem::take(&mut self.orders);
        let (now, mut given) = (world.now(), Vec::new());
        let fails = self.fails;
        let losses = world.table.save(now, |order| {
            given.push(order);
            !fails
        });
        for order in orders.into_iter().chain(given) {
            match order {
                BacklogOrder::Write(queue, number, segment) if !fails => {
                    let former = self.kept.insert((queue.name, number), segment);
                    assert!(former.is_none(), "{number} was written before");
                }
                BacklogOrder::Forget(queue, number) => {
                    self.kept.remove(&(queue.name, number));
                }
                _ => {}
            }
        }
        losses
    }

    /// Another table takes up what is kept.
    pub(super) fn restore(&self, world: &mut World) {
        let mut queues: HashMap<&QueueName, Vec<Outside>> = HashMap::new();
        for ((queue, number), segment) in &self.kept {
            let messages = segment.messages();
            queues.entry(queue).or_default().push(Outside {
                number: *number,
                messages: messages.len(),
                bytes: messages.map(|(_, body)| body.len() as u64).sum(),
            });
        }
        let now = world.now();
        for (queue, mut segments) in queues {
            segments.sort_by_key(|segment| segment.number);
            let restored = world.table.restore(queue, &segments, now);
            assert_eq!(restored, Ok(true), "{queue:?}");
        }
        world.run();
    }

    /// Has everything twice, as a crash may leave it.
    pub(super) fn double(&mut self) {
        let kept: Vec<_> = self
            .kept
            .iter()
            .map(|(key, segment)| (key.clone(), segment.clone()))
            .collect();
        for ((queue, number), segment) in kept {
            self.kept.insert((queue, number + 1000), segment);
        }
    }

    pub(super) fn set_fails(&mut self, fails: bool) {
        self.fails = fails;
    }

    /// Messages that it keeps.
    pub(super) fn messages(&self) -> usize {
        self.kept
            .values()
            .map(|segment| segment.messages().len())
            .sum()
    }

    fn without_lost(&self, segment: &Segment) -> Segment {
        let mut less = Segment::default();
        let count = segment.messages().len().saturating_sub(self.loses);
        for (head, body) in segment.messages().take(count) {
            less.push(head.clone(), body);
        }
        less
    }
}

/// Queues of ten messages, with a thousand outside at most.
pub(super) const SPILLING: Bounds = Bounds {
    backlog: Some(BacklogBounds {
        segment_messages: 100,
        segment_bytes: u64::MAX,
        outside_max: 1000,
        logged_bytes_max: 5 << 20,
    }),
    ..BOUNDS
};

pub(super) fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// Publishes numbers one by one, until one has to wait; gives how many did not.
pub(super) fn publish(
    world: &mut World,
    keeper: &mut Keeper,
    range: std::ops::Range<usize>,
) -> usize {
    let (first, end) = (range.start, range.end);
    for number in range {
        if world.publish("t", &[&number.to_string()]) == Published::Full {
            return number - first;
        }
        keeper.work(world, usize::MAX);
    }
    end - first
}

/// Takes and finishes everything that can be had.
pub(super) fn consume(
    world: &mut World,
    keeper: &mut Keeper,
    consumer: ConsumerKey,
) -> Vec<String> {
    let mut taken = Vec::new();
    loop {
        keeper.work(world, usize::MAX);
        let (now, deliveries) = (world.now(), world.deliveries());
        if deliveries.is_empty() {
            return taken;
        }
        for delivery in deliveries {
            let finished = world.table.finish(consumer, delivery.id, now);
            finished.expect("it is in flight");
            taken.push(delivery.body);
        }
        world.run();
    }
}

/// A channel whose consumer is not ready yet.
fn world() -> (World, Keeper, ConsumerKey) {
    let mut world = World::with(SPILLING);
    let consumer = world.subscribe("t", "c", 1, 0);
    (world, Keeper::default(), consumer)
}

#[test]
fn what_does_not_fit_waits_outside_and_comes_in_its_order() {
    let (mut world, mut keeper, consumer) = world();
    assert_eq!(publish(&mut world, &mut keeper, 0..500), 500);
    assert!(keeper.messages() > 480, "{} outside", keeper.messages());
    assert!(world.table.memory.store.len() <= 20);
    world.table.set_ready(consumer, 3);
    world.run();
    assert_eq!(consume(&mut world, &mut keeper, consumer), numbers(0..500));
    assert_eq!((world.table.memory.store.len(), keeper.messages()), (0, 0));
}

#[test]
fn at_the_bound_outside_publishers_wait() {
    let (mut world, mut keeper, consumer) = world();
    let taken = publish(&mut world, &mut keeper, 0..5000);
    // A thousand outside of the channel, and as many of the topic.
    assert!((2000..=2020).contains(&taken), "{taken}");
    world.table.set_ready(consumer, 3);
    world.run();
    assert_eq!(
        consume(&mut world, &mut keeper, consumer),
        numbers(0..taken)
    );
}

#[test]
fn what_cannot_be_written_waits_in_memory() {
    let (mut world, mut keeper, consumer) = world();
    keeper.set_fails(true);
    let taken = publish(&mut world, &mut keeper, 0..100);
    assert_eq!(taken, 20, "in two queues");
    let topic = world.topic("t");
    world.table.hold(topic, WaitingPublisher(7), false);
    keeper.set_fails(false);
    world.advance_us(999_999);
    keeper.work(&mut world, usize::MAX);
    assert_eq!((keeper.messages(), world.table.effects.roomy.len()), (0, 0));
    world.advance_us(1);
    keeper.work(&mut world, usize::MAX);
    assert!(keeper.messages() > 0);
    assert_eq!(world.table.effects.roomy.first(), Some(&topic));
    world.table.set_ready(consumer, 3);
    world.run();
    assert_eq!(consume(&mut world, &mut keeper, consumer), numbers(0..20));
}

#[test]
fn what_cannot_be_read_holds_its_queue_up_until_it_can() {
    let (mut world, mut keeper, consumer) = world();
    publish(&mut world, &mut keeper, 0..100);
    keeper.set_fails(true);
    world.table.set_ready(consumer, 3);
    world.run();
    let before = consume(&mut world, &mut keeper, consumer);
    assert!(before.len() < 20, "{before:?}");
    keeper.set_fails(false);
    world.advance_us(1_000_000);
    let after = consume(&mut world, &mut keeper, consumer);
    assert_eq!([before, after].concat(), numbers(0..100));
}

#[test]
fn a_batch_that_is_longer_than_a_queue_needs_no_consumer() {
    let (mut world, mut keeper, consumer) = world();
    let mut taken = publish(&mut world, &mut keeper, 0..30);
    for _ in 0..5 {
        let batch: Vec<String> = numbers(taken..taken + 25);
        let bodies: Vec<&str> = batch.iter().map(String::as_str).collect();
        assert_eq!(world.publish("t", &bodies), Published::Accepted);
        keeper.work(&mut world, usize::MAX);
        taken += 25;
    }
    assert!(world.table.memory.store.len() <= 20);
    world.table.set_ready(consumer, 3);
    world.run();
    let all = consume(&mut world, &mut keeper, consumer);
    assert_eq!(all, numbers(0..taken));
}

#[test]
fn what_is_to_be_the_newest_stays_in_memory() {
    let (mut world, mut keeper, _) = world();
    let topic = world.topic("t");
    world
        .table
        .set_on_full(topic, Some(link::OnFull::DropOldest));
    assert_eq!(publish(&mut world, &mut keeper, 0..500), 500);
    let channels = world.table.tree.channels.iter().map(|(_, channel)| channel);
    let outside: usize = channels.map(|channel| channel.queue.outside()).sum();
    assert_eq!(outside, 0);
}

#[test]
fn short_memory_has_queues_go_out_before_they_are_long() {
    let bounds = Bounds {
        mem_queue_size: 10_000,
        ..SPILLING
    };
    let budget = crate::MemoryBudget::new(16 << 20);
    let mut world = World::with(bounds);
    world.table = world.table.within(&budget);
    let mut keeper = Keeper::default();
    world.subscribe("t", "c", 1, 0);
    let body = "x".repeat(100_000);
    let mut refused = 0;
    for _ in 0..500 {
        while world.publish("t", &[&body]) == Published::Full {
            refused += 1;
            assert!(refused < 2000, "publishers wait, and nothing goes out");
            keeper.work(&mut world, usize::MAX);
            world.run();
            world.table.tell_memory();
        }
    }
    assert!(keeper.messages() > 300, "{} outside", keeper.messages());
    let topic = world.topic("t");
    let channel = world
        .table
        .find_channel(topic, &"c".parse().expect("valid"));
    let channel = channel.and_then(|key| world.table.tree.channels.get(key));
    assert_eq!(channel.map(crate::channel::Channel::depth), Some(500));
}

#[test]
fn what_is_lost_outside_is_counted_as_dropped() {
    let (mut world, mut keeper, consumer) = world();
    publish(&mut world, &mut keeper, 0..100);
    keeper.loses = 1;
    world.table.set_ready(consumer, 3);
    world.run();
    let taken = consume(&mut world, &mut keeper, consumer);
    let channels = world.table.tree.channels.iter().map(|(_, channel)| channel);
    let dropped: u64 = channels.map(|channel| channel.dropped_count).sum();
    let key = world.topic("t");
    let topic = world.table.topic(key).expect("there");
    let all = taken.len() as u64 + dropped + topic.counts.dropped;
    assert!(dropped > 0 && all == 100, "{dropped} lost");
    assert_eq!(topic.waiting.bytes, 0);
    let is_in_order = |pair: &[String]| pair[0].len() < pair[1].len() || pair[0] < pair[1];
    assert!(taken.windows(2).all(is_in_order), "{taken:?}");
}

#[test]
fn what_is_deleted_or_emptied_is_kept_no_longer_and_late_answers_change_nothing() {
    for (is_deleted, answers) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let (mut world, mut keeper, consumer) = world();
        publish(&mut world, &mut keeper, 0..100);
        world.table.set_ready(consumer, 3);
        world.run();
        // Something is on its way both ways.
        keeper.work(&mut world, answers);
        world.publish("t", &["a", "b", "c", "d"]);
        let key = world.topic("t");
        let channel = "c".parse().expect("valid");
        let channel = world.table.find_channel(key, &channel).expect("there");
        match is_deleted {
            true => world.table.delete(key),
            false => {
                world.table.empty(key);
                world.table.empty_channel(channel);
            }
        }
        world.run();
        keeper.work(&mut world, usize::MAX);
        let left = (world.table.memory.store.len(), keeper.messages());
        assert_eq!(left, (0, 0), "{is_deleted}, {answers} answers");
        if !is_deleted {
            world.deliveries();
            publish(&mut world, &mut keeper, 200..300);
            assert_eq!(
                consume(&mut world, &mut keeper, consumer),
                numbers(200..300)
            );
        }
    }
}

#[test]
fn a_limit_knows_no_difference() {
    let mut world = World::with(SPILLING);
    let mut keeper = Keeper::default();
    world.limit("t", 1000.0, 1.0);
    world.subscribe("t", "c", 1, 1000);
    assert_eq!(publish(&mut world, &mut keeper, 0..200), 200);
    for _ in 0..200 {
        world.advance_us(1000);
        keeper.work(&mut world, usize::MAX);
    }
    let deliveries = world.deliveries();
    let times: Vec<u64> = deliveries.iter().map(|each| each.at_us).collect();
    let expected: Vec<u64> = (1..=200).map(|number| number * 1000).collect();
    assert_eq!(times, expected);
    let bodies: Vec<String> = deliveries.into_iter().map(|each| each.body).collect();
    assert_eq!(bodies, numbers(0..200));
}

#[test]
fn orders_that_wait_for_answers_are_bounded_and_all_topics_have_their_turn() {
    const TOPICS: usize = 100;
    let bounds = Bounds {
        topics_max: TOPICS,
        ..SPILLING
    };
    let mut world = World::with(bounds);
    let topics: Vec<String> = (0..TOPICS).map(|number| format!("t{number}")).collect();
    for topic in &topics {
        for _ in 0..10 {
            world.publish(topic, &["x"]);
        }
    }
    assert!(world.table.effects.backlog.len() <= crate::ORDERS_MAX);
    let mut keeper = Keeper::default();
    keeper.work(&mut world, usize::MAX);
    for topic in &topics {
        let key = world.topic(topic);
        let topic = world.table.topic(key).expect("there");
        assert!(topic.waiting.queue.outside() > 0, "{}", topic.name);
    }
}
