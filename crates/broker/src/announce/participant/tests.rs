//! A participant without a thread behind it: the test moves time.

use std::time::Duration;

use wire::announce::{Entry, Role};

use super::*;
use crate::{Broker, Config};

fn socket() -> AnnounceSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    AnnounceSocket::new(socket).expect("within a runtime")
}

fn broker() -> Broker {
    let broker = Broker::start(Config {
        tcp_address: ([127, 0, 0, 1], 0).into(),
        http_address: None,
        threads: 1,
        drain_timeout: Duration::ZERO,
        ..Config::default()
    });
    broker.expect("starts")
}

#[tokio::test]
async fn what_waits_unread_is_heard_before_anybody_is_forgotten() {
    let broker = broker();
    let (own, group) = (socket(), socket());
    let address = |socket: &AnnounceSocket| socket.local_addr().expect("bound");
    let to = [address(&own), address(&group)];
    let config = AnnounceConfig {
        address: to[0],
        group: Some(to[1]),
        key: None,
        interval: Duration::from_secs(1),
    };
    let data = broker.tcp_address();
    let mut participant = Participant::new(broker.handle(), config, data, own, Some(group));
    let speaker = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let topic: TopicName = "t".parse().expect("valid");
    let said = |instance: u16, sequence| {
        let mut datagram = Vec::new();
        Announcement {
            instance: InstanceId(instance.into()),
            sequence,
            is_proxy: false,
            is_leaving: false,
            expiry_ms: 1000,
            data: ([127, 0, 0, 1], instance).into(),
            udp: false,
            entries: vec![Entry {
                role: Role::Publisher,
                id: TopicId::hashed(&topic, 0),
                topic: topic.clone(),
                held: None,
            }],
        }
        .encode(None, &mut datagram);
        datagram
    };
    let began = sys::monotonic_now();
    for (instance, to) in (1..).zip(to) {
        participant.hear(&said(instance, 1), to, began);
        let again = said(instance, 2);
        let sent = speaker.send_to(&again, to).expect("sent");
        assert_eq!(sent, again.len());
    }
    for socket in [Some(&participant.socket), participant.group.as_ref()] {
        let socket = socket.expect("both");
        let has_come = (0..1_000_000).any(|_| {
            std::thread::yield_now();
            socket.asking.peek_from(&mut [0; 1]).is_ok()
        });
        assert!(has_come, "what was sent does not arrive");
    }
    let late = began + Duration::from_secs(5);
    for (after_ms, known) in [(0, 2), (999, 2), (1000, 0)] {
        participant.forget(late + Duration::from_millis(after_ms));
        let instances = participant.directory.instances();
        assert_eq!(instances, known, "{after_ms} ms after they were heard late");
    }
    broker.stop();
}

#[tokio::test]
async fn without_a_key_only_those_who_ask_are_dialled() {
    let broker = broker();
    let topic: TopicName = "t".parse().expect("valid");
    let said = |instance: u16, host: [u8; 4]| Announcement {
        instance: InstanceId(instance.into()),
        sequence: 1,
        is_proxy: false,
        is_leaving: false,
        expiry_ms: 60_000,
        data: (host, instance).into(),
        udp: false,
        entries: vec![Entry {
            role: Role::Subscriber,
            id: TopicId::hashed(&topic, 0),
            topic: topic.clone(),
            held: None,
        }],
    };
    let key = wire::announce::Key::from_text("ours");
    for (key, expected) in [(None, 2), (Some(key), 3)] {
        let own = socket();
        let config = AnnounceConfig {
            address: own.local_addr().expect("bound"),
            group: None,
            key: key.clone(),
            interval: Duration::from_secs(1),
        };
        let data = broker.tcp_address();
        let mut participant = Participant::new(broker.handle(), config, data, own, None);
        let now = sys::monotonic_now();
        // Its own address, the one that its datagram came from, somebody else's.
        for (instance, host) in [(1, [127, 0, 0, 1]), (2, [0; 4]), (3, [10, 9, 9, 9])] {
            let mut datagram = Vec::new();
            said(instance, host).encode(key.as_ref(), &mut datagram);
            participant.hear(&datagram, ([127, 0, 0, 1], 9).into(), now);
        }
        assert_eq!(participant.deliveries.len(), expected);
    }
    broker.stop();
}
