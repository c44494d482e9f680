//! Connections that have not said who they are: when they have, whose place goes over, and how much they may say.

use super::*;

/// Somebody else's address.
fn elsewhere(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

fn identify(body: &str) -> Vec<u8> {
    let mut words = b"  V2".to_vec();
    wire::command::put_identify(&mut words, body.as_bytes());
    words
}

impl Scene {
    fn of_strangers(all: usize, per_address: usize) -> Scene {
        Scene::new(Config {
            threads: 1,
            max_unidentified: all,
            max_unidentified_per_address: per_address,
            memory_budget_bytes: 64 << 20,
            ..Config::default()
        })
    }

    fn strangers(&self) -> usize {
        self.reactors[0].hall.peers.strangers.count()
    }

    fn has(&self, peer: &Peer) -> bool {
        self.reactors[0]
            .hall
            .peers
            .connections
            .get(peer.at.1)
            .is_some()
    }
}

#[test]
fn a_stranger_is_known_by_its_first_command() {
    for (words, is_known) in [
        (b"".to_vec(), false),
        (b"  V".to_vec(), false),
        (b"  V2".to_vec(), false),
        (b"  V2NO".to_vec(), false),
        (b"  V2PUB t\n\0\0\0\x02x".to_vec(), false),
        (b"  V2NOP\n".to_vec(), true),
        (b"  V2PUB t\n\0\0\0\x01x".to_vec(), true),
        (b"  V2SUB t c\n".to_vec(), true),
        (identify("{}"), true),
        (b"LINE".to_vec(), true),
    ] {
        let mut scene = Scene::of_strangers(9, 9);
        let mut peer = scene.connect(0, Kind::Plain);
        assert_eq!(scene.strangers(), 1);
        peer.say(&mut scene, &words, usize::MAX);
        match is_known {
            true => scene.until("it is known", |scene| scene.strangers() == 0),
            false => scene.until("it was read", |scene| {
                let connection = scene.reactors[0].hall.peers.connections.get(peer.at.1);
                let held = connection.map(|connection| connection.input.len());
                let magic = if words.starts_with(b"  V2") { 4 } else { 0 };
                held == Some(words.len() - magic)
            }),
        }
        assert_eq!(scene.strangers(), usize::from(!is_known), "{words:?}");
        assert!(scene.has(&peer));
        drop(peer);
        scene.until("it has gone", |scene| {
            scene.reactors[0].hall.peers.connections.is_empty()
        });
        assert_eq!(scene.strangers(), 0);
    }
}

#[test]
fn whoever_waits_longest_gives_way_at_its_address_or_at_all() {
    let mut scene = Scene::of_strangers(4, 2);
    let mut known = scene.connect_from(elsewhere(1), 0, Kind::Plain);
    known.say(&mut scene, &identify("{}"), usize::MAX);
    scene.frames(&mut known, 1);
    let mut flood: Vec<_> = (0..3)
        .map(|_| scene.connect_from(elsewhere(1), 0, Kind::Plain))
        .collect();
    assert!(
        !scene.has(&flood[0]),
        "the third of its address took its place"
    );
    let others: Vec<_> = (2..4)
        .map(|last| scene.connect_from(elsewhere(last), 0, Kind::Plain))
        .collect();
    assert_eq!(scene.strangers(), 4);
    // This machine's own are bound by the number of all.
    let own: Vec<_> = (0..2).map(|_| scene.connect(0, Kind::Plain)).collect();
    assert!(
        !flood[1..].iter().any(|each| scene.has(each)),
        "they waited longest"
    );
    assert!(others.iter().chain(&own).all(|each| scene.has(each)));
    assert!(scene.has(&known));
    assert_eq!(scene.strangers(), 4);
    assert_eq!(scene.reactors[0].hall.peers.counters.strangers_gave_way, 3);
    assert!(!flood[0].listen(), "it is told by the end");
    known.say(&mut scene, b"NOP\n", usize::MAX);
    assert!(known.listen());
}

#[test]
fn a_handshake_of_tls_is_waited_for_and_does_not_give_way_while_it_waits() {
    let mut scene = Scene::with_tls(Config {
        threads: 1,
        max_unidentified: 1,
        ..Config::default()
    });
    let said = identify(r#"{"feature_negotiation":true,"tls_v1":true}"#);
    let mut first = scene.connect(0, Kind::Plain);
    first.say(&mut scene, &said, usize::MAX);
    scene.plain_frame(&mut first);
    assert_eq!(
        scene.strangers(),
        1,
        "it has asked for TLS and not shown that it speaks it"
    );
    let mut second = scene.connect(0, Kind::Plain);
    assert!(!scene.has(&first));
    second.say(&mut scene, &said, usize::MAX);
    scene.plain_frame(&mut second);
    second.far.upgrade(true, None, 0, &scene.authority);
    let mut hello = Vec::new();
    second.far.seal(&[], &mut hello);
    second.client.write_all(&hello).expect("written");
    let is_given_away = (0..TURNS).any(|_| {
        scene.reactors[0].turn(Some(Duration::ZERO));
        scene.handshakes.go_on() > 0
    });
    assert!(is_given_away);
    // The reactor has not heard yet how the handshake went.
    let (_third, refused) = scene.arrive(elsewhere(1), 0, Kind::Plain);
    assert!(refused.is_none());
    assert_eq!(scene.reactors[0].hall.peers.counters.strangers_refused, 1);
    assert!(scene.has(&second));
    scene.shake(&mut second);
    scene.until("it is known", |scene| scene.strangers() == 0);
    assert!(scene.has(&second));
}

#[test]
fn first_commands_have_little_memory_and_all_strangers_a_part_of_it() {
    let mut scene = Scene::of_strangers(9, 9);
    let most = 1 << 20;
    let large = |from: usize| {
        let mut words = b"  V2PUB t\n\0\x10\0\0".to_vec();
        words.resize(words.len() + from, b'x');
        words
    };
    let mut first = scene.connect(0, Kind::Plain);
    first.say(&mut scene, &large(100 * 1024), usize::MAX);
    scene.until("it is read", |scene| {
        let connection = scene.reactors[0].hall.peers.connections.get(first.at.1);
        connection.is_some_and(|connection| connection.input.len() > 100 * 1024)
    });
    assert_eq!(
        scene.strangers(),
        1,
        "a command that is not whole makes nobody known"
    );
    // An eighth of a seventh of the budget is less than two such commands.
    let mut second = scene.connect(0, Kind::Plain);
    second.say(&mut scene, &large(20 * 1024), usize::MAX);
    let error = scene.frames(&mut second, 1).remove(0);
    let text = String::from_utf8_lossy(&error[4..]).into_owned();
    assert!(
        text.starts_with("E_INVALID no room for a first command of ")
            && text.ends_with("send IDENTIFY first"),
        "{text}"
    );
    assert_eq!(scene.reactors[0].hall.peers.counters.strangers_refused, 1);
    // Who is known has the memory of all.
    let mut known = scene.connect(0, Kind::Plain);
    known.say(&mut scene, b"  V2NOP\n", usize::MAX);
    scene.until("it is known", |scene| scene.strangers() <= 2);
    known.say(&mut scene, &publishes("t", [vec![b'x'; most]]), usize::MAX);
    assert_eq!(scene.frames(&mut known, 1)[0][4..], *b"OK");
    first.say(&mut scene, &vec![b'x'; most - 100 * 1024], usize::MAX);
    assert_eq!(scene.frames(&mut first, 1)[0][4..], *b"OK");
    // What was reserved is free again.
    let mut third = scene.connect(0, Kind::Plain);
    third.say(&mut scene, &large(most), usize::MAX);
    assert_eq!(scene.frames(&mut third, 1)[0][4..], *b"OK");
    drop((first, second, known, third));
    scene.until("all have gone", |scene| scene.strangers() == 0);
}
