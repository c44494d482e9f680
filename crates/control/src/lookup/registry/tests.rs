//! nsqlookupd's rules, one by one, and the registry's own counts for any history.

use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn subject(text: &str) -> Subject {
    let mut words = text.split(' ');
    Subject {
        topic: words.next().expect("a word").parse().expect("valid"),
        channel: words.next().map(|name| name.parse().expect("valid")),
    }
}

fn identity(number: u64) -> Identity {
    Identity {
        broadcast_address: format!("h{number}"),
        hostname: String::from("m"),
        tcp_port: 4150,
        http_port: 4151,
        version: String::from("1.3.0"),
    }
}

fn registry(peers: u64) -> Registry {
    let mut registry = Registry::default();
    for number in 1..=peers {
        let address = format!("10.0.0.{number}:5000");
        registry.identify(number, address, identity(number), Instant::ZERO);
    }
    registry
}

fn bounded(bounds: Bounds) -> Registry {
    let rules = Rules::default();
    Registry::new(Rules { bounds, ..rules })
}

fn producers(registry: &Registry, topic: &str, now: Instant) -> Vec<String> {
    let producers = registry.producers(topic, now);
    producers
        .map(|peer| peer.identity.broadcast_address.clone())
        .collect()
}

#[test]
fn a_channel_brings_its_topic_and_outlives_its_peers() {
    let mut registry = registry(2);
    registry.register(1, &subject("t c")).expect("room");
    registry.register(2, &subject("t")).expect("room");
    assert_eq!(producers(&registry, "t", at(0)), ["h1", "h2"]);
    assert!(registry.channels("t").eq(["c"]));

    registry.unregister(1, &subject("t"));
    assert_eq!(producers(&registry, "t", at(0)), ["h2"]);
    registry.disconnect(2);
    assert!(producers(&registry, "t", at(0)).is_empty());
    assert!(registry.topics().eq(["t"]) && registry.channels("t").eq(["c"]));

    registry.delete_topic("t");
    assert!(!registry.has_topic("t"));
    assert_eq!((registry.channels, registry.registrations), (0, 0));
}

#[test]
fn ephemeral_names_go_with_their_last_peer() {
    let mut registry = registry(2);
    for peer in [1, 2] {
        registry
            .register(peer, &subject("t c#ephemeral"))
            .expect("room");
        registry
            .register(peer, &subject("u#ephemeral c"))
            .expect("room");
    }
    registry.unregister(1, &subject("t c#ephemeral"));
    registry.unregister(1, &subject("u#ephemeral"));
    assert!(registry.topics().eq(["t", "u#ephemeral"]));
    assert!(registry.channels("t").eq(["c#ephemeral"]));
    registry.disconnect(2);
    assert!(registry.topics().eq(["t"]));
    assert_eq!(registry.channels("t").count(), 0);
    assert_eq!((registry.channels, registry.registrations), (0, 1));
}

#[test]
fn silence_hides_a_peer_and_a_ping_shows_it_again() {
    let mut registry = registry(1);
    registry.register(1, &subject("t")).expect("room");
    let cases = [(300, 1), (301, 0)];
    for (seconds, expected) in cases {
        let now = at(seconds);
        assert_eq!(producers(&registry, "t", now).len(), expected, "{seconds}");
        assert_eq!(registry.nodes(now).count(), expected, "{seconds}");
    }
    registry.ping(1, at(302));
    assert_eq!(producers(&registry, "t", at(303)), ["h1"]);
}

#[test]
fn a_tombstone_hides_one_topic_of_one_peer_for_a_while() {
    let mut registry = registry(2);
    for (peer, names) in [(1, "t"), (1, "u"), (2, "t")] {
        registry.register(peer, &subject(names)).expect("room");
    }
    registry.tombstone("t", "h1:4151", at(10));
    registry.tombstone("t", "h9:4151", at(10));
    registry.tombstone("nothing", "h1:4151", at(10));
    assert_eq!(producers(&registry, "t", at(10)), ["h2"]);
    assert_eq!(producers(&registry, "u", at(10)), ["h1"]);
    let nodes: Vec<_> = registry.nodes(at(10)).map(|(_, topics)| topics).collect();
    assert_eq!(nodes, [vec![("t", true), ("u", false)], vec![("t", false)]]);
    assert_eq!(producers(&registry, "t", at(54)), ["h2"]);
    assert_eq!(producers(&registry, "t", at(55)), ["h1", "h2"]);

    registry.tombstone("t", "h1:4151", at(60));
    registry.register(1, &subject("t")).expect("room");
    assert_eq!(
        producers(&registry, "t", at(60)),
        ["h2"],
        "registering again does not heal"
    );
    registry.unregister(1, &subject("t"));
    registry.register(1, &subject("t")).expect("room");
    assert_eq!(
        producers(&registry, "t", at(60)),
        ["h1", "h2"],
        "leaving and coming back does"
    );
}

#[test]
fn names_are_created_and_deleted_by_hand() {
    let mut registry = registry(1);
    registry.create(&subject("t c")).expect("room");
    registry.register(1, &subject("t c")).expect("room");
    assert!(registry.delete_channel("t", "c"));
    assert!(!registry.delete_channel("t", "c") && !registry.delete_channel("u", "c"));
    assert_eq!(producers(&registry, "t", at(0)), ["h1"]);
    assert_eq!((registry.channels, registry.registrations), (0, 1));
}

#[test]
fn bounds_refuse_and_change_nothing() {
    let bounds = Bounds {
        topics: 2,
        channels: 2,
        registrations: 4,
    };
    let mut registry = bounded(bounds);
    registry.identify(1, String::new(), identity(1), at(0));
    registry
        .register(1, &subject("a x"))
        .expect("2 registrations");
    registry.create(&subject("b")).expect("2 topics");
    let cases = [
        ("c", Err(Full::Topics)),
        ("a x", Ok(())),
        ("b y", Ok(())),
        ("b z", Err(Full::Registrations)),
    ];
    for (names, expected) in cases {
        assert_eq!(registry.register(1, &subject(names)), expected, "{names}");
    }
    assert_eq!(registry.create(&subject("b z")), Err(Full::Channels));
    assert!(registry.topics().eq(["a", "b"]) && registry.channels("b").eq(["y"]));
    // Who has not said who it is has nothing.
    assert_eq!(registry.register(2, &subject("c")), Ok(()));
    assert_eq!(registered(&registry), 4);
}

#[derive(Clone, Debug)]
enum Step {
    Identify(PeerId),
    Register(PeerId, &'static str),
    Unregister(PeerId, &'static str),
    Disconnect(PeerId),
    Create(&'static str),
    DeleteTopic(&'static str),
    DeleteChannel(&'static str, &'static str),
}

fn step() -> impl Strategy<Value = Step> {
    const SUBJECTS: &[&str] = &[
        "a",
        "a c",
        "a d#ephemeral",
        "b#ephemeral",
        "b#ephemeral c",
        "e x",
    ];
    let subject = proptest::sample::select(SUBJECTS);
    let topic = proptest::sample::select(&["a", "b#ephemeral", "e"][..]);
    let channel = proptest::sample::select(&["c", "d#ephemeral", "x"][..]);
    let peer = 1..4u64;
    prop_oneof![
        peer.clone().prop_map(Step::Identify),
        (peer.clone(), subject.clone()).prop_map(|(peer, names)| Step::Register(peer, names)),
        (peer.clone(), subject.clone()).prop_map(|(peer, names)| Step::Register(peer, names)),
        (peer.clone(), subject.clone()).prop_map(|(peer, names)| Step::Unregister(peer, names)),
        peer.prop_map(Step::Disconnect),
        subject.prop_map(Step::Create),
        topic.clone().prop_map(Step::DeleteTopic),
        (topic, channel).prop_map(|(topic, channel)| Step::DeleteChannel(topic, channel)),
    ]
}

proptest! {
    #[test]
    fn counts_are_those_of_what_is_held(steps in proptest::collection::vec(step(), 0..60)) {
        let bounds = Bounds { topics: 2, channels: 3, registrations: 6 };
        let mut registry = bounded(bounds);
        for step in steps {
            match step {
                Step::Identify(peer) => {
                    // Once per connection, as the protocol has it.
                    if !registry.peers.contains_key(&peer) {
                        let address = format!("10.0.0.{}:5000", peer % 2);
                        registry.identify(peer, address, identity(peer), at(0));
                    }
                }
                Step::Register(peer, names) => drop(registry.register(peer, &subject(names))),
                Step::Unregister(peer, names) => registry.unregister(peer, &subject(names)),
                Step::Disconnect(peer) => registry.disconnect(peer),
                Step::Create(names) => drop(registry.create(&subject(names))),
                Step::DeleteTopic(topic) => registry.delete_topic(topic),
                Step::DeleteChannel(topic, channel) => drop(registry.delete_channel(topic, channel)),
            }
            prop_assert_eq!(registered(&registry), registry.registrations);
            let had: usize = registry.had.values().map(BTreeSet::len).sum();
            let has: usize = registry.topics.values().map(|topic| topic.peers.len()).sum();
            prop_assert_eq!(had, has);
            let channels: usize = registry.topics.values().map(|topic| topic.channels.len()).sum();
            prop_assert_eq!(channels, registry.channels);
            prop_assert!(registry.topics.len() <= bounds.topics && channels <= bounds.channels);
            prop_assert!(registry.registrations <= bounds.registrations);
            for topic in registry.topics.values() {
                let mut of_channels = topic.channels.values().flat_map(|channel| &channel.peers);
                prop_assert!(of_channels.all(|peer| topic.peers.contains_key(peer)));
            }
        }
    }
}

/// Registrations by counting.
fn registered(registry: &Registry) -> usize {
    let rows = registry.rows_behind(None);
    let rows = rows.filter(|row| row.key != RowKey::Clients);
    rows.map(|row| row.peers.len()).sum()
}

#[test]
fn one_address_has_a_tenth_and_others_the_rest() {
    let bounds = Bounds {
        topics: 2000,
        channels: 2000,
        registrations: 3000,
    };
    let mut registry = Registry::new(Rules {
        bounds,
        ..Rules::default()
    });
    let subject = |text: &str| Subject {
        topic: text.parse().expect("a name"),
        channel: None,
    };
    for (id, address) in [(1, "10.0.0.1:1"), (2, "10.0.0.1:2"), (3, "10.0.0.2:1")] {
        registry.identify(id, address.to_owned(), identity(1), Instant::ZERO);
    }
    for number in 0..200 {
        let topic = subject(&format!("t{number}"));
        registry.register(1 + number % 2, &topic).expect("room");
    }
    assert_eq!(registry.register(1, &subject("more")), Err(Full::Address));
    assert_eq!(registry.register(3, &subject("more")), Ok(()));
    assert_eq!(
        registry.register(1, &subject("more")),
        Ok(()),
        "it is there"
    );
    registry.disconnect(1);
    assert_eq!(
        registry.register(2, &subject("again")),
        Err(Full::Address),
        "names stay"
    );
    registry.delete_topic("t0");
    assert_eq!(registry.register(2, &subject("again")), Ok(()));
    for id in 2..4 {
        registry.disconnect(id);
    }
    let names: Vec<String> = registry.topics().map(str::to_owned).collect();
    names.iter().for_each(|name| registry.delete_topic(name));
    assert!(registry.addresses.is_empty());
}

#[test]
fn rows_behind_a_row_are_the_rest() {
    let mut registry = Registry::default();
    registry.identify(1, String::from("10.0.0.1:1"), identity(1), Instant::ZERO);
    for (topic, channel) in [("a", "x"), ("a", "y"), ("a-b", "x"), ("b", "z")] {
        let subject = Subject {
            topic: topic.parse().expect("a name"),
            channel: Some(channel.parse().expect("a name")),
        };
        registry.register(1, &subject).expect("room");
    }
    let all: Vec<RowKey> = registry.rows_behind(None).map(|row| row.key).collect();
    assert_eq!(all.len(), 4 + 1 + 3);
    assert!(all.is_sorted());
    for (place, key) in all.iter().enumerate() {
        let rest: Vec<RowKey> = registry.rows_behind(Some(key)).map(|row| row.key).collect();
        assert_eq!(rest, all[place + 1..]);
    }
}
