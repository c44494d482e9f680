//! Strangers, forgers, garbage and panicking callbacks do not disturb an endpoint.

use std::io::{Read, Write};
use std::net::TcpStream;

use client::tempo::{Channel, Key, Node, NodeOptions, PublicationOptions, SubscriptionOptions};
use wire::announce::{Role, TopicId};

use crate::stranger::{Stranger, connect, id_of, message};
use crate::world::{PATIENCE, group, node, options, subscribe, wait_until};

#[test]
fn messages_with_unknown_identifiers_are_dropped_and_counted() {
    let node = node(group());
    let (subscription, received) = subscribe(&node, "known");
    let mut stream = connect(node.data_address(), 5, None);
    // Before it is known whose the connection is, byte by byte.
    for byte in message(TopicId(1), b"nobody's") {
        stream.write_all(&[byte]).expect("sent");
    }
    stream
        .write_all(&message(id_of("known"), b"one"))
        .expect("sent");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"one");
    assert_eq!(node.stats().control.unknown, 1);
    // And behind.
    stream
        .write_all(&message(TopicId(1), b"nobody's"))
        .expect("sent");
    stream
        .write_all(&message(id_of("known"), b"two"))
        .expect("sent");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"two");
    wait_until("all are counted", || {
        let counts = subscription.counts();
        (counts.messages, counts.unknown) == (2, 1)
    });
    assert_eq!(subscription.counts().connections, 1);
    drop(stream);
    wait_until("its end is seen", || subscription.counts().connections == 0);
}

#[test]
fn connections_that_break_the_protocol_are_closed_and_counted() {
    let node = node(group());
    let (subscription, received) = subscribe(&node, "strict");
    let data = node.data_address();
    let mut http = TcpStream::connect(data).expect("it takes connections");
    http.set_read_timeout(Some(PATIENCE)).expect("patient");
    http.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert_closed(&mut http);
    let mut signed = connect(data, 1, Some(&Key::from_text("secret")));
    assert_closed(&mut signed);
    let too_long = [0xff; 8];
    let mut before = connect(data, 2, None);
    before.write_all(&too_long).expect("sent");
    assert_closed(&mut before);
    assert_eq!(node.stats().control.hellos_refused, 3);
    let mut behind = connect(data, 3, None);
    behind
        .write_all(&message(id_of("strict"), b"fine"))
        .expect("sent");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"fine");
    behind.write_all(&too_long).expect("sent");
    assert_closed(&mut behind);
    wait_until("it is counted", || subscription.counts().broken == 1);
}

/// The end, or a reset where something was not read.
fn assert_closed(stream: &mut TcpStream) {
    let result = stream.read(&mut [0; 1]);
    assert!(
        matches!(&result, Ok(0))
            || result
                .as_ref()
                .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{result:?}"
    );
}

#[test]
fn announcements_that_are_not_genuine_are_counted_and_ignored() {
    let group = group();
    let key = Key::from_text("secret");
    let keyed = |key: &Key| {
        let options = NodeOptions {
            key: Some(key.clone()),
            ..options(Channel::Group(group))
        };
        Node::start(options).expect("it starts")
    };
    let node = keyed(&key);
    let publisher = node
        .publisher("secret", PublicationOptions::default())
        .expect("it publishes");
    let mut stranger = Stranger::new(group);
    let unsigned = stranger.announcement(1, Role::Subscriber, "secret", 60_000);
    stranger.say(&unsigned, None);
    let forged = stranger.announcement(2, Role::Subscriber, "secret", 60_000);
    stranger.say(&forged, Some(&Key::from_text("guess")));
    wait_until("both are counted", || {
        node.stats().announcements.forged == 2
    });
    let mut datagram = Vec::new();
    forged.encode(None, &mut datagram);
    stranger.say_bytes(&datagram[..3]);
    wait_until("it is counted", || {
        node.stats().announcements.truncated == 1
    });
    stranger.say_bytes(b"");
    stranger.say_bytes(&[0xee; 2000]);
    wait_until("they are counted", || {
        let counters = node.stats().announcements;
        counters.truncated + counters.malformed >= 3
    });
    assert_eq!(node.stats().endpoints, 0);
    // Who knows the secret is heard, before and after.
    let friend = keyed(&key);
    let (_subscription, received) = subscribe(&friend, "secret");
    assert!(publisher.wait_for_subscriber(PATIENCE));
    publisher.publish(b"psst").expect("it is taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"psst");
}

#[test]
fn a_callback_that_panics_ends_its_own_subscription_only() {
    let group = group();
    let (publishing, subscribing) = (node(group), node(group));
    let _bad = subscribing
        .subscribe("bad", SubscriptionOptions::default(), |_| {
            panic!("on purpose")
        })
        .expect("it subscribes");
    let (_good, received) = subscribe(&subscribing, "good");
    let bad = publishing
        .publisher("bad", PublicationOptions::default())
        .expect("it publishes");
    let good = publishing
        .publisher("good", PublicationOptions::default())
        .expect("it publishes");
    assert!(bad.wait_for_subscriber(PATIENCE) && good.wait_for_subscriber(PATIENCE));
    bad.publish(b"x").expect("it is taken");
    wait_until("it is counted", || subscribing.stats().kernel.panics == 1);
    // It is not announced any more, so that its publishers do not wait for it.
    wait_until("it is forgotten", || bad.subscribers() == 0);
    good.publish(b"y").expect("it is taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"y");
}
