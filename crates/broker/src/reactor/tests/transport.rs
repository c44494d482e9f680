//! A conversation is the same over every transport.

use super::*;
use crate::connection::Pause;

const MESSAGES: usize = 60;

/// Bodies of all lengths up to more than a record carries.
fn bodies() -> impl Iterator<Item = Vec<u8>> {
    (0..MESSAGES).map(|number| vec![number as u8; 1 + number * 25])
}

#[test]
fn what_is_published_comes_whole_and_in_order_over_every_transport_in_whatever_pieces() {
    let pieces = [1_000_000, 333, 23].into_iter();
    for (kind, piece) in pieces.flat_map(|piece| KINDS.map(|kind| (kind, piece))) {
        // Messages wait for room, so that publishers are held with input in their transport.
        let mut scene = Scene::new(Config {
            threads: 1,
            mem_queue_size: 8,
            ..Config::default()
        });
        let mut consumer = scene.connect(0, kind);
        consumer.say(&mut scene, b"  V2SUB t c\nRDY 3\n", piece);
        assert_eq!(scene.frames(&mut consumer, 1)[0][4..], *b"OK");
        let mut publisher = scene.connect(0, kind);
        let mut words = b"  V2".to_vec();
        words.extend(publishes("t", bodies()));
        publisher.say(&mut scene, &words, piece);
        for (number, body) in bodies().enumerate() {
            let frame = scene.frames(&mut consumer, 1).remove(0);
            assert_eq!(frame[30..], body, "message {number}");
            let mut finish = b"FIN ".to_vec();
            finish.extend_from_slice(&frame[14..30]);
            finish.push(b'\n');
            consumer.say(&mut scene, &finish, piece);
        }
        for answer in scene.frames(&mut publisher, MESSAGES) {
            assert_eq!(answer[4..], *b"OK");
        }
    }
}

#[test]
fn a_publisher_that_was_held_goes_on_with_what_its_transport_keeps() {
    let mut scene = Scene::new(Config {
        threads: 1,
        mem_queue_size: 1,
        ..Config::default()
    });
    let mut publisher = scene.connect(0, Kind::Records);
    let mut words = b"  V2".to_vec();
    words.extend(publishes("t", (0..20).map(|_| vec![7; 40])));
    publisher.say(&mut scene, &words, usize::MAX);
    let (_, key) = publisher.at;
    let connection = |scene: &Scene| {
        let connection = scene.reactors[0]
            .hall
            .peers
            .connections
            .get(key)
            .expect("open");
        (connection.pause, connection.transport.holds_input())
    };
    scene.until("it is held", |scene| connection(scene).0 == Pause::Room);
    assert!(connection(&scene).1, "more has come than was given");
    let mut consumer = scene.connect(0, Kind::Plain);
    consumer.say(&mut scene, b"  V2SUB t c\nRDY 100\n", usize::MAX);
    assert_eq!(scene.frames(&mut consumer, 21).len(), 21);
    assert_eq!(scene.frames(&mut publisher, 20).len(), 20);
    assert!(!connection(&scene).1);
}

#[test]
fn a_followed_message_is_awaited_by_its_last_byte_on_the_wire() {
    for kind in KINDS {
        let mut scene = Scene::new(Config {
            threads: 1,
            ..Config::default()
        });
        let mut consumer = scene.connect(0, kind);
        consumer.say(&mut scene, b"  V2SUB t c\nRDY 2500\n", usize::MAX);
        assert_eq!(scene.frames(&mut consumer, 1)[0][4..], *b"OK");
        let table = &mut scene.reactors[0].hall.topics.table;
        let topic = table.find("t").expect("made by SUB");
        let order = topics::WindowOrder {
            percentile: 99.0,
            with_trace: false,
            promise_us: None,
        };
        table.begin_window(topic, &order, sys::monotonic_now());
        let mut publisher = scene.connect(0, Kind::Plain);
        let mut words = b"  V2".to_vec();
        words.extend(publishes("t", bodies()));
        publisher.say(&mut scene, &words, usize::MAX);
        assert_eq!(scene.frames(&mut consumer, MESSAGES).len(), MESSAGES);
        let (_, key) = consumer.at;
        let probes = |scene: &Scene| {
            let connection = scene.reactors[0].hall.peers.connections.get(key);
            let probes = connection.and_then(|connection| connection.probes.as_ref());
            probes.map(|probes| probes.awaited())
        };
        assert!(probes(&scene).is_some(), "messages are followed");
        scene.until("all are acknowledged", |scene| probes(scene) == Some(0));
    }
}

#[test]
fn whoever_ends_behind_much_that_was_not_read_is_let_go() {
    for kind in KINDS {
        let mut scene = Scene::new(Config {
            threads: 1,
            ..Config::default()
        });
        let mut peer = scene.connect(0, kind);
        // It is all there, with the end behind it, when the reactor looks for the first time.
        let words = [
            b"  V2",
            &publishes("t", (0..150).map(|_| vec![7; 1000]))[..],
        ]
        .concat();
        let mut wire = Vec::new();
        peer.far.seal(&words, &mut wire);
        let mut left = &wire[..];
        while !left.is_empty() {
            match peer.client.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        let way = std::net::Shutdown::Write;
        peer.client.shutdown(way).expect("connected");
        scene.until("it is let go", |scene| {
            peer.listen();
            scene.reactors[0].hall.peers.connections.is_empty()
        });
        let taken = scene.reactors[0].hall.topics.table.find("t");
        assert!(taken.is_some(), "what came before the end counts");
    }
}
