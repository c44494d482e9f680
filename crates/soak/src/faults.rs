//! The faults of a run: drawn before it begins, some kinds for each seed, so that rare ones often
//! coincide.

use std::time::Duration;

use clock::{Instant, Streams};
use link::TopicChange;

use crate::chance::Chance;
use crate::event::{Actor, Ask};
use crate::medium::Ailment;
use crate::network::{CLIENTS, CONSUMERS, Host, Weather};
use crate::plan::{DURABILITIES, Plan};

/// One thing that goes wrong, or is mended again.
#[derive(Clone, Debug)]
pub enum Fault {
    /// kill -9 of a process; its host says so.
    Kill(Actor),
    /// A host loses its power.
    Dark(Actor),
    /// A process is started again, its host with it.
    Start(Actor),
    /// SIGSTOP.
    Pause(Actor),
    /// SIGCONT.
    Resume(Actor),
    /// Ways are cut.
    Cut(Vec<(Host, Host)>),
    /// They are mended.
    Mend(Vec<(Host, Host)>),
    /// So many streams of a hundred are reset.
    Reset(usize),
    /// The controller's disk is full, or not any more.
    StoreFull(bool),
    /// A broker's is.
    FolderFull(usize, bool),
    /// A broker's disk for messages does not do something, or does everything again.
    DiskAils(usize, Option<Ailment>),
    /// Packets fare otherwise.
    Weather(Weather),
    /// This part of answers over HTTP is lost.
    Answers(f64),
    /// The operator wishes something.
    Wish(Box<Ask>),
    /// Nothing more goes wrong.
    Calm,
}

/// Kinds of what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillBroker,
    DarkBroker,
    KillController,
    DarkController,
    PauseBroker,
    PauseController,
    Isolate,
    OneWay,
    Reset,
    StoreFull,
    FolderFull,
    Slow,
    Drain,
    Limit,
    Channel,
    Stray,
}

const KINDS: [Kind; 16] = [
    Kind::KillBroker,
    Kind::DarkBroker,
    Kind::KillController,
    Kind::DarkController,
    Kind::PauseBroker,
    Kind::PauseController,
    Kind::Isolate,
    Kind::OneWay,
    Kind::Reset,
    Kind::StoreFull,
    Kind::FolderFull,
    Kind::Slow,
    Kind::Drain,
    Kind::Limit,
    Kind::Channel,
    Kind::Stray,
];

/// How a broker is permanently lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its process ends; its host says so.
    Killed,
    /// Its host goes dark.
    Dark,
    /// Nothing that it sends arrives.
    Mute,
    /// Nothing arrives there.
    Deaf,
    /// Neither.
    Cut,
}

/// Ways to lose a broker.
pub const LOSSES: [Loss; 5] = [Loss::Killed, Loss::Dark, Loss::Mute, Loss::Deaf, Loss::Cut];

impl Loss {
    /// The faults of the broker in one of this many places.
    #[must_use]
    pub fn fault(self, place: usize, brokers: usize) -> Fault {
        let broker = Actor::Broker(place);
        let others = (0..=brokers)
            .chain(CLIENTS)
            .filter(|&host| host != broker.host());
        let out = others.clone().map(|host| (broker.host(), host));
        let back = others.map(|host| (host, broker.host()));
        match self {
            Loss::Killed => Fault::Kill(broker),
            Loss::Dark => Fault::Dark(broker),
            Loss::Mute => Fault::Cut(out.collect()),
            Loss::Deaf => Fault::Cut(back.collect()),
            Loss::Cut => Fault::Cut(out.chain(back).collect()),
        }
    }
}

/// The faults between two instants, in order.
#[must_use]
pub fn draw(
    plan: &Plan,
    streams: &Streams,
    from: Instant,
    until: Instant,
) -> Vec<(Instant, Fault)> {
    let mut chance = Chance::new(streams, "faults");
    // Some kinds only: a run in which everything fails all the time shows less.
    let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|_| chance.happens(0.4)).collect();
    if kinds.is_empty() {
        kinds.push(chance.pick(&KINDS));
    }
    let (least_ms, most_ms) = chance.pick(&[(100, 1500), (500, 4000), (2000, 8000)]);
    let mut faults = Vec::new();
    let mut at = from;
    loop {
        at += chance.span_ms(least_ms, most_ms);
        if at >= until {
            break;
        }
        let kind = chance.pick(&kinds);
        let lasts = match chance.happens(0.3) {
            true => chance.span_ms(3000, 12_000),
            false => chance.span_ms(50, 3000),
        };
        draw_one(kind, plan, (at, at + lasts), &mut chance, &mut faults);
    }
    draw_lost_answers(plan, streams, (from, until), &mut faults);
    draw_lost_power(plan, streams, (from, until), &mut faults);
    draw_trouble_with_disks(plan, streams, (from, until), &mut faults);
    faults.retain(|(at, _)| *at < until);
    faults.push((until, Fault::Calm));
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// From a stream of its own: all else is as it would be without.
fn draw_lost_answers(
    plan: &Plan,
    streams: &Streams,
    (from, until): (Instant, Instant),
    faults: &mut Vec<(Instant, Fault)>,
) {
    let mut chance = Chance::new(streams, "answers");
    if !chance.happens(0.3) {
        return;
    }
    // A broker is drained that no consumer reaches: what waits there is handed over.
    let place = chance.below(plan.brokers);
    let broker = Actor::Broker(place).host();
    let ways = CONSUMERS.into_iter();
    let ways: Vec<(Host, Host)> = ways
        .flat_map(|host| [(host, broker), (broker, host)])
        .collect();
    let begin = from + chance.span_ms(0, 5000);
    let wish = |is_drained| Fault::Wish(Box::new(Ask::Drain(format!("b{place}"), is_drained)));
    faults.push((begin, Fault::Cut(ways.clone())));
    faults.push((begin + chance.span_ms(2000, 5000), wish(true)));
    let end = begin + chance.span_ms(14_000, 20_000);
    faults.push((end, wish(false)));
    faults.push((end, Fault::Mend(ways)));
    let mut at = from;
    while at < until {
        at += chance.span_ms(500, 4000);
        let part = chance.pick(&[0.1, 0.3, 0.6]);
        faults.push((at, Fault::Answers(part)));
        at += chance.span_ms(500, 6000);
        faults.push((at, Fault::Answers(0.0)));
    }
}

/// Hosts go dark while a new contract is being kept there. From a stream of its own, too.
fn draw_lost_power(
    plan: &Plan,
    streams: &Streams,
    (from, until): (Instant, Instant),
    faults: &mut Vec<(Instant, Fault)>,
) {
    let mut chance = Chance::new(streams, "power");
    let Some(topic) = plan.topics.iter().find(|topic| topic.limit.is_some()) else {
        return;
    };
    if !plan.have_folders || !chance.happens(0.15) {
        return;
    }
    let mut at = from;
    while at < until {
        at += chance.span_ms(1000, 6000);
        let spec = topic.spec(chance.pick(&[0.6, 0.8, 1.0, 1.3]));
        let wish = Ask::PutTopic(topic.name.clone(), spec);
        faults.push((at, Fault::Wish(Box::new(wish))));
        let broker = Actor::Broker(chance.below(plan.brokers));
        at += chance.span_ms(1, 150);
        faults.push((at, Fault::Dark(broker)));
        at += chance.span_ms(200, 3000);
        faults.push((at, Fault::Start(broker)));
    }
}

/// Brokers with disks for messages end more often, these disks fail, and topics become durable, and are not any more.
fn draw_trouble_with_disks(
    plan: &Plan,
    streams: &Streams,
    (from, until): (Instant, Instant),
    faults: &mut Vec<(Instant, Fault)>,
) {
    const AILMENTS: [Ailment; 4] = [
        Ailment::Full,
        Ailment::Writes,
        Ailment::Syncs,
        Ailment::Reads,
    ];
    if plan.disk_bytes.is_none() {
        return;
    }
    let mut chance = Chance::new(streams, "disks");
    let (dies, ails, changes) = (
        chance.pick(&[0.0, 0.3, 0.7]),
        chance.pick(&[0.0, 0.3, 0.7]),
        chance.pick(&[0.0, 0.1]),
    );
    let mut at = from;
    while at < until {
        at += chance.span_ms(200, 2000);
        let place = chance.below(plan.brokers);
        let end = at + chance.span_ms(20, 3000);
        if chance.happens(dies) {
            let broker = Actor::Broker(place);
            let death = match chance.happens(0.5) {
                true => Fault::Kill(broker),
                false => Fault::Dark(broker),
            };
            faults.push((at, death));
            faults.push((end, Fault::Start(broker)));
        }
        if chance.happens(ails) {
            let ailment = chance.pick(&AILMENTS);
            faults.push((at, Fault::DiskAils(place, Some(ailment))));
            faults.push((end, Fault::DiskAils(place, None)));
        }
        if chance.happens(changes) {
            let mut topic = plan.topics[chance.below(plan.topics.len())].clone();
            topic.durability = chance.pick(&DURABILITIES);
            let wish = Ask::PutTopic(topic.name.clone(), topic.spec(1.0));
            faults.push((at, Fault::Wish(Box::new(wish))));
        }
    }
}

fn draw_one(
    kind: Kind,
    plan: &Plan,
    (at, end): (Instant, Instant),
    chance: &mut Chance,
    faults: &mut Vec<(Instant, Fault)>,
) {
    let place = chance.below(plan.brokers);
    let broker = Actor::Broker(place);
    let mut both = |begins: Fault, ends: Fault| {
        faults.push((at, begins));
        faults.push((end, ends));
    };
    match kind {
        Kind::KillBroker => both(Fault::Kill(broker), Fault::Start(broker)),
        Kind::DarkBroker => both(Fault::Dark(broker), Fault::Start(broker)),
        Kind::KillController => both(
            Fault::Kill(Actor::Controller),
            Fault::Start(Actor::Controller),
        ),
        Kind::DarkController => both(
            Fault::Dark(Actor::Controller),
            Fault::Start(Actor::Controller),
        ),
        Kind::PauseBroker => both(Fault::Pause(broker), Fault::Resume(broker)),
        Kind::PauseController => both(
            Fault::Pause(Actor::Controller),
            Fault::Resume(Actor::Controller),
        ),
        Kind::Isolate | Kind::OneWay => {
            let ways = ways(kind, plan, chance);
            both(Fault::Cut(ways.clone()), Fault::Mend(ways));
        }
        Kind::Reset => faults.push((at, Fault::Reset(5 + chance.below(60)))),
        Kind::StoreFull => both(Fault::StoreFull(true), Fault::StoreFull(false)),
        Kind::FolderFull => both(
            Fault::FolderFull(place, true),
            Fault::FolderFull(place, false),
        ),
        Kind::Slow => {
            let weather = Weather {
                slow: 0.02 + 0.2 * (chance.below(100) as f64 / 100.0),
                slow_ms: 50 + chance.below(1500) as u64,
                lost: 0.3,
                ..plan.weather
            };
            both(Fault::Weather(weather), Fault::Weather(plan.weather));
        }
        Kind::Drain => {
            let name = format!("b{place}");
            let wish = |is_drained| Fault::Wish(Box::new(Ask::Drain(name.clone(), is_drained)));
            both(wish(true), wish(false));
        }
        Kind::Limit => {
            let topic = plan.topics.iter().find(|topic| topic.limit.is_some());
            if let Some(topic) = topic {
                let factor = chance.pick(&[0.5, 0.7, 1.0, 1.5]);
                let spec = topic.spec(factor);
                let wish = Ask::PutTopic(topic.name.clone(), spec);
                faults.push((at, Fault::Wish(Box::new(wish))));
            }
        }
        Kind::Stray => {
            let stray = Actor::Broker(plan.brokers);
            both(Fault::Start(stray), Fault::Kill(stray));
        }
        Kind::Channel => {
            let topic = plan.topics[chance.below(plan.topics.len())].name.clone();
            let change = change(chance);
            faults.push((at, Fault::Wish(Box::new(Ask::Change(topic, change)))));
        }
    }
}

/// Channels that come and go.
pub const FLEETING: [&str; 2] = ["x", "y"];

/// What an operator does to channels: some come and go, those that all messages are to reach are only paused.
fn change(chance: &mut Chance) -> TopicChange {
    let channel = chance.pick(&FLEETING).to_owned();
    let lasting = chance.pick(&crate::plan::CHANNELS).to_owned();
    match chance.below(8) {
        0..3 => TopicChange::ChannelCreated { channel },
        3..5 => TopicChange::ChannelDeleted { channel },
        5 => TopicChange::ChannelPaused { channel: lasting },
        6 => TopicChange::ChannelResumed { channel: lasting },
        _ => TopicChange::ChannelPaused { channel },
    }
}

/// Ways that are cut together: one host from some others, or one way between two.
fn ways(kind: Kind, plan: &Plan, chance: &mut Chance) -> Vec<(Host, Host)> {
    let servers: Vec<Host> = (0..=plan.brokers).collect();
    let hosts: Vec<Host> = servers.iter().copied().chain(CLIENTS).collect();
    let one = chance.pick(&servers);
    if kind == Kind::OneWay {
        let other = chance.pick(&hosts);
        return match chance.happens(0.5) {
            true => vec![(one, other)],
            false => vec![(other, one)],
        };
    }
    let part = chance.pick(&[1.0, 0.5]);
    let others = hosts.into_iter().filter(|&host| host != one);
    let others: Vec<Host> = others.filter(|_| chance.happens(part)).collect();
    let directions = chance.below(3);
    let out = others.iter().map(|&host| (one, host));
    let back = others.iter().map(|&host| (host, one));
    match directions {
        0 => out.collect(),
        1 => back.collect(),
        _ => out.chain(back).collect(),
    }
}

/// How long faults go on.
pub const TROUBLED: Duration = Duration::from_secs(25);
