//! Whatever brokers do and however messages cross: once all have been heard, all brokers have the
//! same channels and pauses.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use link::{Hello, Identity, ToBroker, ToController, TopicChange};
use proptest::prelude::*;

use super::all_holdings;
use super::cluster::{HOST, settings};
use super::stage::{self, Stage, VirtualTopics, present};
use crate::core::{Core, Probe, ProbeAnswer};
use crate::store::MemoryStore;

const TOPICS: [&str; 3] = ["t", "u", "v#ephemeral"];
const CHANNELS: [&str; 3] = ["c", "d", "e#ephemeral"];

#[derive(Clone, Debug)]
enum Step {
    /// A client or an operator does something at a broker.
    Does(usize, usize, TopicChange),
    /// A word arrives at the controller, or at a broker.
    Up(usize),
    Down(usize),
    /// A link breaks, with everything that is under way on it.
    Cut(usize),
    Dial(usize),
    /// A broker writes what it has to its disk.
    Keep(usize),
    /// A broker's process ends and another one has what is kept on disk.
    Restart(usize),
    RestartController,
}

/// A broker at the end of a link that takes its time.
#[derive(Default)]
struct Broker {
    topics: VirtualTopics,
    disk: VirtualTopics,
    /// Deletions that are not on disk, as far as was said on this link.
    unkept: Vec<(String, TopicChange)>,
    number: u32,
    link: u64,
    life: u64,
    is_complete: bool,
    up: VecDeque<ToController>,
    down: VecDeque<ToBroker>,
}

struct World {
    core: Core,
    kept: MemoryStore,
    brokers: Vec<Broker>,
    now: Instant,
    links: u64,
}

impl Broker {
    fn says(&mut self, word: ToController) {
        if self.link != 0 {
            self.up.push_back(word);
        }
    }

    fn does(&mut self, topic: &str, change: TopicChange) {
        if change == TopicChange::TopicCreated || creates(&change) {
            self.makes(topic);
        }
        if !self.topics.has(topic) || !self.topics.change(topic, &change) {
            return;
        }
        let topic = topic.to_owned();
        self.says(ToController::Changed { topic, change });
    }

    fn makes(&mut self, topic: &str) {
        if self.topics.has(topic) {
            return;
        }
        self.topics.make(topic);
        let topic = topic.to_owned();
        self.says(ToController::Changed {
            topic: topic.clone(),
            change: TopicChange::TopicCreated,
        });
        if self.is_complete {
            self.says(ToController::TopicAsked { topic });
        }
    }

    fn hears(&mut self, order: ToBroker) {
        match order {
            ToBroker::Complete => self.is_complete = true,
            ToBroker::Change { topic, change } => {
                self.topics.change(&topic, &change);
                if change.is_deletion() {
                    self.unkept.push((topic.clone(), change.clone()));
                    self.says(ToController::Followed { topic, change });
                }
            }
            ToBroker::Topic { state, ticket } => {
                let topic = state.topic.clone();
                self.topics.learn(state);
                self.says(ToController::TopicReady { topic, ticket });
            }
            _ => {}
        }
    }

    fn keeps(&mut self) {
        self.disk = self.topics.clone();
        for (topic, change) in std::mem::take(&mut self.unkept) {
            self.says(ToController::DeletionKept { topic, change });
        }
    }

    fn inventory(&self) -> ToController {
        ToController::Inventory {
            topics: self.topics.states(),
            is_last: true,
        }
    }

    fn lasting(&self, topic: &str) -> Option<(bool, Vec<(String, bool)>)> {
        let topic = self.topics.get(topic)?;
        let channels = topic.channels.iter();
        let lasting = channels.filter(|(name, _)| !name.ends_with("#ephemeral"));
        let lasting = lasting.map(|(name, &is_paused)| (name.clone(), is_paused));
        Some((topic.is_paused, lasting.collect()))
    }
}

fn creates(change: &TopicChange) -> bool {
    matches!(change, TopicChange::ChannelCreated { .. })
}

impl World {
    fn new(brokers: usize) -> World {
        let (kept, now) = (MemoryStore::default(), Instant::from_nanos(1));
        let mut world = World {
            core: Core::restore(settings(), &kept, now).expect("nothing is kept"),
            kept,
            brokers: (0..brokers).map(|_| Broker::default()).collect(),
            now,
            links: 0,
        };
        (0..brokers).for_each(|index| world.dial(index));
        world
    }

    fn step(&mut self, step: Step) {
        self.now += Duration::from_millis(1);
        match step {
            Step::Does(index, topic, change) => self.brokers[index].does(TOPICS[topic], change),
            Step::Up(index) => self.up(index),
            Step::Down(index) => {
                if let Some(order) = self.brokers[index].down.pop_front() {
                    self.brokers[index].hears(order);
                }
            }
            Step::Cut(index) => self.cut(index),
            Step::Dial(index) => self.dial(index),
            Step::Keep(index) => self.brokers[index].keeps(),
            Step::Restart(index) => {
                self.cut(index);
                let broker = &mut self.brokers[index];
                broker.life = 0;
                broker.topics = broker.disk.clone();
                broker.topics.forget_ephemeral();
                self.dial(index);
            }
            Step::RestartController => {
                (0..self.brokers.len()).for_each(|index| self.cut(index));
                self.core = Core::restore(settings(), &self.kept, self.now).expect("kept");
                (0..self.brokers.len()).for_each(|index| self.dial(index));
            }
        }
    }

    fn up(&mut self, index: usize) {
        if let Some(word) = self.brokers[index].up.pop_front() {
            self.core.heard(self.brokers[index].number, word, self.now);
            self.carry_out();
        }
    }

    fn cut(&mut self, index: usize) {
        let broker = &mut self.brokers[index];
        broker.up.clear();
        broker.down.clear();
        broker.unkept.clear();
        let link = std::mem::take(&mut broker.link);
        self.core.link_lost(link, self.now);
        self.carry_out();
    }

    fn dial(&mut self, index: usize) {
        if self.brokers[index].link != 0 {
            return;
        }
        self.links += 1;
        let hello = Hello {
            broker: format!("b{index}"),
            identity: Identity([index as u8; 16]),
            life: self.brokers[index].life,
            tcp_address: format!("10.0.0.{index}:4150"),
            http_address: None,
            gossip_address: None,
            mcap: None,
            model: None,
        };
        let number = self
            .core
            .hello((self.links, HOST), &hello, self.now)
            .expect("good");
        let broker = &mut self.brokers[index];
        (broker.number, broker.link, broker.is_complete) = (number, self.links, false);
        let inventory = broker.inventory();
        broker.up.push_back(inventory);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        stage::carry_out(self);
    }

    /// Everything that is under way arrives.
    fn settle(&mut self) {
        (0..self.brokers.len()).for_each(|index| self.dial(index));
        while self
            .brokers
            .iter()
            .any(|broker| !broker.up.is_empty() || !broker.down.is_empty())
        {
            for index in 0..self.brokers.len() {
                self.step(Step::Down(index));
                self.step(Step::Up(index));
            }
        }
    }

    fn check(&self) {
        let holdings = all_holdings(&self.core, self.now);
        for topic in TOPICS {
            let mut having = self
                .brokers
                .iter()
                .filter_map(|broker| broker.lasting(topic));
            let Some(first) = having.next() else {
                continue;
            };
            assert!(having.all(|other| other == first), "{topic} differs");
            let known = holdings.topics.get(topic);
            let known = known.unwrap_or_else(|| panic!("{topic} is at brokers: {first:?}"));
            let names = known.iter().map(ToString::to_string);
            assert!(
                names.eq(first.1.into_iter().map(|(name, _)| name)),
                "{topic}: {known:?}"
            );
        }
        for (broker, told) in self.brokers.iter().zip(&holdings.brokers) {
            assert!(broker.is_complete);
            let here: Vec<String> = broker.topics.0.keys().cloned().collect();
            let topics = told.topics.keys().map(ToString::to_string);
            assert!(topics.eq(here), "{} has {:?}", told.broker, told.topics);
            for (topic, channels) in &told.topics {
                let lasting = channels.iter().filter(|channel| !channel.is_ephemeral());
                let lasting = lasting.map(ToString::to_string);
                let (_, here) = broker.lasting(topic.as_str()).expect("just seen");
                assert!(
                    lasting.eq(here.into_iter().map(|(name, _)| name)),
                    "{channels:?}"
                );
            }
        }
    }
}

impl Stage for World {
    fn parts(&mut self) -> (&mut Core, &mut MemoryStore, Instant) {
        (&mut self.core, &mut self.kept, self.now)
    }

    /// It is under way.
    fn order(&mut self, number: u32, order: ToBroker) {
        let mut brokers = self.brokers.iter_mut();
        let broker = brokers.find(|broker| broker.number == number && broker.link != 0);
        if let Some(broker) = broker {
            if let ToBroker::Welcome { life, .. } = order {
                broker.life = life;
            }
            broker.down.push_back(order);
        }
    }

    fn at(&self, probe: &Probe) -> Option<ProbeAnswer> {
        let mut brokers = self.brokers.iter();
        let is_asked = |broker: &Broker| broker.link != 0 && broker.number == probe.broker;
        let index = brokers.position(is_asked)?;
        let identity = Identity([index as u8; 16]);
        Some(present(format!("b{index}"), identity, probe))
    }
}

fn any_change() -> impl Strategy<Value = TopicChange> {
    let channel = (0..CHANNELS.len()).prop_map(|at| CHANNELS[at].to_owned());
    (0..9, channel).prop_map(|(what, channel)| match what {
        0 => TopicChange::TopicCreated,
        1 => TopicChange::TopicDeleted,
        2 => TopicChange::TopicPaused,
        3 => TopicChange::TopicResumed,
        4 => TopicChange::ChannelDeleted { channel },
        5 => TopicChange::ChannelPaused { channel },
        6 => TopicChange::ChannelResumed { channel },
        _ => TopicChange::ChannelCreated { channel },
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let broker = || 0..3usize;
    prop_oneof![
        6 => (broker(), 0..TOPICS.len(), any_change())
            .prop_map(|(broker, topic, change)| Step::Does(broker, topic, change)),
        8 => broker().prop_map(Step::Up),
        8 => broker().prop_map(Step::Down),
        1 => broker().prop_map(Step::Cut),
        2 => broker().prop_map(Step::Dial),
        2 => broker().prop_map(Step::Keep),
        1 => broker().prop_map(Step::Restart),
        1 => Just(Step::RestartController),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn all_end_alike(steps in prop::collection::vec(any_step(), 0..160)) {
        let mut world = World::new(3);
        for step in steps {
            world.step(step);
        }
        world.settle();
        world.check();
    }
}
