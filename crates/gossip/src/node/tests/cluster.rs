//! Configuration, bounds, many nodes, and real sockets.

use super::super::outbox::MAX_WAITING;
use super::super::*;
use super::world::{CALM, LIMIT, World, address, config, own};
use crate::Socket;
use crate::error::MAX_LIMITS;

#[test]
fn a_configuration_that_cannot_be_is_refused_with_a_reason() {
    let refused = |change: fn(&mut NodeConfig), expected: GossipError| {
        let mut config = config(3, 0, Branches::Mesh, 1);
        change(&mut config);
        let error = Node::new(config, Instant::ZERO).expect_err("cannot be");
        assert_eq!(error, expected);
        assert!(!error.to_string().is_empty());
    };
    refused(
        |config| config.me = address(9),
        GossipError::NotAmongPeers(address(9)),
    );
    refused(
        |config| config.peers[2] = address(1),
        GossipError::Twice(address(1)),
    );
    refused(|config| config.incarnation = 0, GossipError::Incarnation);
    refused(
        |config| config.interval = Duration::ZERO,
        GossipError::Interval(Duration::ZERO),
    );
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 4000));
    refused(
        |config| config.peers[1] = SocketAddr::from(([0, 0, 0, 0], 4000)),
        GossipError::Unreachable(nowhere),
    );
}

#[test]
fn limits_and_waiting_datagrams_are_bounded() {
    let mut node = Node::new(config(10, 0, Branches::Mesh, 1), Instant::ZERO).expect("good");
    for id in 0..MAX_LIMITS as u16 {
        node.add_limit(LimitId(id)).expect("there is room");
    }
    let refused = node.add_limit(LimitId(60_000));
    assert_eq!(refused, Err(GossipError::TooManyLimits(LimitId(60_000))));

    let mut world = World::new(10, Branches::Mesh, CALM);
    world.run_ms(8000);
    let now = world.now;
    let node = world.node(0);
    for _ in 0..MAX_WAITING {
        node.queue_updates(now, LIMIT, own(1.0)).expect("added");
    }
    let waiting = std::iter::from_fn(|| node.poll_transmit()).count();
    assert_eq!(waiting, MAX_WAITING);
    assert_eq!(node.counters().overflowed as usize, (9 - 1) * MAX_WAITING);
}

#[test]
fn sixty_nodes_join_and_a_tenth_that_fails_is_noticed() {
    let mut world = World::new(60, Branches::Random(3), CALM);
    let joined_ms = world.run_until(20_000, |world| world.all_connected(60));
    let known_ms = world.run_until(4000, |world| world.worst() < 0.01);
    (0..6).for_each(|index| world.crash(index * 10));
    let noticed_ms = world.run_until(20_000, |world| world.all_connected(54));
    println!(
        "60 joined after {joined_ms} ms, sums {known_ms} ms later, 6 missed after {noticed_ms} ms"
    );
}

#[test]
fn sockets_carry_what_nodes_say() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut sockets: Vec<_> = (0..3)
        .map(|_| Socket::bind(any).expect("a port is free"))
        .collect();
    let addresses = sockets
        .iter()
        .map(|socket| socket.local_addr().expect("bound"));
    let peers: Vec<_> = addresses.collect();
    let mut nodes: Vec<_> = (0..3)
        .map(|me| {
            let config = NodeConfig {
                me: peers[me],
                peers: peers.clone(),
                ..config(3, me, Branches::Mesh, 1)
            };
            let mut node = Node::new(config, Instant::ZERO).expect("configured well");
            node.add_limit(LIMIT).expect("the first");
            node
        })
        .collect();
    let mut now = Instant::ZERO;
    // Nothing is lost on the loopback, so what was sent is there to be read.
    for _ in 0..100 {
        now += Duration::from_millis(50);
        for (node, socket) in nodes.iter_mut().zip(&mut sockets) {
            socket.drain(node, now);
            node.queue_updates(now, LIMIT, own(2.0)).expect("added");
            socket.flush(node);
        }
    }
    for (node, socket) in nodes.iter().zip(&sockets) {
        let remote = node.remote(LIMIT);
        assert_eq!((remote.others, remote.connected), (own(4.0), 3));
        let counters = socket.counters();
        assert!(counters.sent > 100 && counters.received > 100);
        assert_eq!((counters.blocked, counters.failed), (0, 0));
    }
    // Who is not there is an error that is counted, or none.
    drop(sockets.remove(2));
    nodes.truncate(2);
    for _ in 0..200 {
        now += Duration::from_millis(50);
        for (node, socket) in nodes.iter_mut().zip(&mut sockets) {
            socket.drain(node, now);
            node.queue_updates(now, LIMIT, own(2.0)).expect("added");
            socket.flush(node);
        }
    }
    for (node, socket) in nodes.iter().zip(&sockets) {
        let remote = node.remote(LIMIT);
        assert_eq!((remote.others, remote.connected), (own(2.0), 2));
        assert_eq!(socket.counters().failed, 0);
    }
}
