//! The follower in a world of virtual time.

mod world;

use std::time::Duration;

use proptest::prelude::*;

use self::world::{Deed, TOPIC, World};
use super::*;
use crate::publisher::Acknowledgement;

const CUMULATIVE: Acknowledgement = Acknowledgement::Cumulative {
    every_messages: 64,
    interval_ms: 5,
};

/// A second.
fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn settled(brokers: usize) -> World {
    let mut world = World::new(brokers, World::options(), 1);
    world.run_for(s(1));
    assert_eq!(world.follower.broker(), Some("b0:4150"));
    world
}

fn assert_all_once(world: &World) {
    assert_eq!(world.follower.unacknowledged(), 0, "{:?}", world.follower);
    assert_eq!(world.accepted(), vec![1; world.published as usize]);
}

#[test]
fn it_registers_connects_and_sends_what_waited() {
    let mut world = World::new(2, World::options(), 1);
    world.perform(Deed::Publish(1));
    world.perform(Deed::Publish(3));
    assert_eq!(world.follower.broker(), None);
    assert!(world.follower.output(ConnectionId(0)).is_empty());
    world.run_for(s(1));
    assert_all_once(&world);
    let enquiries: Vec<bool> = world.enquiries.iter().map(|(_, e)| e.register).collect();
    assert_eq!(enquiries, [true]);
    assert_eq!(world.follower.traffic().acknowledged, 4);
}

#[test]
fn a_move_goes_there_before_it_leaves() {
    let mut world = settled(2);
    world.perform(Deed::Hold(0, true));
    world.perform(Deed::Publish(1));
    world.act();
    world.run_for(s(1));
    world.perform(Deed::Move(1));
    world.run_for(s(1));
    // The old broker owes an OK: its connection stays, but what comes next goes to the new one.
    assert_eq!(world.follower.broker(), Some("b1:4150"));
    assert!(world.follower.is_moving());
    world.perform(Deed::Publish(1));
    world.act();
    world.run_for(s(1));
    assert_eq!(
        (world.accepted_by(0), world.accepted_by(1)),
        (&[0][..], &[1][..])
    );
    world.perform(Deed::Hold(0, false));
    world.run_for(s(1));
    assert!(!world.follower.is_moving());
    assert_eq!(world.follower.connections().count(), 1);
    assert_all_once(&world);
    let traffic = world.follower.traffic();
    assert_eq!((traffic.moves, traffic.resent), (1, 0));
}

#[test]
fn an_unreachable_target_is_reported_and_the_old_broker_kept() {
    let mut world = settled(3);
    world.perform(Deed::Block(1, true));
    world.perform(Deed::Move(1));
    world.run_for(s(4));
    world.perform(Deed::Publish(1));
    world.act();
    world.run_for(s(4));
    let (_, last) = world.enquiries.last().expect("asked");
    assert_eq!(last.avoid.as_deref(), Some("b1:4150"));
    assert!(!last.register);
    // The controller knows better than to send it there again.
    assert_eq!(world.follower.broker(), Some("b0:4150"));
    assert_all_once(&world);
}

#[test]
fn a_death_sends_again_what_was_not_acknowledged() {
    let mut world = settled(2);
    world.perform(Deed::Hold(0, true));
    for _ in 0..5 {
        world.perform(Deed::Publish(1));
    }
    world.act();
    world.run_for(s(1));
    world.perform(Deed::Kill(0));
    world.run_for(s(2));
    assert_eq!(world.follower.broker(), Some("b1:4150"));
    assert_eq!(world.follower.unacknowledged(), 0);
    assert_eq!(world.accepted(), [2; 5]);
    assert_eq!(world.follower.traffic().resent, 5);
}

#[test]
fn a_frozen_broker_is_noticed_by_its_silence() {
    let mut world = settled(2);
    world.perform(Deed::Freeze(0));
    world.perform(Deed::Publish(1));
    world.act();
    world.run_for(s(30));
    assert_eq!(world.follower.broker(), Some("b1:4150"));
    assert_all_once(&world);
}

#[test]
fn without_the_controller_it_stays_and_comes_back() {
    let mut world = settled(2);
    world.perform(Deed::Controller(false));
    world.perform(Deed::Publish(1));
    world.act();
    world.run_for(s(60));
    assert_eq!(world.enquiries.len(), 1, "no reason to ask");
    world.perform(Deed::Kill(0));
    world.perform(Deed::Publish(1));
    world.run_for(s(60));
    assert_eq!(world.follower.broker(), None);
    assert!(world.enquiries.len() > 30, "it tries for ever");
    world.perform(Deed::Revive(0));
    world.run_for(s(2));
    assert_eq!(world.follower.broker(), Some("b0:4150"));
    assert_all_once(&world);
    // It is where it was; the controller is told so when it answers again.
    world.perform(Deed::Controller(true));
    world.run_for(s(11));
    let (_, last) = world.enquiries.last().expect("asked");
    assert_eq!(last.avoid, None);
    let asked = world.enquiries.len();
    world.run_for(s(60));
    assert_eq!(world.enquiries.len(), asked);
}

#[test]
fn the_window_bounds_what_waits() {
    let options = PlacedOptions {
        window_messages: 3,
        window_bytes: 1000,
        ..World::options()
    };
    let mut follower = Follower::new(options, 1, Instant::ZERO).expect("valid");
    follower.publish_batch(&[[0; 10]; 9]).expect("goes alone");
    assert!(matches!(
        follower.publish(b"x"),
        Err(ClientError::WindowFull {
            unacknowledged: 9,
            window: 3
        })
    ));
    let mut world = World::new(1, World::options(), 1);
    world.follower.options.window_bytes = 25;
    world.perform(Deed::Publish(1));
    world.perform(Deed::Publish(1));
    assert_eq!(
        world.published, 1,
        "the first PUB holds 22 bytes, and 4 more are above 25"
    );
    world.run_for(s(1));
    world.perform(Deed::Publish(1));
    world.act();
    world.run_for(s(1));
    assert_all_once(&world);
}

/// A follower at b0 without a world: frames by hand.
fn ready() -> (Follower, ConnectionId) {
    let now = Instant::ZERO;
    let mut follower = Follower::new(World::options(), 1, now).expect("valid");
    assert!(matches!(follower.next_action(), Some(Action::Ask(_))));
    follower.told(now, Answer::At("b0:4150".to_owned()));
    let Some(Action::Connect { connection, .. }) = follower.next_action() else {
        panic!("it connects");
    };
    follower.connected(now, connection);
    follower.written(connection, follower.output(connection).len());
    let mut answer = Vec::new();
    wire::put_response(&mut answer, b"{}");
    follower.received(now, connection, &answer);
    assert!(follower.broker().is_some());
    (follower, connection)
}

fn error(text: &str) -> Vec<u8> {
    let mut frame = (text.len() as u32 + 4).to_be_bytes().to_vec();
    frame.extend_from_slice(&[0, 0, 0, 1]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

#[test]
fn a_refused_message_is_told_once_and_not_sent_again() {
    for (text, is_refused) in [
        ("E_BAD_MESSAGE PUB message too big 9 > 8", true),
        ("E_PUB_FAILED PUB failed limit of 5 messages exceeded", true),
        ("E_PUB_FAILED PUB failed exiting", false),
        ("E_INVALID who knows", false),
    ] {
        let (mut follower, connection) = ready();
        follower.publish(b"a").expect("room");
        follower.publish(b"b").expect("room");
        follower.written(connection, follower.output(connection).len());
        follower.received(Instant::ZERO, connection, &error(text));
        assert_eq!(follower.broker(), None, "{text}");
        assert_eq!(follower.next_action(), Some(Action::Close(connection)));
        assert_eq!(follower.take_refusal().is_some(), is_refused, "{text}");
        assert!(follower.take_refusal().is_none());
        assert_eq!(follower.traffic().refused, u64::from(is_refused));
        assert_eq!(follower.unacknowledged(), 2 - usize::from(is_refused));
        follower.tick(follower.next_deadline());
        let Some(Action::Ask(enquiry)) = follower.next_action() else {
            panic!("it asks where to go");
        };
        assert_eq!(enquiry.avoid.is_none(), is_refused, "{text}");
    }
}

#[test]
fn heartbeats_are_answered_and_notices_kept() {
    let (mut follower, connection) = ready();
    let mut bytes = wire::HEARTBEAT_FRAME.to_vec();
    wire::put_throttled(&mut bytes, "other", 1);
    wire::put_throttled(&mut bytes, TOPIC, 25_000);
    wire::put_migrate(&mut bytes, "other", "b7:4150");
    let at = Instant::from_nanos(5);
    // Byte by byte: frames may come in any pieces.
    for byte in bytes {
        follower.received(at, connection, &[byte]);
    }
    assert_eq!(follower.output(connection), b"NOP\n");
    let throttled = Throttled {
        at,
        retry_after_us: 25_000,
    };
    assert_eq!(follower.throttled(), Some(throttled));
    assert_eq!(follower.next_action(), None);
}

#[test]
fn a_broker_against_the_protocol_is_left() {
    let mut ack = Vec::new();
    wire::put_ack(&mut ack, 1);
    let mut answer = Vec::new();
    wire::put_response(&mut answer, b"CLOSE_WAIT");
    for frame in [wire::OK_FRAME.to_vec(), ack, answer, vec![0xff; 8]] {
        let (mut follower, connection) = ready();
        follower.received(Instant::ZERO, connection, &frame);
        assert_eq!(follower.broker(), None);
        assert!(
            follower.trouble().contains("protocol"),
            "{}",
            follower.trouble()
        );
        assert_eq!(follower.next_action(), Some(Action::Close(connection)));
    }
}

#[test]
fn what_no_socket_took_is_sent_once_elsewhere() {
    let (mut follower, connection) = ready();
    for body in [b"a", b"b", b"c"] {
        follower.publish(body).expect("room");
    }
    // The socket took the first command and a byte of the second.
    let taken = b"PUB telemetry\n\0\0\0\x01aP".len();
    follower.written(connection, taken);
    let mut migrate = Vec::new();
    wire::put_migrate(&mut migrate, TOPIC, "b1:4150");
    follower.received(Instant::ZERO, connection, &migrate);
    let Some(Action::Connect {
        connection: next, ..
    }) = follower.next_action()
    else {
        panic!("it connects");
    };
    follower.connected(Instant::ZERO, next);
    follower.written(next, follower.output(next).len());
    let mut answer = Vec::new();
    wire::put_response(&mut answer, b"{}");
    follower.received(Instant::ZERO, next, &answer);
    assert_eq!(follower.output(connection), b"UB telemetry\n\0\0\0\x01b");
    assert_eq!(follower.output(next), b"PUB telemetry\n\0\0\0\x01c");
    follower.closed(Instant::ZERO, connection, "gone");
    // Only the command that was whole in the socket may come twice.
    assert_eq!(follower.traffic().resent, 1);
    assert_eq!(follower.unacknowledged(), 3);
}

#[test]
fn a_refusal_by_the_controller_is_final_before_the_first_place() {
    let now = Instant::ZERO;
    let mut follower = Follower::new(World::options(), 1, now).expect("valid");
    follower.next_action().expect("asks");
    follower.told(now, Answer::Refused("rate".to_owned()));
    assert_eq!(follower.verdict(), Some("rate"));
    assert_eq!(follower.next_deadline(), Instant::MAX);
    assert_eq!(follower.next_action(), None);
}

fn harmless() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (1..5_u32).prop_map(Deed::Publish),
        3 => (0..3_usize).prop_map(Deed::Move),
        1 => (0..3_usize, any::<bool>()).prop_map(|(n, on)| Deed::Block(n, on)),
        1 => any::<bool>().prop_map(Deed::Controller),
        1 => (0..3_usize, any::<bool>()).prop_map(|(n, on)| Deed::Hold(n, on)),
    ]
}

fn deadly() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => harmless(),
        1 => (0..3_usize).prop_map(Deed::Kill),
        1 => (0..3_usize).prop_map(Deed::Revive),
        1 => (0..3_usize).prop_map(Deed::Freeze),
    ]
}

/// Each deed after a pause of up to 3 s, mostly short.
fn history(deed: impl Strategy<Value = Deed>) -> impl Strategy<Value = Vec<(u64, Deed)>> {
    let pause_us = prop_oneof![6 => 0..30_000_u64, 1 => 0..3_000_000_u64];
    prop::collection::vec((pause_us, deed), 1..80)
}

fn live_through(history: Vec<(u64, Deed)>, seed: u64, acknowledgement: Acknowledgement) -> World {
    let options = PlacedOptions {
        acknowledgement,
        window_messages: 50,
        ..World::options()
    };
    let mut world = World::new(3, options, seed);
    for (pause_us, deed) in history {
        world.run_for(Duration::from_micros(pause_us));
        world.perform(deed);
        world.act();
        assert!(world.follower.unacknowledged() <= 50);
        assert!(world.follower.connections().count() <= 2 + connections::MAX_LEAVING);
    }
    world
}

/// Everything is acknowledged in the end, and it is quiet.
fn settle(world: &mut World) {
    world.run_for(s(120));
    assert_eq!(world.follower.unacknowledged(), 0, "{:?}", world.follower);
    assert!(world.accepted().iter().all(|times| *times >= 1));
    let seconds = world.now.as_nanos() / 1_000_000_000;
    assert!(
        (world.enquiries.len() as u64) < 20 + 12 * seconds,
        "no storm of questions"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn moves_lose_and_repeat_nothing(history in history(harmless()), seed: u64, acks: bool) {
        let acknowledgement = if acks { CUMULATIVE } else { Acknowledgement::Each };
        let mut world = live_through(history, seed, acknowledgement);
        world.unblock();
        settle(&mut world);
        assert_all_once(&world);
        prop_assert_eq!(world.follower.traffic().resent, 0);
    }

    #[test]
    fn deaths_lose_nothing(history in history(deadly()), seed: u64, acks: bool) {
        let acknowledgement = if acks { CUMULATIVE } else { Acknowledgement::Each };
        let mut world = live_through(history, seed, acknowledgement);
        world.heal();
        settle(&mut world);
        let extra: u32 = world.accepted().iter().map(|times| times - 1).sum();
        prop_assert!(u64::from(extra) <= world.follower.traffic().resent);
    }
}
