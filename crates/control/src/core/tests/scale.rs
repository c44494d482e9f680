//! The cost of operations: counted, not timed.

use std::time::Duration;

use clock::Instant;
use limit::Limit;
use link::{
    Attachment, BrokerReport, ChannelState, Declaration, Door, Hello, Identity, Present, ToBroker,
    ToController, TopicChange, TopicReport, TopicState,
};

use super::cluster::HOST;
use crate::core::{Core, Declared, Effect, Probe, ProbeAnswer, Settings, Work};
use crate::store::MemoryStore;
use crate::view::{Contract, PublisherSpec, TopicSpec};

struct Lone {
    core: Core,
    now: Instant,
    reports: u64,
}

impl Lone {
    /// A controller with one broker.
    fn new() -> Lone {
        let now = Instant::from_nanos(1_000_000_000);
        let core = Core::restore(Settings::default(), &MemoryStore::default(), now);
        let mut core = core.expect("nothing is kept");
        greet(&mut core, 1, &hello(), now);
        let inventory = ToController::Inventory {
            topics: Vec::new(),
            is_last: true,
        };
        core.heard(0, inventory, now);
        Lone {
            core,
            now,
            reports: 0,
        }
    }

    /// The same with limited topics `t0`, `t1` and so on.
    fn with_limited(topics: usize) -> Lone {
        let mut lone = Lone::new();
        let spec = TopicSpec::of_limit(Limit::messages(100.0, 10.0).expect("good"));
        for number in 0..topics {
            let name = format!("t{number}");
            let put = lone.core.put_topic(&name, spec.clone(), lone.now);
            put.expect("good");
        }
        lone
    }

    fn report(&mut self, topics: Vec<TopicReport>, attachments: Vec<Attachment>) -> Vec<Effect> {
        self.reports += 1;
        let report = BrokerReport {
            number: self.reports,
            seconds: 1.0,
            topics,
            attachments,
            ..BrokerReport::default()
        };
        self.core.heard(0, ToController::Report(report), self.now);
        let _ = self.core.take_changes();
        self.core.take_effects()
    }

    fn tick(&mut self) {
        self.now += Duration::from_millis(50);
        self.core.tick(self.now);
    }

    /// What `act` has the core look at.
    fn work(&mut self, act: impl FnOnce(&mut Lone)) -> Work {
        let before = self.core.work();
        act(self);
        let after = self.core.work();
        Work {
            publishers: after.publishers - before.publishers,
            topics: after.topics - before.topics,
            reported: after.reported - before.reported,
        }
    }
}

/// A broker says hello and answers where it says it is.
fn greet(core: &mut Core, link: u64, hello: &Hello, now: Instant) -> u32 {
    let number = core.hello((link, HOST), hello, now);
    let number = number.expect("a good hello");
    let present = Present {
        broker: hello.broker.clone(),
        identity: hello.identity,
        life: core.brokers[number].life,
    };
    let probe = probe_of(core, number);
    core.probed(&probe, &ProbeAnswer::Present(present), now);
    number
}

fn probe_of(core: &Core, number: u32) -> Probe {
    let broker = &core.brokers[number];
    Probe {
        broker: number,
        life: broker.life,
        door: Door::Clients,
        address: broker.tcp_address.clone(),
        is_known: false,
    }
}

fn hello() -> Hello {
    Hello {
        broker: String::from("b1"),
        identity: Identity([1; 16]),
        life: 0,
        tcp_address: String::from("10.0.0.1:4150"),
        http_address: None,
        gossip_address: None,
        mcap: Some(1e9),
        model: None,
    }
}

fn spec(number: usize) -> PublisherSpec {
    PublisherSpec {
        id: format!("p{number}"),
        rate: 1.0,
        batch: 1,
        group: Some(format!("g{}", number % 10)),
    }
}

fn declared(number: usize) -> Attachment {
    let PublisherSpec {
        id, group, batch, ..
    } = spec(number);
    Attachment {
        publisher: Declaration {
            id,
            topic: String::from("t"),
            group,
            rate: Some(1.0),
            batch,
        },
        attached: true,
        refused: None,
    }
}

/// Publishers looked at for a hundred that declare themselves one by one where there are so many already.
fn announcing(there: usize, limit: Option<Limit>) -> u64 {
    let mut lone = Lone::new();
    let topic = TopicSpec {
        contract: Contract {
            limit,
            ..Contract::default()
        },
        ..TopicSpec::default()
    };
    lone.core.put_topic("t", topic, lone.now).expect("good");
    let specs = (0..there).map(spec).collect();
    lone.core
        .put_publishers("t", specs, lone.now)
        .expect("good");
    lone.tick();
    let work = lone.work(|lone| {
        for number in there..there + 50 {
            lone.report(Vec::new(), vec![declared(number)]);
            lone.tick();
        }
        for number in there + 50..there + 100 {
            let specs = vec![spec(number)];
            lone.core
                .put_publishers("t", specs, lone.now)
                .expect("good");
        }
    });
    let view = lone.core.topic_view("t").expect("declared");
    assert_eq!((view.publishers, view.unplaced), (there + 100, 0));
    work.publishers
}

#[test]
fn announcing_costs_the_same_however_many_there_are() {
    for limit in [None, Some(Limit::messages(1e6, 1e4).expect("good"))] {
        let (few, many) = (announcing(100, limit), announcing(10_000, limit));
        assert_eq!(few, many);
        assert!(
            few <= 200,
            "{few}: the newcomer, and the broker that carries the topic"
        );
    }
}

#[test]
fn publishers_for_whom_there_is_no_room_do_not_make_others_wait() {
    let mut core = Core::new(Settings::default(), 1, Instant::ZERO);
    let declared = 20_000;
    for number in 0..declared {
        core.put_publishers("t", vec![spec(number)], Instant::ZERO)
            .expect("good");
    }
    let looked_at = core.work().publishers;
    // Up to 1,024 all are tried with each; then whenever they have doubled.
    let first = 1024 * 1025 / 2;
    assert!(looked_at < first + 4 * declared as u64, "{looked_at}");
}

/// What ten seconds at rest have the core look at.
fn rest(topics: usize) -> Work {
    let mut lone = Lone::with_limited(topics);
    for number in 0..topics {
        let (name, publisher) = (format!("t{number}"), spec(number));
        lone.core
            .put_publishers(&name, vec![publisher], lone.now)
            .expect("good");
    }
    let mut said: Vec<TopicReport> = (0..topics)
        .map(|number| TopicReport {
            topic: format!("t{number}"),
            is_limited: true,
            ..TopicReport::default()
        })
        .collect();
    for _ in 0..30 {
        let mut effects = lone.report(said.clone(), Vec::new());
        (0..20).for_each(|_| lone.tick());
        effects.extend(lone.core.take_effects());
        let grants = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send(_, word) => match *word {
                ToBroker::Grant { topic, grant } => Some((topic, grant)),
                _ => None,
            },
            _ => None,
        });
        for (topic, grant) in grants {
            let number: usize = topic[1..].parse().expect("a number");
            said[number].held = grant.share;
            said[number].confirmed = (grant.epoch, grant.seq);
        }
    }
    assert!(said.iter().all(|said| said.held.is_some()));
    lone.report(Vec::new(), Vec::new());
    (0..40).for_each(|_| lone.tick());
    lone.work(|lone| {
        for _ in 0..10 {
            lone.report(Vec::new(), Vec::new());
            (0..20).for_each(|_| lone.tick());
        }
    })
}

#[test]
fn topics_at_rest_are_not_looked_at() {
    assert_eq!(rest(100), Work::default());
    assert_eq!(rest(1000), Work::default());
}

#[test]
fn the_death_of_a_broker_is_worked_off_in_parts() {
    let mut lone = Lone::with_limited(3000);
    lone.core.link_lost(1, lone.now);
    let most = (0..100).map(|_| lone.work(Lone::tick).topics).max();
    // A tick begins with a part of shares and a part of all, and another of each follows.
    assert!(most.is_some_and(|most| most <= 4 * 100), "{most:?}");
}

#[test]
fn a_report_costs_what_it_changes() {
    for topics in [300, 3000] {
        let mut lone = Lone::with_limited(topics);
        let said = |number: usize| TopicReport {
            topic: format!("t{number}"),
            is_limited: true,
            ..TopicReport::default()
        };
        lone.report((0..topics).map(said).collect(), Vec::new());
        (0..400).for_each(|_| lone.tick());
        let _ = lone.core.take_effects();
        let mut sent = 0;
        let work = lone.work(|lone| {
            for _ in 0..10 {
                let changed = vec![said(7), said(8)];
                sent += lone.report(changed, Vec::new()).len();
                (0..20).for_each(|_| lone.tick());
            }
        });
        let two_each = Work {
            reported: 20,
            ..Work::default()
        };
        assert_eq!(work, two_each, "{topics} topics");
        assert!(sent <= 20, "{sent}");
    }
}

#[test]
fn a_report_on_many_topics_is_heard_in_parts() {
    let topics = 2000;
    let mut lone = Lone::with_limited(topics);
    let said = |number: usize| TopicReport {
        topic: format!("t{number}"),
        messages: 1,
        ..TopicReport::default()
    };
    let all: Vec<TopicReport> = (0..topics).map(said).collect();
    let mut most = 0;
    let work = lone.work(|lone| {
        most = lone
            .work(|lone| drop(lone.report(all, Vec::new())))
            .reported;
        while lone.core.is_busy() {
            let part = lone.work(|lone| lone.core.go_on(lone.now));
            most = most.max(part.reported);
        }
    });
    assert_eq!((work.reported, most), (topics as u64, 100));
}

#[test]
fn a_long_list_of_publishers_is_taken_and_removed_in_parts() {
    let mut lone = Lone::new();
    let declared = 20_000;
    let list = Declared::new((0..declared).map(spec).collect()).expect("good");
    let number = lone
        .core
        .declare("t", list, lone.now)
        .expect("there is room");
    let (mut most, mut is_taken) = (0, false);
    loop {
        most = most.max(lone.core.take_changes().len());
        let effects = lone.core.take_effects();
        let is_told = |effect: &Effect| matches!(effect, Effect::Declared(of) if *of == number);
        is_taken |= effects.iter().any(is_told);
        if !lone.core.is_busy() {
            break;
        }
        assert!(!is_taken, "told before all were taken");
        lone.core.go_on(lone.now);
    }
    assert!(is_taken);
    let view = lone.core.topic_view("t").expect("declared");
    assert_eq!((view.publishers, view.unplaced), (declared, 0));
    lone.core.delete_topic("t", lone.now).expect("known");
    loop {
        most = most.max(lone.core.take_changes().len());
        if !lone.core.is_busy() {
            break;
        }
        lone.core.go_on(lone.now);
    }
    assert!(most <= 4 * 1000 + 10, "{most}");
}

#[test]
fn a_broker_with_many_topics_joins_in_parts() {
    let (topics, mut most) = (5000, 0);
    let mut lone = Lone::with_limited(topics);
    let _ = (lone.core.take_effects(), lone.core.take_changes());
    let hello = Hello {
        broker: String::from("b2"),
        ..hello()
    };
    let number = greet(&mut lone.core, 2, &hello, lone.now);
    let state = |number| TopicState {
        topic: format!("t{number}"),
        is_paused: false,
        channels: vec![ChannelState {
            channel: String::from("c"),
            is_paused: false,
        }],
    };
    let inventory = ToController::Inventory {
        topics: (0..topics).map(state).collect(),
        is_last: true,
    };
    let mut words = Vec::new();
    let mut take = |core: &mut Core| {
        let effects = core.take_effects();
        most = most.max(effects.len()).max(core.take_changes().len());
        words.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Send(to, word) if to == number => Some(*word),
            _ => None,
        }));
    };
    take(&mut lone.core);
    lone.core.heard(number, inventory, lone.now);
    take(&mut lone.core);
    // Deleted elsewhere while what the broker has is taken over, on either side of where that has come.
    for name in ["t0", "t999"] {
        let deleted = TopicChange::TopicDeleted;
        let changed = lone.core.change_topic(name, &deleted, lone.now);
        changed.expect("a name");
    }
    let mut parts = 0;
    while lone.core.is_busy() {
        lone.core.go_on(lone.now);
        take(&mut lone.core);
        parts += 1;
    }
    assert!(parts >= 20 && most < 1200, "{parts} parts, {most} at once");
    let place = |is_meant: &dyn Fn(&ToBroker) -> bool| words.iter().rposition(is_meant);
    let last_contract = place(&|word| matches!(word, ToBroker::Contract { .. }));
    let complete = place(&|word| *word == ToBroker::Complete);
    assert_eq!(complete, Some(words.len() - 1));
    let first_topic = words
        .iter()
        .position(|word| matches!(word, ToBroker::Topic { .. }));
    assert!(last_contract < first_topic && first_topic.is_some());
    let told = |word: &&ToBroker| matches!(word, ToBroker::Topic { .. });
    assert_eq!(words.iter().filter(told).count(), topics - 2);
    for name in ["t0", "t999"] {
        let is_deletion = |word: &&ToBroker| matches!(word, ToBroker::Change { topic, change: TopicChange::TopicDeleted } if topic == name);
        assert_eq!(words.iter().filter(is_deletion).count(), 1, "{name}");
        assert!(lone.core.channel_views(name).is_err(), "{name} is gone");
    }
}

#[test]
fn publishers_of_many_topics_are_placed_in_parts() {
    let mut lone = Lone::new();
    lone.core.link_lost(1, lone.now);
    let probe = probe_of(&lone.core, 0);
    lone.core.probed(&probe, &ProbeAnswer::Refused, lone.now);
    let topics = 3000;
    for number in 0..topics {
        let (name, publisher) = (format!("t{number}"), vec![spec(number)]);
        lone.core
            .put_publishers(&name, publisher, lone.now)
            .expect("good");
    }
    let unplaced = |core: &Core| -> usize {
        let topics = core.topic_views(None, usize::MAX);
        topics.iter().map(|topic| topic.unplaced).sum()
    };
    let parts = |core: &mut Core, now| {
        let _ = (core.take_effects(), core.take_changes());
        let mut most = 0;
        while core.is_busy() {
            core.go_on(now);
            most = most.max(core.take_changes().len());
        }
        assert!(most <= 500, "{most}");
    };
    assert_eq!(unplaced(&lone.core), topics);
    for (link, name) in [(2, "b2"), (3, "b3")] {
        let broker = String::from(name);
        let hello = Hello { broker, ..hello() };
        greet(&mut lone.core, link, &hello, lone.now);
        if link == 2 {
            assert!(unplaced(&lone.core) > topics / 2);
        }
        parts(&mut lone.core, lone.now);
        assert_eq!(unplaced(&lone.core), 0);
    }
    lone.core.drain_broker("b2", lone.now).expect("known");
    parts(&mut lone.core, lone.now);
    let views = lone.core.broker_views(lone.now);
    let placed: Vec<usize> = views.iter().map(|view| view.publishers).collect();
    assert_eq!(placed, [0, 0, topics]);
}
