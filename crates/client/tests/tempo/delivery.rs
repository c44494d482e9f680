//! Messages from publishers to subscribers.

use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::time::Duration;

use client::tempo::{
    Activity, Channel, Node, NodeOptions, OnFull, PublicationOptions, SubscriptionOptions,
};
use client::{ClientError, EchoListener, Echoer};
use wire::announce::Role;

use crate::stranger::Stranger;
use crate::world::{PATIENCE, group, node, options, subscribe, wait_until};

#[test]
fn every_subscriber_gets_every_message_in_order() {
    let group = group();
    let (publishing, first, second) = (node(group), node(group), node(group));
    let (_first, first) = subscribe(&first, "order");
    let (_second, second) = subscribe(&second, "order");
    let options = PublicationOptions {
        queue_bytes: 4096,
        ..PublicationOptions::default()
    };
    let publisher = publishing
        .publisher("order", options)
        .expect("it publishes");
    wait_until("both are found", || publisher.subscribers() == 2);
    let count = 20_000_u32;
    for number in 0..count {
        // Lengths from nothing but the number to beyond what one read takes.
        let mut body = number.to_be_bytes().to_vec();
        body.resize(
            4 + if number % 1000 == 7 {
                90_000
            } else {
                number as usize % 300
            },
            1,
        );
        publisher.publish(&body).expect("it is taken");
    }
    for received in [first, second] {
        for number in 0..count {
            let body = received.recv_timeout(PATIENCE).expect("it comes");
            assert_eq!(body[..4], number.to_be_bytes());
        }
        assert!(received.try_recv().is_err(), "and nothing twice");
    }
    assert!(publisher.flush(PATIENCE));
    let counts = publisher.counts();
    assert_eq!(counts.published, u64::from(count));
    // The last batch is counted when the next begins.
    wait_until("all is counted", || {
        publisher.counts().sent == 2 * u64::from(count)
    });
    assert_eq!((counts.unheard, counts.losses, counts.connects), (0, 0, 2));
}

#[test]
fn an_endpoint_hears_itself() {
    let node = node(group());
    let (subscription, received) = subscribe(&node, "both");
    let publisher = node
        .publisher("both", PublicationOptions::default())
        .expect("it publishes");
    assert!(publisher.wait_for_subscriber(PATIENCE));
    publisher.publish(b"").expect("it is taken");
    publisher.publish(b"two").expect("it is taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"two");
    drop(subscription);
    wait_until("it is forgotten", || publisher.subscribers() == 0);
    publisher.publish(b"to nobody").expect("it is taken");
    wait_until("nobody hears it", || publisher.counts().unheard == 1);
}

#[test]
fn a_subscriber_that_does_not_read_loses_alone_where_messages_may_be_dropped() {
    let group = group();
    let (publishing, subscribing) = (node(group), node(group));
    let (subscription, received) = subscribe(&subscribing, "slow");
    let mut stranger = Stranger::new(group);
    let options = PublicationOptions {
        on_full: OnFull::Drop,
        queue_bytes: 64 * 1024,
        ..PublicationOptions::default()
    };
    let publisher = publishing.publisher("slow", options).expect("it publishes");
    let idle = stranger.announcement(1, Role::Subscriber, "slow", 60_000);
    stranger.say(&idle, None);
    let mut unread = stranger.accept();
    wait_until("both are found", || publisher.subscribers() == 2);
    let body = vec![3; 8192];
    let mut published = 0;
    wait_until("the idle one loses messages", || {
        publisher.publish(&body).expect("it is taken or dropped");
        // The outbox alone never fills: each is written before the next.
        assert!(publisher.flush(PATIENCE));
        published += 1;
        publisher.counts().dropped_behind > 0
    });
    let counts = publisher.counts();
    assert_eq!((counts.published, counts.dropped_full), (published, 0));
    wait_until("the other one got all", || {
        subscription.counts().messages == published
    });
    assert_eq!(received.try_iter().count() as u64, published);
    // The idle one begins to read, and gets what was put aside for it.
    unread.hello();
    for _ in 0..published - publisher.counts().dropped_behind {
        assert_eq!(unread.next().expect("it comes").1, body);
    }
}

#[test]
fn a_subscriber_that_does_not_read_holds_the_publication_until_it_is_forgotten() {
    let group = group();
    let publishing = node(group);
    let mut stranger = Stranger::new(group);
    let publisher = publishing
        .publisher("held", PublicationOptions::default())
        .expect("it publishes");
    let idle = stranger.announcement(1, Role::Subscriber, "held", 60_000);
    stranger.say(&idle, None);
    let _unread = stranger.accept();
    assert!(publisher.wait_for_subscriber(PATIENCE));
    let body = vec![3; 8192];
    std::thread::scope(|scope| {
        // Far more than sockets and queues hold: this ends only because the announcement does.
        scope.spawn(|| {
            for _ in 0..20_000 {
                publisher.publish(&body).expect("it is taken");
            }
        });
        wait_until("it is held", || publisher.counts().waits > 0);
        let leaving = stranger.announcement(1, Role::Subscriber, "held", 200);
        stranger.say(&leaving, None);
    });
    assert!(publisher.flush(PATIENCE));
    assert_eq!(publisher.subscribers(), 0);
    assert!(publisher.counts().unheard > 0);
}

#[test]
fn messages_come_as_datagrams_where_both_sides_want_that() {
    let group = group();
    let takes = NodeOptions {
        udp: true,
        ..options(Channel::Group(group))
    };
    let (publishing, subscribing) = (node(group), Node::start(takes).expect("it starts"));
    let (_subscription, received) = subscribe(&subscribing, "datagram");
    let sends = PublicationOptions {
        by_datagram: true,
        ..PublicationOptions::default()
    };
    let publisher = publishing
        .publisher("datagram", sends)
        .expect("it publishes");
    assert!(publisher.wait_for_subscriber(PATIENCE));
    publisher.publish(b"one").expect("it is taken");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"one");
    let counts = publisher.counts();
    assert_eq!((counts.connects, counts.datagrams_lost), (0, 0));
    // One for a topic that nobody here has.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sent = socket.send_to(&[0, 0, 0, 1, 42], subscribing.data_address());
    assert_eq!(sent.expect("sent"), 5);
    wait_until("it is counted", || subscribing.stats().control.unknown == 1);
}

#[test]
fn echoes_tell_the_delay() {
    let group = group();
    let (publishing, subscribing) = (node(group), node(group));
    let mut echoer = Echoer::bind("0.0.0.0:0").expect("bound");
    let (bodies, received) = channel();
    let _subscription =
        subscribing.subscribe("echo", SubscriptionOptions::default(), move |message| {
            bodies
                .send(echoer.echo(message.body).to_vec())
                .expect("the test listens");
        });
    let publisher = publishing
        .publisher("echo", PublicationOptions::default())
        .expect("it publishes");
    assert!(publisher.wait_for_subscriber(PATIENCE));
    let mut listener = EchoListener::bind("127.0.0.1:0", 1).expect("bound");
    publisher
        .publish_marked(b"marked", &mut listener)
        .expect("it is taken");
    assert_eq!(
        received.recv_timeout(PATIENCE).expect("it comes"),
        b"marked"
    );
    assert!(listener.next_latency(PATIENCE).is_some());
}

#[test]
fn timers_publish_without_a_thread_of_the_programs() {
    let group = group();
    let (sensor, reader) = (node(group), node(group));
    let (_subscription, received) = subscribe(&reader, "sensor");
    let publisher = sensor
        .publisher("sensor", PublicationOptions::default())
        .expect("it publishes");
    assert!(publisher.wait_for_subscriber(PATIENCE));
    let mut number = 0_u32;
    let timer = sensor
        .every(Duration::from_millis(1), None, move || {
            // The publisher lives and dies with the callback.
            publisher
                .publish(&number.to_be_bytes())
                .expect("it is taken");
            number += 1;
        })
        .expect("it ticks");
    for number in 0..200_u32 {
        let body = received.recv_timeout(PATIENCE).expect("it comes");
        assert_eq!(body, number.to_be_bytes());
    }
    assert!(timer.counts().calls >= 200);
    drop(timer);
    wait_until("timer and publication are gone", || {
        let stats = sensor.stats();
        stats.tasks.len() == 1 && stats.tasks[0].activity == Activity::Control
    });
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let node = node(group());
    let publisher = node
        .publisher("once", PublicationOptions::default())
        .expect("it publishes");
    let again = node.publisher("once", PublicationOptions::default());
    assert!(matches!(again, Err(ClientError::InUse { .. })), "{again:?}");
    let (_subscription, _) = subscribe(&node, "once");
    let again = node.subscribe("once", SubscriptionOptions::default(), |_| {});
    assert!(matches!(again, Err(ClientError::InUse { .. })), "{again:?}");
    let invalid = node.publisher("a b", PublicationOptions::default());
    assert!(
        matches!(invalid, Err(ClientError::Name { .. })),
        "{invalid:?}"
    );
    let endless = node.every(Duration::ZERO, None, || {});
    assert!(
        matches!(endless, Err(ClientError::Option { .. })),
        "{endless:?}"
    );
    let long = vec![0; (1 << 20) + 1];
    let error = publisher.publish(&long).expect_err("too long");
    assert!(matches!(error, ClientError::TooLong { .. }), "{error}");
    let share = client::tempo::CpuShare::new(0.99).expect("a share");
    let greedy = PublicationOptions {
        share: Some(share),
        ..PublicationOptions::default()
    };
    let error = node
        .publisher("greedy", greedy)
        .expect_err("0.02 are the control's");
    assert!(matches!(error, ClientError::Kernel(_)), "{error}");
    assert_eq!(node.stats().tasks.len(), 3);
    drop(node);
    let error = publisher
        .publish(b"late")
        .expect_err("the endpoint is gone");
    assert!(matches!(error, ClientError::Ended), "{error}");
}
