//! What endpoints believe of each other on a channel that loses datagrams.

mod channel;

use std::time::Duration;

use channel::{Channel, TICK, World};
use wire::announce::{InstanceId, Role};

fn world(loss: f64, seed: u64) -> World {
    let channel = Channel {
        loss,
        delay: TICK,
        is_fair: false,
    };
    World::new(channel, seed)
}

fn knows_subscribers(world: &World, publisher: usize) -> usize {
    let endpoint = &world.endpoints[publisher];
    endpoint.directory.subscribers_of(&world.topic).count()
}

#[test]
fn endpoints_find_each_other_within_two_rounds_of_news() {
    let mut world = world(0.0, 1);
    let publisher = world.start(Role::Publisher, None);
    world.run(Duration::from_secs(10));
    let subscriber = world.start(Role::Subscriber, None);
    // It speaks within 50 ms and is answered within another 50.
    world.run(Duration::from_millis(150));
    assert_eq!(knows_subscribers(&world, publisher), 1);
    let endpoint = &world.endpoints[subscriber];
    assert_eq!(endpoint.directory.publishers_of(&world.topic).count(), 1);
}

/// Three announcements or more fall into every expiry: a living endpoint is unknown for at most loss³ of the time.
#[test]
fn whatever_is_lost_the_truth_comes_back() {
    for (loss, unknown_at_most) in [
        (0.0, 0.0),
        (0.1, 0.001),
        (0.3, 0.027),
        (0.5, 0.125),
        (0.8, 0.512),
    ] {
        let mut world = world(loss, 3);
        let publisher = world.start(Role::Publisher, None);
        for _ in 0..10 {
            world.start(Role::Subscriber, None);
        }
        world.run(Duration::from_secs(20));
        let (mut unknown, mut seen, mut all_known) = (0, 0, 0);
        for _ in 0..40_000 {
            world.tick();
            let known = knows_subscribers(&world, publisher);
            unknown += 10 - known;
            all_known += usize::from(known == 10);
            seen += 10;
        }
        let unknown = unknown as f64 / f64::from(seen);
        assert!(unknown <= unknown_at_most, "loss {loss}: {unknown}");
        assert!(all_known > 0, "loss {loss}: never all of them");
        println!(
            "loss {loss}: an endpoint is unknown {:.4} % of the time",
            unknown * 100.0
        );
    }
}

#[test]
fn the_vanished_are_forgotten_and_the_restarted_found_again() {
    let mut world = world(0.2, 5);
    let publisher = world.start(Role::Publisher, None);
    let subscribers: Vec<usize> = (0..3)
        .map(|_| world.start(Role::Subscriber, None))
        .collect();
    world.run(Duration::from_secs(20));
    assert_eq!(knows_subscribers(&world, publisher), 3);
    world.endpoints[subscribers[0]].is_alive = false;
    world.run(Duration::from_secs(3) + TICK * 2);
    assert_eq!(knows_subscribers(&world, publisher), 2);
    // A new life at the address of one that has just died: the old one is not waited for.
    world.endpoints[subscribers[1]].is_alive = false;
    let address = ([10, 0, 0, 1], 4000 + subscribers[1] as u16).into();
    world.start_at(InstanceId(100), address, Role::Subscriber, None);
    world.run(Duration::from_millis(2500));
    let topic = world.topic.clone();
    let directory = &world.endpoints[publisher].directory;
    let at_address: Vec<InstanceId> = directory
        .subscribers_of(&topic)
        .filter(|endpoint| endpoint.data == address)
        .map(|endpoint| endpoint.instance)
        .collect();
    assert_eq!(at_address, [InstanceId(100)]);
    assert_eq!(directory.counters().replaced, 1);
}
