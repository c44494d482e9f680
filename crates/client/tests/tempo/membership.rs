//! Who is found, found again, and forgotten; through a group and through a broker.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use client::tempo::{Channel, Node, NodeOptions, PublicationOptions, ThreadStart};
use rustc_hash::FxHashMap;
use wire::announce::{Announcement, Role, TopicId};

use crate::stranger::{Stranger, name, patiently};
use crate::world::{PATIENCE, group, node, options, subscribe, wait_until};

#[test]
fn a_subscriber_that_starts_again_is_found_again() {
    let group = group();
    let publishing = node(group);
    let publisher = publishing
        .publisher("again", PublicationOptions::default())
        .expect("it publishes");
    for life in 0..3_u8 {
        let subscribing = node(group);
        let (_subscription, received) = subscribe(&subscribing, "again");
        assert!(publisher.wait_for_subscriber(PATIENCE));
        publisher.publish(&[life]).expect("it is taken");
        assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), [life]);
        drop(subscribing);
        // It says good-bye.
        wait_until("it is forgotten", || publisher.subscribers() == 0);
    }
    assert_eq!(publisher.counts().connects, 3);
}

#[test]
fn a_new_life_at_the_same_address_takes_the_place_of_the_old_one() {
    let group = group();
    let publishing = node(group);
    let publisher = publishing
        .publisher("lives", PublicationOptions::default())
        .expect("it publishes");
    let mut stranger = Stranger::new(group);
    let said = stranger.announcement(1, Role::Subscriber, "lives", 60_000);
    stranger.say(&said, None);
    let mut first = stranger.accept();
    assert_eq!(first.hello(), publishing.instance());
    let said = stranger.announcement(2, Role::Subscriber, "lives", 60_000);
    stranger.say(&said, None);
    let mut second = stranger.accept();
    assert_eq!(first.next(), None, "the old connection is closed");
    assert_eq!(second.hello(), publishing.instance());
    wait_until("there is one", || publisher.subscribers() == 1);
    publisher.publish(b"x").expect("it is taken");
    assert_eq!(second.next().expect("it comes").1, b"x");
    // A connection that breaks is made again while the announcement holds.
    drop(second);
    let mut third = stranger.accept();
    assert_eq!(third.hello(), publishing.instance());
    assert!(publisher.counts().losses >= 1);
}

#[test]
fn who_is_silent_is_forgotten_when_its_words_expire() {
    let group = group();
    let publishing = node(group);
    let publisher = publishing
        .publisher("silent", PublicationOptions::default())
        .expect("it publishes");
    let mut stranger = Stranger::new(group);
    let said = stranger.announcement(1, Role::Subscriber, "silent", 60_000);
    stranger.say(&said, None);
    let mut feed = stranger.accept();
    feed.hello();
    // Its last words hold for a shorter time.
    let said = stranger.announcement(1, Role::Subscriber, "silent", 200);
    stranger.say(&said, None);
    assert_eq!(feed.next(), None, "the connection is closed");
    wait_until("it is forgotten", || publishing.stats().endpoints == 0);
    wait_until("nobody is left", || publisher.subscribers() == 0);
    // The same words again are a replay.
    stranger.say(&said, None);
    wait_until("it is refused", || {
        publishing.stats().announcements.replayed == 1
    });
    assert_eq!(publishing.stats().endpoints, 0);
}

#[test]
fn two_topics_with_one_identifier_part() {
    let (one, other) = names_that_collide();
    let group = group();
    let (first, second) = (node(group), node(group));
    let (_at_first, at_first) = subscribe(&first, &one);
    let (_at_second, at_second) = subscribe(&second, &other);
    let to_second = first
        .publisher(&other, PublicationOptions::default())
        .expect("it publishes");
    let to_first = second
        .publisher(&one, PublicationOptions::default())
        .expect("it publishes");
    wait_until("both see it", || {
        let saw = |node: &Node| node.stats().names.collisions > 0;
        saw(&first) && saw(&second)
    });
    assert!(to_first.wait_for_subscriber(PATIENCE) && to_second.wait_for_subscriber(PATIENCE));
    // One that was published under the identifier that both have left may be dropped.
    wait_until("both get their own", || {
        to_first.publish(one.as_bytes()).expect("it is taken");
        to_second.publish(other.as_bytes()).expect("it is taken");
        let got = |received: &std::sync::mpsc::Receiver<Vec<u8>>, name: &str| {
            let bodies: Vec<_> = received.try_iter().collect();
            assert!(bodies.iter().all(|body| body == name.as_bytes()));
            !bodies.is_empty()
        };
        got(&at_first, &one) && got(&at_second, &other)
    });
}

/// Two names whose first identifiers are equal: among 2^17 names there are about four pairs.
fn names_that_collide() -> (String, String) {
    let mut seen: FxHashMap<TopicId, String> = FxHashMap::default();
    for number in 0.. {
        let topic = format!("topic-{number}");
        let id = TopicId::hashed(&name(&topic), 0);
        if let Some(other) = seen.insert(id, topic.clone()) {
            return (other, topic);
        }
    }
    unreachable!("identifiers are finite")
}

#[test]
fn a_broker_stands_between_while_it_is_heard() {
    let group = group();
    let broker = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    broker.set_read_timeout(Some(PATIENCE)).expect("patient");
    let channel = Channel::Auto {
        broker: broker.local_addr().expect("bound"),
        group,
    };
    let publishing = Node::start(options(channel)).expect("it starts");
    let subscribing = node(group);
    let (_subscription, received) = subscribe(&subscribing, "relayed");
    let publisher = publishing
        .publisher("relayed", PublicationOptions::default())
        .expect("it publishes");
    // Without a broker messages go directly.
    assert!(publisher.wait_for_subscriber(PATIENCE));
    publisher.publish(b"directly").expect("it is taken");
    assert_eq!(
        received.recv_timeout(PATIENCE).expect("it comes"),
        b"directly"
    );
    // The broker hears of the publisher and appears as a subscriber.
    let mut datagram = [0; 2048];
    let from = loop {
        let (bytes, from) = patiently(|| broker.recv_from(&mut datagram));
        let said = Announcement::decode(&datagram[..bytes], None).expect("well made");
        if said
            .entries
            .iter()
            .any(|entry| entry.role == Role::Publisher)
        {
            break from;
        }
    };
    let mut stranger = Stranger::new(crate::world::group());
    let say_for = |stranger: &mut Stranger, expiry_ms| {
        let mut said = stranger.announcement(9, Role::Subscriber, "relayed", expiry_ms);
        said.is_proxy = true;
        let mut datagram = Vec::new();
        said.encode(None, &mut datagram);
        broker.send_to(&datagram, from).expect("sent");
    };
    say_for(&mut stranger, 60_000);
    let mut feed = stranger.accept();
    assert_eq!(feed.hello(), publishing.instance());
    say_for(&mut stranger, 200);
    // It dies, and messages go directly again.
    assert_eq!(feed.next(), None);
    assert!(publisher.wait_for_subscriber(PATIENCE));
    publisher.publish(b"directly again").expect("it is taken");
    assert_eq!(
        received.recv_timeout(PATIENCE).expect("it comes"),
        b"directly again"
    );
}

#[test]
fn the_name_service_gives_identifiers() {
    let service = TcpListener::bind("127.0.0.1:0").expect("listens");
    let url = format!("http://{}", service.local_addr().expect("bound"));
    let group = group();
    let stranger = Stranger::new(group);
    let named = NodeOptions {
        controller: Some(url),
        ..options(Channel::Group(group))
    };
    let node = Node::start(named).expect("it starts");
    let (_subscription, received) = subscribe(&node, "named");
    let (mut asked, _) = service.accept().expect("it is asked");
    asked.set_read_timeout(Some(PATIENCE)).expect("patient");
    let mut request = [0; 4096];
    let mut length = 0;
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        length += patiently(|| asked.read(&mut request[length..]));
    }
    assert!(request.starts_with(b"PUT /v1/names/named HTTP/1.1\r\n"));
    let body = r#"{"topic":"named","id":7}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    asked.write_all(answer.as_bytes()).expect("answered");
    // It is announced, and messages that carry it arrive.
    while stranger
        .hear()
        .0
        .entries
        .iter()
        .all(|entry| entry.id != TopicId(7))
    {}
    let mut stream = crate::stranger::connect(node.data_address(), 1, None);
    let message = crate::stranger::message(TopicId(7), b"seven");
    stream.write_all(&message).expect("sent");
    assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), b"seven");
}

#[test]
fn endpoints_that_cannot_be_are_refused() {
    let broken = |change: fn(&mut NodeOptions)| {
        let mut options = options(Channel::Group(group()));
        change(&mut options);
        Node::start(options).expect_err("it is refused").to_string()
    };
    for (error, wanted) in [
        (
            broken(|options| options.announce_interval = Duration::ZERO),
            "announce_interval: give",
        ),
        (broken(|options| options.threads = 5000), "threads: give"),
        (
            broken(|options| options.period = Duration::ZERO),
            "a period of",
        ),
        (
            broken(|options| options.body_bytes_max = 0),
            "body_bytes_max: give",
        ),
        (
            broken(|options| options.data_address = "192.0.2.1:0".parse().expect("an address")),
            "listen for data",
        ),
        (
            broken(|options| {
                let refused = ThreadStart::new(|_| Err(std::io::Error::other("no priority")));
                options.on_thread_start = Some(refused);
            }),
            "no priority",
        ),
    ] {
        assert!(error.contains(wanted), "{error}");
    }
}
