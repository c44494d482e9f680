//! Messages within their memory: who waits, who does not, and who goes on.

use super::*;
use crate::WaitingPublisher;
use crate::budget::{MemoryBudget, Part};

const ROOMY: Bounds = Bounds {
    mem_queue_size: 1_000_000,
    ..BOUNDS
};

fn world(budget: &MemoryBudget) -> World {
    World::of(ROOMY, |table| table.within(budget))
}

/// Publishes until the topic has to wait; gives how many messages it took.
fn fill(world: &mut World, topic: &str, body: &str) -> usize {
    let count = (0..1_000_000).find(|_| world.publish(topic, &[body]) == Published::Full);
    let key = world.topic(topic);
    world.table.hold(key, WaitingPublisher(7), false);
    count.expect("memory is bounded")
}

/// Whether publishers held at the topic are to be tried again.
fn is_offered(world: &mut World, topic: &str) -> bool {
    world.table.offer_memory();
    let key = world.topic(topic);
    std::mem::take(&mut world.table.effects.roomy).contains(&key)
}

#[test]
fn one_topic_fills_what_it_may_and_another_still_publishes() {
    for body in ["x".repeat(10), "x".repeat(1000), "x".repeat(20_000)] {
        let budget = MemoryBudget::new(8 << 20);
        let mut world = world(&budget);
        let messages = fill(&mut world, "hog", &body);
        let (used, limit) = (
            world.table.memory.store.memory(),
            budget.limit(Part::Bodies),
        );
        assert!(messages > 10 && used <= limit && used > limit / 2, "{used}");
        assert_eq!(world.publish("other", &["a message"]), Published::Accepted);
        assert_eq!(budget.waits(Part::Bodies), 1, "who waits is counted once");
    }
}

#[test]
fn a_publisher_goes_on_when_there_is_memory_again() {
    let budget = MemoryBudget::new(8 << 20);
    let mut world = world(&budget);
    let body = "x".repeat(1000);
    let messages = fill(&mut world, "hog", &body);
    assert!(!is_offered(&mut world, "hog"), "nothing was freed");
    world.subscribe("hog", "c", 1, 100);
    for delivery in world.deliveries() {
        let (consumer, now) = (world.table.tree.consumers.iter().next(), world.now());
        let (consumer, _) = consumer.expect("subscribed");
        let finished = world.table.finish(consumer, delivery.id, now);
        finished.expect("in flight");
    }
    assert!(is_offered(&mut world, "hog"), "100 of {messages} are gone");
    assert!(!world.table.waits_for_memory());
    assert_eq!(world.publish("hog", &[&body]), Published::Accepted);
}

#[test]
fn what_other_reactors_hold_counts() {
    let budget = MemoryBudget::new(8 << 20);
    let (mut here, mut there) = (world(&budget), world(&budget));
    fill(&mut there, "hog", &"x".repeat(1000));
    there.table.tell_memory();
    here.table.tell_memory();
    let messages = fill(&mut here, "hog", &"x".repeat(1000));
    let used = here.table.memory.store.memory() + there.table.memory.store.memory();
    assert!(
        messages > 10 && used <= budget.limit(Part::Bodies),
        "{used}"
    );
    let key = there.topic("hog");
    there.table.delete(key);
    assert!(!is_offered(&mut here, "hog"), "it does not know yet");
    there.table.trim();
    there.table.trim();
    there.table.tell_memory();
    here.table.tell_memory();
    assert!(is_offered(&mut here, "hog"));
}

#[test]
fn an_ephemeral_topic_drops_and_counts() {
    let budget = MemoryBudget::new(8 << 20);
    let mut world = world(&budget);
    let body = "x".repeat(100_000);
    for _ in 0..100 {
        let published = world.publish("t#ephemeral", &[&body]);
        assert_eq!(published, Published::Accepted);
    }
    let key = world.topic("t#ephemeral");
    let topic = world.table.topic(key).expect("made");
    assert!(topic.counts.dropped > 0 && topic.is_conserved());
    assert!(world.table.memory.store.memory() <= budget.limit(Part::Bodies));
}

#[test]
fn topics_and_channels_are_refused_when_their_memory_is_used_up() {
    let budget = MemoryBudget::new(8 << 20);
    let many = Bounds {
        topics_max: 1_000_000,
        ..BOUNDS
    };
    let mut world = World::of(many, |table| table.within(&budget));
    let (made, refusal) = (0..)
        .find_map(|number| {
            let made = world.table.find_or_create(&format!("t{number}"));
            made.err().map(|refusal| (number, refusal))
        })
        .expect("memory is bounded");
    assert_eq!(made, (8 << 20) / 16 / (8 << 10));
    let text = refusal.to_string();
    assert_eq!(text, "no memory for another topic (raise --memory-budget)");
    assert_eq!(world.publish("t0", &["x"]), Published::Accepted);
    let key = world.topic("t1");
    world.table.delete(key);
    assert!(world.table.find_or_create("another").is_ok());
}
