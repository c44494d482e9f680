//! What is believed, refused, forgotten, and counted.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::announce::{Entry, Held, Key};

use super::*;

const OWN: InstanceId = InstanceId(1);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn topic(name: &str) -> TopicName {
    name.parse().expect("valid")
}

fn address(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

fn entry(role: Role, name: &str) -> Entry {
    Entry {
        role,
        id: TopicId(7),
        topic: topic(name),
        held: None,
    }
}

/// An endpoint that takes data at the port of its instance and subscribes `names`.
fn subscriber(instance: u64, sequence: u32, names: &[&str]) -> Announcement {
    Announcement {
        instance: InstanceId(instance),
        sequence,
        is_proxy: false,
        is_leaving: false,
        expiry_ms: 3000,
        data: ([0, 0, 0, 0], 4000 + instance as u16).into(),
        udp: false,
        entries: names
            .iter()
            .map(|name| entry(Role::Subscriber, name))
            .collect(),
    }
}

fn directory() -> Directory {
    Directory::new(OWN, DirectoryConfig::default())
}

fn instances(endpoints: impl Iterator<Item = Endpoint>) -> Vec<u64> {
    endpoints.map(|endpoint| endpoint.instance.0).collect()
}

fn subscribers(directory: &Directory, name: &str) -> Vec<u64> {
    instances(directory.subscribers_of(&topic(name)))
}

#[test]
fn what_was_heard_is_believed_for_as_long_as_it_says() {
    let mut directory = directory();
    let from = address(9);
    let change = directory
        .hear(&subscriber(5, 1, &["t"]), from, at(0))
        .expect("new");
    assert!(change.is_new && change.publishers.is_empty() && change.gone.is_empty());
    assert_eq!(change.subscribers, [topic("t")].into());
    let found: Vec<Endpoint> = directory.subscribers_of(&topic("t")).collect();
    let expected = Endpoint {
        instance: InstanceId(5),
        // 0.0.0.0 is where the datagram came from.
        data: address(4005),
        udp: false,
        is_proxy: false,
        id: TopicId(7),
        announces_from: from,
    };
    assert_eq!(found, [expected]);
    assert!(instances(directory.publishers_of(&topic("t"))).is_empty());
    // Said again, nothing changes but its end.
    let again = directory.hear(&subscriber(5, 2, &["t"]), from, at(1000));
    assert_eq!(again, Ok(Change::default()));
    assert_eq!(directory.next_expiry(), Some(at(4000)));
    assert!(directory.expire(at(3999)).is_empty());
    let change = directory.expire(at(4000));
    assert_eq!(change.subscribers, [topic("t")].into());
    assert_eq!(change.gone, [InstanceId(5)]);
    assert!(subscribers(&directory, "t").is_empty());
    assert_eq!((directory.instances(), directory.entries()), (0, 0));
    assert!(!directory.knows(&topic("t")) && !directory.is_there(InstanceId(5)));
    assert_eq!(directory.next_expiry(), None);
    assert_eq!(directory.counters().expired, 1);
}

#[test]
fn a_topic_that_is_not_said_again_is_forgotten_alone() {
    let mut directory = directory();
    let heard = [(0, 1, &["t", "u"][..]), (1000, 2, &["t"])];
    for (ms, sequence, names) in heard {
        let said = subscriber(5, sequence, names);
        directory.hear(&said, address(9), at(ms)).expect("newer");
    }
    assert_eq!(directory.next_expiry(), Some(at(3000)));
    let change = directory.expire(at(3000));
    assert_eq!(change.subscribers, [topic("u")].into());
    assert!(change.gone.is_empty());
    assert_eq!(subscribers(&directory, "t"), [5]);
    assert_eq!(directory.next_expiry(), Some(at(4000)));
}

#[test]
fn changes_name_the_topics_that_are_to_be_looked_at() {
    let held = Held {
        rate: 1.0,
        burst: 1.0,
        publishers: 1,
        members: 0,
    };
    let base = subscriber(5, 1, &["t"]);
    let publishes = |held| Entry {
        held,
        ..entry(Role::Publisher, "t")
    };
    let with = |entries: Vec<Entry>| Announcement {
        entries,
        ..base.clone()
    };
    #[rustfmt::skip]
    let rows = [
        ("another port", Announcement { data: address(1), ..base.clone() }, true, false),
        ("by UDP",       Announcement { udp: true, ..base.clone() },        true, false),
        ("a broker",     Announcement { is_proxy: true, ..base.clone() },   true, false),
        ("another id",   with(vec![Entry { id: TopicId(8), ..entry(Role::Subscriber, "t") }]), true, false),
        ("publishes",    with(vec![publishes(None)]),                       false, true),
        ("holds",        with(vec![publishes(Some(held))]),                 false, true),
        ("nothing new",  base.clone(),                                      false, false),
    ];
    for (name, said, subscribers, publishers) in rows {
        let mut directory = directory();
        directory.hear(&base, address(9), at(0)).expect("new");
        let said = Announcement {
            sequence: 2,
            ..said
        };
        let change = directory.hear(&said, address(9), at(1)).expect("newer");
        assert_eq!(!change.subscribers.is_empty(), subscribers, "{name}");
        assert_eq!(!change.publishers.is_empty(), publishers, "{name}");
        assert!(!change.is_new && change.gone.is_empty(), "{name}");
        let shares = directory.peers_of(&topic("t")).count();
        assert_eq!(shares, usize::from(name == "holds"), "{name}");
    }
}

#[test]
fn replays_and_ones_own_words_are_refused() {
    let mut directory = directory();
    let from = address(9);
    let said = subscriber(5, 10, &["t"]);
    directory.hear(&said, from, at(0)).expect("new");
    for sequence in [10, 9, 1, 10u32.wrapping_sub(1 << 31)] {
        let replayed = Refused::Replayed {
            instance: InstanceId(5),
            sequence,
            latest: 10,
        };
        let said = subscriber(5, sequence, &["t", "u"]);
        assert_eq!(directory.hear(&said, from, at(2000)), Err(replayed));
    }
    assert_eq!(directory.next_expiry(), Some(at(3000)), "nothing prolonged");
    assert!(subscribers(&directory, "u").is_empty());
    // Nor do they bring back one that has expired, or one that has left.
    directory.expire(at(3000));
    assert!(directory.hear(&said, from, at(3000)).is_err());
    directory
        .hear(&subscriber(5, 11, &["t"]), from, at(3000))
        .expect("newer");
    let leaves = Announcement {
        is_leaving: true,
        ..subscriber(5, 13, &[])
    };
    directory.hear(&leaves, from, at(3001)).expect("newer");
    let overtaken = subscriber(5, 12, &["t"]);
    assert!(directory.hear(&overtaken, from, at(3002)).is_err());
    assert_eq!(directory.instances(), 0);
    let own = subscriber(OWN.0, 1, &["t"]);
    assert_eq!(directory.hear(&own, from, at(0)), Err(Refused::Own));
    let counters = directory.counters();
    assert_eq!((counters.replayed, counters.own, counters.left), (6, 1, 1));
    assert_eq!(counters.received(), 10);
}

#[test]
fn numbers_go_round() {
    let mut directory = directory();
    for sequence in [u32::MAX - 1, u32::MAX, 0, 1, 1 << 30] {
        let said = subscriber(5, sequence, &["t"]);
        directory.hear(&said, address(9), at(0)).expect("newer");
    }
    let said = subscriber(5, u32::MAX, &["t"]);
    assert!(directory.hear(&said, address(9), at(0)).is_err());
}

#[test]
fn a_restarted_endpoint_takes_the_place_of_its_former_life() {
    let mut directory = directory();
    let from = address(9);
    let former = subscriber(5, 10, &["t", "u"]);
    directory.hear(&former, from, at(0)).expect("new");
    let latter = Announcement {
        data: former.data,
        ..subscriber(6, 1, &["t"])
    };
    let change = directory.hear(&latter, from, at(100)).expect("new");
    assert!(change.is_new);
    assert_eq!(change.gone, [InstanceId(5)]);
    assert_eq!(change.subscribers, [topic("t"), topic("u")].into());
    assert_eq!(subscribers(&directory, "t"), [6]);
    assert!(subscribers(&directory, "u").is_empty());
    // What the former one said last arrives late.
    assert!(directory.hear(&former, from, at(101)).is_err());
    assert_eq!(subscribers(&directory, "t"), [6]);
    assert_eq!(directory.counters().replaced, 1);
    // Who takes no data has no address that another could take over.
    for instance in [7, 8] {
        let publisher = Announcement {
            data: address(0),
            entries: vec![entry(Role::Publisher, "t")],
            ..subscriber(instance, 1, &[])
        };
        directory.hear(&publisher, from, at(102)).expect("new");
    }
    assert_eq!(instances(directory.publishers_of(&topic("t"))), [7, 8]);
}

#[test]
fn leaving_counts_at_once_for_one_topic_or_for_all() {
    let mut directory = directory();
    let from = address(9);
    directory
        .hear(&subscriber(5, 1, &["t", "u"]), from, at(0))
        .expect("new");
    let leaves = |sequence, names| Announcement {
        is_leaving: true,
        ..subscriber(5, sequence, names)
    };
    let change = directory.hear(&leaves(2, &["u", "v"]), from, at(1));
    let change = change.expect("newer");
    assert_eq!(change.subscribers, [topic("u")].into());
    assert!(change.gone.is_empty());
    assert_eq!(subscribers(&directory, "t"), [5]);
    let change = directory.hear(&leaves(3, &[]), from, at(2)).expect("newer");
    assert_eq!(change.gone, [InstanceId(5)]);
    assert_eq!(directory.entries(), 0);
    // It may come again.
    directory
        .hear(&subscriber(5, 4, &["t"]), from, at(3))
        .expect("newer");
    assert_eq!(subscribers(&directory, "t"), [5]);
}

#[test]
fn where_there_is_no_room_the_expired_go_first() {
    let config = DirectoryConfig {
        instances_max: 2,
        entries_per_instance_max: 2,
        entries_max: 3,
    };
    let mut directory = Directory::new(OWN, config);
    let from = address(9);
    let three = subscriber(5, 1, &["a", "b", "c"]);
    directory.hear(&three, from, at(0)).expect("new");
    assert_eq!(directory.entries(), 2);
    let two = subscriber(6, 1, &["a", "b"]);
    directory.hear(&two, from, at(1000)).expect("new");
    assert_eq!(directory.entries(), 3);
    assert_eq!(directory.counters().entries_refused, 2);
    let third = subscriber(7, 1, &["a"]);
    let full = Refused::Full { instances_max: 2 };
    assert_eq!(directory.hear(&third, from, at(2999)), Err(full));
    assert_eq!(directory.counters().refused_full, 1);
    // By now the first one has expired, which is told with what took its place.
    let change = directory.hear(&third, from, at(3000)).expect("room");
    assert_eq!(change.gone, [InstanceId(5)]);
    assert_eq!(change.subscribers, [topic("a"), topic("b")].into());
    assert_eq!(subscribers(&directory, "a"), [6, 7]);
}

#[test]
fn what_expired_in_vain_is_told_later() {
    let config = DirectoryConfig {
        instances_max: 1,
        ..DirectoryConfig::default()
    };
    let mut directory = Directory::new(OWN, config);
    let from = address(9);
    let lasting = Announcement {
        expiry_ms: 10_000,
        ..subscriber(5, 2, &["t"])
    };
    directory
        .hear(&subscriber(5, 1, &["u"]), from, at(0))
        .expect("new");
    directory.hear(&lasting, from, at(1)).expect("newer");
    let refused = directory.hear(&subscriber(6, 1, &["t"]), from, at(5000));
    assert!(refused.is_err());
    assert_eq!(directory.next_expiry(), Some(Instant::ZERO));
    assert_eq!(directory.expire(at(5000)).subscribers, [topic("u")].into());
    assert_eq!(directory.next_expiry(), Some(at(10_001)));
}

#[test]
fn the_memory_of_departed_instances_is_bounded() {
    let config = DirectoryConfig {
        instances_max: 2,
        ..DirectoryConfig::default()
    };
    let mut directory = Directory::new(OWN, config);
    for instance in 5..8 {
        let said = subscriber(instance, 1, &["t"]);
        directory.hear(&said, address(9), at(0)).expect("room");
        directory.expire(at(3000));
    }
    // Two are remembered; the first can be replayed.
    assert!(
        directory
            .hear(&subscriber(7, 1, &["t"]), address(9), at(3000))
            .is_err()
    );
    assert!(
        directory
            .hear(&subscriber(5, 1, &["t"]), address(9), at(3000))
            .is_ok()
    );
}

#[test]
fn datagrams_that_cannot_be_believed_are_counted_by_kind() {
    let mut directory = directory();
    let key = Key::from_text("sesame");
    let mut plain = Vec::new();
    subscriber(5, 1, &["t"]).encode(None, &mut plain);
    let mut forged = Vec::new();
    subscriber(5, 1, &["t"]).encode(Some(&Key::from_text("barley")), &mut forged);
    let rows: &[(&[u8], Option<&Key>)] = &[
        (&plain, Some(&key)),
        (&forged, Some(&key)),
        (&forged, None),
        (&plain[..20], None),
        (b"GET / HTTP/1.1", None),
    ];
    for &(bytes, key) in rows {
        let error = Announcement::decode(bytes, key).expect_err("spoilt");
        directory.note_undecodable(&error);
    }
    let counters = directory.counters();
    let found = (counters.forged, counters.truncated, counters.malformed);
    assert_eq!(found, (3, 1, 1));
    assert_eq!(counters.received(), 5);
    assert_eq!(directory.instances(), 0);
}

#[derive(Clone, Debug)]
struct Word {
    instance: u64,
    sequence: u32,
    port: u16,
    names: Vec<usize>,
    is_leaving: bool,
    publishes: bool,
    expiry_ms: u32,
    after_ms: u64,
}

fn words() -> impl Strategy<Value = Vec<Word>> {
    let word = (
        (1..8u64, 0..40u32, 4000..4006u16),
        vec(0..6usize, 0..4),
        (prop::bool::weighted(0.1), any::<bool>()),
        (1..50u32, 0..30u64),
    );
    let word = word.prop_map(|((instance, sequence, port), names, flags, times)| Word {
        instance,
        sequence,
        port,
        names,
        is_leaving: flags.0,
        publishes: flags.1,
        expiry_ms: times.0,
        after_ms: times.1,
    });
    vec(word, 0..80)
}

proptest! {
    /// Indices agree with each other, bounds hold, every datagram is counted once, and nothing outlives its time.
    #[test]
    fn stays_consistent_whatever_is_heard(words in words()) {
        const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        let config = DirectoryConfig { instances_max: 4, entries_per_instance_max: 3, entries_max: 8 };
        let mut directory = Directory::new(OWN, config);
        let (mut now, mut heard) = (at(0), 0);
        for word in words {
            now += Duration::from_millis(word.after_ms);
            let role = if word.publishes { Role::Publisher } else { Role::Subscriber };
            let names: BTreeSet<usize> = word.names.into_iter().collect();
            let said = Announcement {
                is_leaving: word.is_leaving,
                expiry_ms: word.expiry_ms,
                data: address(word.port),
                entries: names.into_iter().map(|name| entry(role, NAMES[name])).collect(),
                ..subscriber(word.instance, word.sequence, &[])
            };
            let _ = directory.hear(&said, address(9), now);
            heard += 1;
            prop_assert_eq!(directory.counters().received(), heard);
            directory.expire(now);
            check(&directory, now)?;
        }
        directory.expire(Instant::MAX);
        prop_assert_eq!((directory.instances(), directory.entries()), (0, 0));
        prop_assert_eq!(directory.next_expiry(), None);
        prop_assert!(directory.by_topic.is_empty() && directory.by_data.is_empty());
    }
}

fn check(directory: &Directory, now: Instant) -> Result<(), TestCaseError> {
    let mut entries = 0;
    for (id, instance) in &directory.instances {
        prop_assert!(instance.next_expiry() > now);
        prop_assert!(instance.entries() <= directory.config.entries_per_instance_max);
        prop_assert!(directory.deadlines.contains(&(instance.deadline, *id)));
        prop_assert!(instance.deadline <= instance.next_expiry());
        prop_assert_eq!(directory.by_data.get(&instance.data), Some(id));
        for (role, topic) in instance.topics() {
            entries += 1;
            prop_assert!(directory.by_topic[topic].of(role).contains(id));
        }
    }
    let listed: usize = directory
        .by_topic
        .values()
        .map(|users| users.publishers.len() + users.subscribers.len())
        .sum();
    prop_assert_eq!((entries, listed), (directory.entries, directory.entries));
    prop_assert_eq!(directory.deadlines.len(), directory.instances.len());
    prop_assert_eq!(directory.by_data.len(), directory.instances.len());
    prop_assert!(directory.instances.len() <= directory.config.instances_max);
    prop_assert!(entries <= directory.config.entries_max);
    Ok(())
}
