//! A broker's side against the lookup service's own state machine, in virtual time: what one says,
//! the other knows.

use std::collections::BTreeSet;

use clock::Instant;
use control::lookup::registry::{Registry, RowKey};
use control::lookup::session::Session;
use link::TopicChange;
use proptest::prelude::*;
use wire::TopicName;
use wire::lookup::{Command, Identity, Introduction};

use super::registration::{ANSWER_TIMEOUT, Heard, PING_INTERVAL, Registration, UNANSWERED_MAX};
use super::registrations::Registrations;
use super::{LookupdConfig, are_addresses};
use crate::{Config, ControllerLink};

const INTRODUCTION: &str = r#"{"broadcast_address":"h9","hostname":"m9","http_port":4161,"tcp_port":4160,"version":"1.3.0"}"#;

fn identity() -> Identity {
    Identity {
        broadcast_address: String::from("b1"),
        hostname: String::from("m1"),
        tcp_port: 4150,
        http_port: 4151,
        version: String::from("1.3.0"),
    }
}

fn topic(name: &str) -> TopicName {
    name.parse().expect("valid")
}

/// A lookup service with one connection, which answers at once.
struct Lookup {
    registry: Registry,
    session: Session,
    input: Vec<u8>,
}

impl Lookup {
    fn new() -> Lookup {
        Lookup {
            registry: Registry::default(),
            session: Session::new(1, String::from("10.0.0.1:5000")),
            input: Vec::new(),
        }
    }

    /// Its answers to what came; `output` is empty afterwards.
    fn answer(&mut self, output: &mut Vec<u8>, now: Instant) -> Vec<u8> {
        self.input.append(output);
        let mut answers = Vec::new();
        loop {
            let introduction = INTRODUCTION.as_bytes();
            let turn = self
                .session
                .receive(&self.input, &mut self.registry, introduction, now);
            let Some(turn) = turn else {
                return answers;
            };
            assert_eq!(turn.end, None, "the lookup hangs up");
            self.input.drain(..turn.used);
            answers.extend_from_slice(&turn.answer);
        }
    }

    /// What is registered: topics, and channels with their topics.
    fn knows(&self) -> BTreeSet<String> {
        let rows = self.registry.rows_behind(None);
        rows.filter_map(|row| match row.key {
            RowKey::Channel(topic, channel) => Some(format!("{topic}/{channel}")),
            RowKey::Topic(topic) => Some(topic.to_string()),
            RowKey::Clients => None,
        })
        .collect()
    }
}

/// A broker's connection to a lookup service, both at one time.
struct Pair {
    now: Instant,
    lookup: Lookup,
    registration: Registration,
    output: Vec<u8>,
}

impl Pair {
    /// Connected and introduced.
    fn new(registrations: &Registrations) -> Pair {
        let (now, mut output) = (Instant::ZERO, Vec::new());
        let registration =
            Registration::open(&identity(), registrations.commands(), now, &mut output);
        let mut pair = Pair {
            now,
            lookup: Lookup::new(),
            registration,
            output,
        };
        let heard = pair.exchange();
        assert!(matches!(heard[..], [Heard::Introduction(_)]), "{heard:?}");
        pair
    }

    fn exchange(&mut self) -> Vec<Heard> {
        let answers = self.lookup.answer(&mut self.output, self.now);
        self.registration.receive(&answers).expect("proper answers")
    }

    /// Until nothing is left to be said.
    fn settle(&mut self) {
        loop {
            let ticked = self.registration.tick(self.now, &mut self.output);
            ticked.expect("answers are at once");
            if self.output.is_empty() {
                return;
            }
            assert_eq!(self.exchange(), []);
        }
    }
}

fn created(channel: &str) -> TopicChange {
    TopicChange::ChannelCreated {
        channel: channel.to_owned(),
    }
}

fn registrations_of(topics: usize) -> Registrations {
    let mut registrations = Registrations::default();
    for number in 0..topics {
        let change = registrations.change(&topic(&format!("t{number}")), &created("c"));
        assert!(change.is_some());
    }
    registrations
}

#[test]
fn everything_is_registered_after_the_introduction() {
    let mut registrations = registrations_of(UNANSWERED_MAX * 3);
    registrations.change(&topic("alone"), &TopicChange::TopicCreated);
    let mut pair = Pair::new(&registrations);
    assert!(!pair.registration.takes_changes());
    pair.settle();
    assert!(pair.registration.takes_changes());
    let known = pair.lookup.knows();
    assert_eq!(known.len(), UNANSWERED_MAX * 3 * 2 + 1);
    for name in ["alone", "t7", "t7/c"] {
        assert!(known.contains(name), "{name}");
    }
}

#[test]
fn what_is_unanswered_is_bounded() {
    let mut pair = Pair::new(&registrations_of(UNANSWERED_MAX * 3));
    let ticked = pair.registration.tick(pair.now, &mut pair.output);
    assert_eq!(ticked, Ok(()));
    let said = pair.output.split(|&byte| byte == b'\n').count() - 1;
    assert_eq!(said, UNANSWERED_MAX);
    pair.exchange();
    pair.settle();
    assert_eq!(pair.lookup.knows().len(), UNANSWERED_MAX * 3 * 2);
}

#[test]
fn pings_go_out_whatever_else_is_said() {
    let mut pair = Pair::new(&Registrations::default());
    pair.settle();
    for round in 1..=10 {
        let due = pair.registration.due_at();
        assert_eq!(due, Instant::ZERO + PING_INTERVAL * round);
        // A change shortly before does not stand for a ping.
        let change = Command::Register(wire::lookup::Subject {
            topic: topic(&format!("t{round}")),
            channel: None,
        });
        pair.registration.say(&change, pair.now, &mut pair.output);
        pair.exchange();
        pair.now = due;
        let ticked = pair.registration.tick(due, &mut pair.output);
        assert_eq!((ticked, &pair.output[..]), (Ok(()), &b"PING\n"[..]));
        pair.exchange();
    }
}

#[test]
fn a_lookup_that_does_not_answer_is_left() {
    let mut output = Vec::new();
    let nothing = Registrations::default();
    let mut mute = Registration::open(&identity(), nothing.commands(), Instant::ZERO, &mut output);
    assert_eq!(mute.due_at(), Instant::ZERO + ANSWER_TIMEOUT);
    let shortly_before = Instant::ZERO + ANSWER_TIMEOUT - std::time::Duration::from_nanos(1);
    assert_eq!(mute.tick(shortly_before, &mut output), Ok(()));
    let ended = mute.tick(Instant::ZERO + ANSWER_TIMEOUT, &mut output);
    assert!(ended.is_err_and(|why| why.contains("no answer")));
}

#[test]
fn strangers_on_the_port_are_left() {
    let cases: [&[u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\x02OK",
        b"\0\0\0\x0eE_BAD_PROTOCOL",
        b"\xff\xff\xff\xff",
    ];
    for answer in cases {
        let nothing = Registrations::default();
        let mut output = Vec::new();
        let mut registration =
            Registration::open(&identity(), nothing.commands(), Instant::ZERO, &mut output);
        let heard = registration.receive(answer);
        assert!(heard.is_err(), "{answer:?}: {heard:?}");
    }
}

#[test]
fn an_introduction_may_come_in_pieces_and_refusals_are_heard() {
    let mut output = Vec::new();
    let registrations = registrations_of(1);
    let mut registration = Registration::open(
        &identity(),
        registrations.commands(),
        Instant::ZERO,
        &mut output,
    );
    let answer = wire::lookup::encode_answer(INTRODUCTION.as_bytes());
    let (last, first) = answer.split_last().expect("not empty");
    assert_eq!(registration.receive(first), Ok(Vec::new()));
    let heard = registration.receive(&[*last]);
    let introduction = Introduction::from_json(INTRODUCTION.as_bytes()).expect("whole");
    assert_eq!(heard, Ok(vec![Heard::Introduction(introduction)]));
    assert_eq!(registration.tick(Instant::ZERO, &mut output), Ok(()));
    let refusal = "E_FULL REGISTER too many topics";
    let heard = registration.receive(&wire::lookup::encode_answer(refusal.as_bytes()));
    assert_eq!(heard, Ok(vec![Heard::Refused(String::from(refusal))]));
    // Nothing is asked any more.
    assert!(registration.receive(b"\0\0\0\x02OK").is_err());
}

#[test]
fn addresses_are_hosts_with_ports() {
    let judge = |text: &str| are_addresses(&[text.to_owned()]);
    for good in ["h:4160", "127.0.0.1:1", "[::1]:4160"] {
        assert!(judge(good), "{good}");
    }
    for bad in ["", "h", ":4160", "h:", "h:70000", "h:x"] {
        assert!(!judge(bad), "{bad}");
    }
    assert!(!are_addresses(&vec![String::from("h:1"); 65]));
}

#[test]
fn settings_that_no_lookup_would_take_end_the_start() {
    let with = |list: &[&str]| Config {
        lookupd: LookupdConfig {
            tcp_addresses: list.iter().map(|text| (*text).to_owned()).collect(),
            ..LookupdConfig::default()
        },
        ..Config::default()
    };
    assert!(with(&["h:4160", "i:4160"]).validate().is_ok());
    let obeys = Config {
        controller: Some(ControllerLink::new(
            String::from("h:4170"),
            String::from("b1"),
            link::LinkKey::new([1; 32]),
        )),
        ..with(&["h:4160"])
    };
    let without_http = Config {
        http_address: None,
        ..with(&["h:4160"])
    };
    let cases = [
        (with(&["h"]), "is not a list of 1 to 64 HOST:PORT"),
        (obeys, "leave out one of the two"),
        (without_http, "give an --http-address"),
    ];
    for (config, text) in cases {
        let refused = config.validate().expect_err(text).to_string();
        assert!(refused.contains(text), "{refused}");
        assert!(refused.starts_with("--lookupd-tcp-address"), "{refused}");
    }
}

fn change() -> impl Strategy<Value = TopicChange> {
    let channel = || prop_oneof![Just("c"), Just("d"), Just("e#ephemeral")].prop_map(String::from);
    prop_oneof![
        Just(TopicChange::TopicCreated),
        Just(TopicChange::TopicDeleted),
        Just(TopicChange::TopicPaused),
        Just(TopicChange::TopicEmptied),
        channel().prop_map(|channel| TopicChange::ChannelCreated { channel }),
        channel().prop_map(|channel| TopicChange::ChannelDeleted { channel }),
        channel().prop_map(|channel| TopicChange::ChannelPaused { channel }),
    ]
}

proptest! {
    /// A lookup that heard of every change knows what one knows that was told everything.
    #[test]
    fn changes_come_to_the_same_as_everything(changes in proptest::collection::vec((0..3_u8, change()), 0..60)) {
        let mut registrations = Registrations::default();
        let mut pair = Pair::new(&registrations);
        pair.settle();
        for (number, change) in &changes {
            let command = registrations.change(&topic(&format!("t{number}")), change);
            // Said again it says nothing.
            prop_assert_eq!(registrations.change(&topic(&format!("t{number}")), change), None);
            if let Some(command) = command {
                pair.registration.say(&command, pair.now, &mut pair.output);
                prop_assert_eq!(pair.exchange(), []);
            }
        }
        let mut other = Pair::new(&registrations);
        other.settle();
        prop_assert_eq!(pair.lookup.knows(), other.lookup.knows());
    }
}
