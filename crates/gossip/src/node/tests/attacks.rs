//! What cannot be believed is counted and changes nothing.

use super::super::*;
use super::world::{CALM, LIMIT, Sent, World, address, config, key};

const RANDOM: Branches = Branches::Random(3);

/// A world that runs, with what was sent to node 0 in the last seconds.
fn running() -> (World, Vec<Sent>) {
    let mut world = World::new(10, RANDOM, CALM);
    world.run_ms(8000);
    world.recording = Some(Vec::new());
    world.run_ms(3000);
    let recording = world.recording.take().unwrap_or_default();
    // What is under way arrives, and is known to have come.
    world.run_ms(100);
    let to_0 = recording.into_iter().filter(|sent| sent.to == address(0));
    (world, to_0.collect())
}

fn updates(recording: &[Sent]) -> Vec<Sent> {
    let updates = recording.iter().filter(|sent| sent.bytes.len() == 20);
    updates.cloned().collect()
}

fn membership(recording: &[Sent]) -> Vec<Sent> {
    let membership = recording.iter().filter(|sent| sent.bytes.len() != 20);
    membership.cloned().collect()
}

/// Gives node 0 these datagrams, and says by how much each counter grew; nothing else may have changed.
fn given(world: &mut World, datagrams: &[Sent]) -> Counters {
    let now = world.now;
    let node = world.node(0);
    let before = (node.counters(), node.remote(LIMIT), node.connected());
    let peers: Vec<_> = node.peers().collect();
    let wake = node.next_wake();
    for sent in datagrams {
        node.receive(now, sent.from, &sent.bytes);
    }
    let after = node.counters();
    assert_eq!((node.remote(LIMIT), node.connected()), (before.1, before.2));
    assert_eq!(node.peers().collect::<Vec<_>>(), peers);
    assert_eq!(node.next_wake(), wake);
    assert_eq!(node.poll_transmit(), None);
    let before = before.0;
    assert_eq!(after.updates_received, before.updates_received);
    assert_eq!(after.membership_received, before.membership_received);
    Counters {
        forged: after.forged - before.forged,
        replayed: after.replayed - before.replayed,
        malformed: after.malformed - before.malformed,
        unknown_peer: after.unknown_peer - before.unknown_peer,
        unknown_limit: after.unknown_limit - before.unknown_limit,
        refused: after.refused - before.refused,
        overtaken: after.overtaken - before.overtaken,
        ..Counters::default()
    }
}

#[test]
fn what_was_recorded_does_not_count_again() {
    let (mut world, recording) = running();
    assert!(updates(&recording).len() > 10 && membership(&recording).len() > 2);
    let replayed = recording.len() as u64;
    let counters = given(&mut world, &recording);
    assert_eq!(
        counters,
        Counters {
            replayed,
            ..Counters::default()
        }
    );
    // Nor much later.
    world.run_ms(60_000);
    let counters = given(&mut world, &recording);
    assert_eq!(counters.replayed, replayed);
}

#[test]
fn what_was_recorded_does_not_count_after_a_restart_of_its_sender() {
    let (mut world, recording) = running();
    for index in 1..10 {
        world.crash(index);
        world.start(index, 2000);
    }
    world.run_until(10_000, |world| world.all_connected(10));
    let (updates, membership) = (updates(&recording), membership(&recording));
    let counters = given(&mut world, &updates);
    let forged = updates.len() as u64;
    assert_eq!(
        counters,
        Counters {
            forged,
            ..Counters::default()
        }
    );
    let counters = given(&mut world, &membership);
    let replayed = membership.len() as u64;
    assert_eq!(
        counters,
        Counters {
            replayed,
            ..Counters::default()
        }
    );
}

#[test]
fn updates_that_were_recorded_do_not_count_after_a_restart_of_their_receiver() {
    let (mut world, recording) = running();
    world.crash(0);
    world.start(0, 2000);
    world.run_until(10_000, |world| world.all_connected(10));
    let updates = updates(&recording);
    let forged = updates.len() as u64;
    let counters = given(&mut world, &updates);
    assert_eq!(
        counters,
        Counters {
            forged,
            ..Counters::default()
        }
    );
}

#[test]
fn what_is_changed_cut_short_or_sent_elsewhere_does_not_count() {
    let (mut world, recording) = running();
    let mut spoilt = Vec::new();
    for sent in &recording {
        for at in 0..sent.bytes.len() {
            let mut changed = sent.clone();
            changed.bytes[at] ^= 1;
            spoilt.push(changed);
        }
    }
    let counters = given(&mut world, &spoilt);
    let sum = counters.forged + counters.replayed + counters.malformed;
    assert_eq!(sum, spoilt.len() as u64);
    // Kind bytes and lower incarnations aside.
    assert!(counters.forged as f64 > 0.95 * spoilt.len() as f64);

    let mut short = Vec::new();
    for sent in &recording {
        for length in (0..sent.bytes.len().min(60)).filter(|length| *length != 20) {
            let bytes = sent.bytes[..length].to_vec();
            short.push(Sent {
                bytes,
                ..sent.clone()
            });
        }
    }
    let counters = given(&mut world, &short);
    assert_eq!(counters.malformed + counters.forged, short.len() as u64);
    assert!(counters.malformed > 0);
    let long = Sent {
        bytes: vec![1; 1401],
        ..recording[0].clone()
    };
    assert_eq!(given(&mut world, &[long]).malformed, 1);

    // Sent on as another's.
    let other = recording.iter().map(|sent| {
        let from = if sent.from == address(1) {
            address(2)
        } else {
            address(1)
        };
        Sent {
            from,
            ..sent.clone()
        }
    });
    let other: Vec<_> = other.collect();
    let counters = given(&mut world, &other);
    assert_eq!(counters.forged, other.len() as u64);
}

#[test]
fn strangers_and_other_keys_are_not_heard() {
    let (mut world, recording) = running();
    let strangers = recording.iter().map(|sent| Sent {
        from: "192.0.2.7:4000".parse().expect("an address"),
        ..sent.clone()
    });
    let strangers: Vec<_> = strangers.collect();
    let counters = given(&mut world, &strangers);
    assert_eq!(counters.unknown_peer, strangers.len() as u64);
    let mirrored = Sent {
        from: address(0),
        ..recording[0].clone()
    };
    assert_eq!(given(&mut world, &[mirrored]).unknown_peer, 1);

    let mut config = config(10, 3, RANDOM, 5000);
    config.key = key("barley");
    let mut stranger = Node::new(config, world.now).expect("configured well");
    let mut forged = Vec::new();
    for seconds in 0..60 {
        stranger.wake(world.now + Duration::from_secs(seconds));
        while let Some(transmit) = stranger.poll_transmit() {
            if transmit.to == address(0) {
                let bytes = transmit.bytes().to_vec();
                forged.push(Sent {
                    from: address(3),
                    to: address(0),
                    bytes,
                });
            }
        }
    }
    assert!(!forged.is_empty());
    let counters = given(&mut world, &forged);
    let forged = forged.len() as u64;
    assert_eq!(
        counters,
        Counters {
            forged,
            ..Counters::default()
        }
    );
}

#[test]
fn limits_that_are_not_shared_here_are_counted_and_can_be_taken_up_again() {
    let (mut world, _) = running();
    world.node(0).remove_limit(LIMIT);
    let now = world.now;
    let refused = world.node(0).queue_updates(now, LIMIT, Update::default());
    assert_eq!(refused, Err(GossipError::UnknownLimit(LIMIT)));
    world.node(0).add_limit(LIMIT).expect("there is room");
    world.run_until(4000, |world| world.worst() < 0.02);
    assert_eq!(world.totals().forged, 0);
    assert_eq!(world.totals().replayed, 0);
}
