//! Whom a broker tells what.

use std::time::Duration;

use clock::stream;
use wire::announce::{InstanceId, TopicId};

use super::*;
use crate::DirectoryConfig;

const BROKER: InstanceId = InstanceId(1);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn topic(name: &str) -> TopicName {
    name.parse().expect("valid")
}

fn address(instance: u64) -> SocketAddr {
    ([10, 0, 0, instance as u8], 4177).into()
}

/// What instance `instance` says: `+t` subscribes t, `-t` publishes it.
fn said(instance: u64, sequence: u32, topics: &[&str]) -> Announcement {
    let entry = |text: &&str| Entry {
        role: match text.as_bytes()[0] {
            b'+' => Role::Subscriber,
            _ => Role::Publisher,
        },
        id: TopicId(7),
        topic: topic(&text[1..]),
        held: None,
    };
    Announcement {
        instance: InstanceId(instance),
        sequence,
        is_proxy: false,
        is_leaving: false,
        expiry_ms: 3000,
        data: ([0, 0, 0, 0], 4000).into(),
        udp: false,
        entries: topics.iter().map(entry).collect(),
    }
}

struct Broker {
    proxy: Proxy,
    directory: Directory,
    names: Names,
    now: Instant,
}

impl Broker {
    fn new() -> Broker {
        let speaker = Speaker::new(BROKER, ([0, 0, 0, 0], 4150).into());
        let config = AnnouncerConfig::default();
        Broker {
            proxy: Proxy::new(speaker, config, stream(1, "proxy"), at(0)),
            directory: Directory::new(BROKER, DirectoryConfig::default()),
            names: Names::new(100),
            now: at(0),
        }
    }

    fn hear(&mut self, said: &Announcement) {
        let from = address(said.instance.0);
        let change = self.directory.hear(said, from, self.now);
        if !change.expect("newer").is_empty() {
            self.proxy.changed(self.now);
        }
    }

    /// Rounds until nothing is due for a while.
    fn settle(&mut self) {
        while self.proxy.next_due() < self.now + Duration::from_millis(500) {
            self.told("");
        }
    }

    /// Who is told what, as `instance: what`; `!` before what is taken back.
    fn told(&mut self, takes: &str) -> Vec<String> {
        self.now = self.proxy.next_due();
        let takes = |topic: &TopicName| topic.as_str() == takes;
        let relayed = self
            .proxy
            .due(&self.directory, &mut self.names, takes, self.now)
            .expect("due");
        let told = relayed.iter().map(|relayed| {
            let SocketAddr::V4(to) = relayed.to else {
                panic!("an address of these tests");
            };
            let words = relayed.announcements.iter().flat_map(|said| {
                assert!(said.is_proxy && said.instance == BROKER);
                let leaving = if said.is_leaving { "!" } else { "" };
                said.entries.iter().map(move |entry| {
                    assert!(entry.id.is_hashed());
                    let sign = match entry.role {
                        Role::Subscriber => '+',
                        Role::Publisher => '-',
                    };
                    format!(" {leaving}{sign}{}", entry.topic)
                })
            });
            format!("{}:{}", to.ip().octets()[3], words.collect::<String>())
        });
        told.collect()
    }
}

#[test]
fn each_side_hears_of_the_other_once_however_many_there_are() {
    type Row<'a> = (&'a str, &'a [(u64, &'a [&'a str])], &'a str, &'a [&'a str]);
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        ("nobody",              &[],                                     "",  &[]),
        ("only a publisher",    &[(2, &["-t"])],                         "",  &["2:"]),
        ("the broker takes it", &[(2, &["-t", "-u"])],                   "t", &["2: +t"]),
        ("only a subscriber",   &[(2, &["+t"])],                         "",  &["2: -t"]),
        ("both sides",          &[(2, &["-t"]), (3, &["+t"])],           "",  &["2: +t", "3: -t"]),
        ("many of each",        &[(2, &["-t"]), (3, &["-t"]), (4, &["+t"]), (5, &["+t"])], "",
                                &["2: +t", "3: +t", "4: -t", "5: -t"]),
        ("both at once",        &[(2, &["-t", "+t"])],                   "",  &["2: -t +t"]),
        ("different topics",    &[(2, &["-t"]), (3, &["+u"])],           "",  &["2:", "3: -u"]),
    ];
    for (name, heard, takes, expected) in rows {
        let mut broker = Broker::new();
        for &(instance, topics) in *heard {
            broker.hear(&said(instance, 1, topics));
        }
        assert_eq!(broker.told(takes), *expected, "{name}");
    }
}

#[test]
fn in_between_only_those_are_told_whom_it_concerns() {
    let mut broker = Broker::new();
    broker.hear(&said(2, 1, &["-t"]));
    broker.hear(&said(3, 1, &["-u"]));
    assert_eq!(broker.told(""), ["2:", "3:"]);
    broker.settle();
    // A subscriber joins: it and the publisher of its topic hear of each other soon.
    broker.hear(&said(4, 1, &["+t"]));
    let joined_at = broker.now;
    assert_eq!(broker.told(""), ["2: +t", "4: -t"]);
    assert!(broker.now - joined_at <= Duration::from_millis(100));
    // It gives the topic up: the publisher is told at once.
    broker.hear(&Announcement {
        is_leaving: true,
        ..said(4, 2, &["+t"])
    });
    assert_eq!(broker.told(""), ["2: !+t", "4: !-t"]);
    // The regular round tells everybody.
    assert_eq!(broker.told(""), ["2:", "3:", "4:"]);
}

#[test]
fn brokers_are_nothing_to_brokers() {
    let mut broker = Broker::new();
    broker.hear(&said(2, 1, &["-t"]));
    let other = Announcement {
        is_proxy: true,
        data: address(9),
        ..said(9, 1, &["+t", "-t"])
    };
    broker.hear(&other);
    assert_eq!(broker.told(""), ["2:"]);
}

#[test]
fn a_broker_that_leaves_tells_everybody() {
    let mut broker = Broker::new();
    broker.hear(&said(2, 1, &["-t"]));
    broker.hear(&said(3, 1, &["+t"]));
    broker.told("");
    let leaving = broker.proxy.leave();
    let to: Vec<SocketAddr> = leaving.iter().map(|relayed| relayed.to).collect();
    assert_eq!(to, [address(2), address(3)]);
    for relayed in leaving {
        let [said] = &relayed.announcements[..] else {
            panic!("one datagram each");
        };
        assert!(said.is_leaving && said.entries.is_empty());
    }
}
