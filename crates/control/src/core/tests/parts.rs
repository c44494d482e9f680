//! Work done in parts ends as if it had been done at once, whatever happens between the parts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use limit::Limit;
use link::{
    Attachment, BrokerReport, ChannelState, Declaration, Door, Hello, Identity, Present, ToBroker,
    ToController, TopicReport, TopicState,
};
use proptest::prelude::*;

use super::all_holdings;
use super::cluster::HOST;
use crate::core::parts::Sizes;
use crate::core::{Core, Declared, Effect, Probe, ProbeAnswer, Settings};
use crate::store::{MemoryStore, Store, Table};
use crate::view::{Contract, PublisherSpec, TopicSpec};

const BROKERS: usize = 3;
const TOPICS: usize = 6;

/// Something that happens to a controller.
#[derive(Clone, Debug)]
enum Step {
    Limit(usize, bool),
    Delete(usize),
    /// So many publishers are declared for a topic, from this number on.
    Declare(usize, u32, u32),
    Remove(usize, u32),
    /// A broker's process begins, on another link if it is there already.
    Dial(usize, bool),
    Cut(usize),
    /// It is gone for certain.
    Die(usize),
    Drain(usize),
    Resume(usize),
    /// It says which topics it has.
    Inventory(usize, BTreeSet<usize>),
    /// It reports topics, and publishers that came or went.
    Report(usize, BTreeSet<usize>, Vec<(usize, u32, bool)>),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let (broker, topic) = (0..BROKERS, 0..TOPICS);
    let topics = prop::collection::btree_set(0..TOPICS, 0..TOPICS);
    let came = prop::collection::vec((topic.clone(), 0u32..30, any::<bool>()), 0..12);
    prop_oneof![
        2 => (topic.clone(), any::<bool>()).prop_map(|(topic, is)| Step::Limit(topic, is)),
        1 => topic.clone().prop_map(Step::Delete),
        4 => (topic.clone(), 0u32..20, 1u32..12).prop_map(|(t, from, n)| Step::Declare(t, from, n)),
        1 => (topic, 0u32..30).prop_map(|(topic, id)| Step::Remove(topic, id)),
        3 => (broker.clone(), any::<bool>()).prop_map(|(at, is)| Step::Dial(at, is)),
        1 => broker.clone().prop_map(Step::Cut),
        1 => broker.clone().prop_map(Step::Die),
        1 => broker.clone().prop_map(Step::Drain),
        1 => broker.clone().prop_map(Step::Resume),
        2 => (broker.clone(), topics.clone()).prop_map(|(at, all)| Step::Inventory(at, all)),
        4 => (broker, topics, came).prop_map(|(at, all, came)| Step::Report(at, all, came)),
        2 => Just(Step::Tick),
    ]
}

/// A broker as the controller was told of it.
#[derive(Clone, Default)]
struct Broker {
    number: Option<u32>,
    life: u64,
    link: u64,
    reports: u64,
}

struct World {
    core: Core,
    kept: MemoryStore,
    now: Instant,
    links: u64,
    brokers: Vec<Broker>,
    /// What was told of each topic, in order; numbers that count over all topics left out.
    told: BTreeMap<String, Vec<String>>,
    /// What is to be there: publishers by topic.
    declared: BTreeMap<usize, BTreeSet<u32>>,
    /// And where they said to be connected and have not left since.
    attached: BTreeMap<(usize, u32), Vec<usize>>,
}

fn name(topic: usize) -> String {
    format!("t{topic}")
}

fn spec(number: u32) -> PublisherSpec {
    PublisherSpec {
        id: format!("p{number:02}"),
        rate: f64::from(1 + number % 3),
        batch: 1,
        group: None,
    }
}

impl World {
    fn new(sizes: Sizes) -> World {
        let now = Instant::from_nanos(1_000_000_000);
        let core = Core::restore(Settings::default(), &MemoryStore::default(), now);
        let mut world = World {
            core: core.expect("nothing is kept"),
            kept: MemoryStore::default(),
            now,
            links: 0,
            brokers: vec![Broker::default(); BROKERS],
            told: BTreeMap::new(),
            declared: BTreeMap::new(),
            attached: BTreeMap::new(),
        };
        world.core.rules.sizes = sizes;
        world
    }

    fn hello(&mut self, at: usize, is_new: bool) {
        self.links += 1;
        let broker = &mut self.brokers[at];
        broker.link = self.links;
        broker.reports = 0;
        if is_new || broker.life == 0 {
            broker.life = 0;
        }
        let hello = Hello {
            broker: format!("b{at}"),
            identity: Identity([at as u8; 16]),
            life: broker.life,
            tcp_address: format!("10.0.0.{at}:4150"),
            http_address: None,
            gossip_address: Some(format!("10.0.0.{at}:4150")),
            mcap: Some(40.0),
            model: None,
        };
        let number = self.core.hello((broker.link, HOST), &hello, self.now);
        broker.number = Some(number.expect("a good hello"));
        self.leave(at);
        self.answers(at, true);
    }

    /// A probe of a broker's address finds it, or nobody.
    fn answers(&mut self, at: usize, is_there: bool) {
        let Some(number) = self.brokers[at].number else {
            return;
        };
        let broker = &self.core.brokers[number];
        let probe = Probe {
            broker: number,
            life: broker.life,
            door: Door::Clients,
            address: broker.tcp_address.clone(),
            is_known: false,
        };
        self.brokers[at].life = broker.life;
        let present = Present {
            broker: format!("b{at}"),
            identity: Identity([at as u8; 16]),
            life: broker.life,
        };
        let answer = match is_there {
            true => ProbeAnswer::Present(present),
            false => ProbeAnswer::Refused,
        };
        self.core.probed(&probe, &answer, self.now);
    }

    /// Nobody is connected there any more.
    fn leave(&mut self, at: usize) {
        for places in self.attached.values_mut() {
            places.retain(|place| *place != at);
        }
    }

    fn says(&mut self, at: usize, word: ToController) {
        if let Some(number) = self.brokers[at]
            .number
            .filter(|_| self.brokers[at].link != 0)
        {
            self.core.heard(number, word, self.now);
        }
    }

    fn happen(&mut self, step: &Step) {
        self.now += Duration::from_millis(50);
        let now = self.now;
        match step {
            Step::Limit(topic, is_limited) => {
                let limit = Limit::messages(100.0, 10.0).expect("good");
                let spec = TopicSpec {
                    contract: Contract {
                        limit: is_limited.then_some(limit),
                        ..Contract::default()
                    },
                    ..TopicSpec::default()
                };
                self.core.put_topic(&name(*topic), spec, now).expect("good");
                self.declared.entry(*topic).or_default();
            }
            Step::Delete(topic) => {
                let is_known = self.core.delete_topic(&name(*topic), now).is_ok();
                assert_eq!(is_known, self.declared.remove(topic).is_some());
                self.attached.retain(|(of, _), _| of != topic);
            }
            Step::Declare(topic, from, number) => {
                let numbers = *from..from + number;
                let list = Declared::new(numbers.clone().map(spec).collect());
                let taken = self.core.declare(&name(*topic), list.expect("good"), now);
                taken.expect("there is room");
                self.declared.entry(*topic).or_default().extend(numbers);
            }
            Step::Remove(topic, number) => {
                let id = spec(*number).id;
                if self.core.delete_publisher(&name(*topic), &id, now).is_ok() {
                    self.declared.entry(*topic).or_default().remove(number);
                    self.attached.remove(&(*topic, *number));
                }
            }
            Step::Dial(at, is_new) => self.hello(*at, *is_new),
            Step::Cut(at) => {
                let link = std::mem::take(&mut self.brokers[*at].link);
                self.core.link_lost(link, now);
            }
            Step::Die(at) => {
                let link = std::mem::take(&mut self.brokers[*at].link);
                self.core.link_lost(link, now);
                self.answers(*at, false);
                self.leave(*at);
            }
            Step::Drain(at) => drop(self.core.drain_broker(&format!("b{at}"), now)),
            Step::Resume(at) => drop(self.core.resume_broker(&format!("b{at}"), now)),
            Step::Inventory(at, topics) => self.inventory(*at, topics),
            Step::Report(at, topics, came) => self.report(*at, topics, came),
            Step::Tick => self.core.tick(now),
        }
    }

    fn inventory(&mut self, at: usize, topics: &BTreeSet<usize>) {
        let state = |topic: &usize| TopicState {
            topic: name(*topic),
            is_paused: false,
            channels: vec![ChannelState {
                channel: String::from("c"),
                is_paused: false,
            }],
        };
        let (topics, is_last) = (topics.iter().map(state).collect(), true);
        self.says(at, ToController::Inventory { topics, is_last });
    }

    fn report(&mut self, at: usize, topics: &BTreeSet<usize>, came: &[(usize, u32, bool)]) {
        if self.brokers[at].link == 0 {
            return;
        }
        self.brokers[at].reports += 1;
        let said = |topic: &usize| TopicReport {
            topic: name(*topic),
            messages: 5,
            mean_rate: 5.0,
            is_limited: true,
            ..TopicReport::default()
        };
        // Whoever is known says so again; nobody is declared by a report here.
        let known = came.iter().filter(|(topic, number, _)| {
            let numbers = self.declared.get(topic);
            numbers.is_some_and(|numbers| numbers.contains(number))
        });
        let known: Vec<(usize, u32, bool)> = known.copied().collect();
        let attachment = |&(topic, number, attached): &(usize, u32, bool)| {
            let PublisherSpec {
                id, rate, batch, ..
            } = spec(number);
            Attachment {
                publisher: Declaration {
                    id,
                    topic: name(topic),
                    group: None,
                    rate: Some(rate),
                    batch,
                },
                attached,
                refused: None,
            }
        };
        let report = BrokerReport {
            number: self.brokers[at].reports,
            seconds: 1.0,
            topics: topics.iter().map(said).collect(),
            attachments: known.iter().map(attachment).collect(),
            ..BrokerReport::default()
        };
        self.says(at, ToController::Report(report));
        for (topic, number, is_attached) in known {
            let places = self.attached.entry((topic, number)).or_default();
            places.retain(|place| *place != at);
            if is_attached {
                places.push(at);
            }
        }
    }

    /// Keeps what is to be kept and notes what goes out.
    fn settle(&mut self) {
        let changes = self.core.take_changes();
        self.kept.commit(&changes).expect("memory takes all");
        for effect in self.core.take_effects() {
            let Effect::Send(number, order) = effect else {
                continue;
            };
            let (topic, text) = match *order {
                ToBroker::Contract {
                    topic, contract, ..
                } => (
                    topic,
                    format!("{number}: limit {}", contract.limit.is_some()),
                ),
                ToBroker::Topic { state, .. } => {
                    (state.topic, format!("{number}: {:?}", state.channels))
                }
                ToBroker::Grant { topic, grant } => (
                    topic,
                    format!("{number}: {:?} {:?}", grant.share, grant.answers_report),
                ),
                ToBroker::Change { topic, change } => (topic, format!("{number}: {change:?}")),
                ToBroker::Migrate { topic, moves } => (topic, format!("{number}: {moves:?}")),
                ToBroker::Complete => (String::new(), format!("{number}: complete")),
                _ => continue,
            };
            self.told.entry(topic).or_default().push(text);
        }
    }

    /// Goes on until nothing is left to do.
    fn finish(&mut self) {
        self.settle();
        while self.core.is_busy() {
            self.core.go_on(self.now);
            self.settle();
        }
    }

    /// What can be seen of the state.
    fn shown(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for view in self.core.topic_views(None, usize::MAX) {
            let publishers = self.core.publisher_views(&view.topic, None, usize::MAX);
            shown.push(format!("{view:?} {publishers:?}"));
        }
        shown.push(format!("{:?}", self.core.broker_views(self.now)));
        shown.push(format!("{:?}", all_holdings(&self.core, self.now)));
        shown
    }

    fn check(&self) {
        let topics = self.core.topic_views(None, usize::MAX);
        let names: Vec<&str> = topics.iter().map(|view| view.topic.as_str()).collect();
        let expected: Vec<String> = self.declared.keys().map(|topic| name(*topic)).collect();
        assert_eq!(names, expected);
        let takes = self.core.broker_views(self.now);
        let takes = takes.iter().filter(|broker| broker.state == "up");
        let takes: BTreeSet<&str> = takes.map(|broker| broker.broker.as_str()).collect();
        let mut records = 0;
        for (&topic, numbers) in &self.declared {
            let views = self.core.publisher_views(&name(topic), None, usize::MAX);
            let views = views.expect("declared");
            let ids: Vec<String> = views.iter().map(|view| view.id.clone()).collect();
            let expected: Vec<String> = numbers.iter().map(|number| spec(*number).id).collect();
            assert_eq!(ids, expected, "{topic}");
            records += ids.len();
            for (view, number) in views.iter().zip(numbers) {
                let places = self.attached.get(&(topic, *number));
                let places = places.map_or(&[][..], Vec::as_slice);
                let there =
                    (0..BROKERS).find(|at| view.attached_to.as_deref() == Some(&format!("b{at}")));
                // Brokers are heard side by side: of several that say so, each may have been the last.
                let is_said = there.map_or(places.is_empty(), |at| places.contains(&at));
                // What a broker said last before its link was lost may not have been heard.
                let is_lost = places
                    .iter()
                    .chain(&there)
                    .any(|at| self.brokers[*at].link == 0);
                assert!(is_said || is_lost, "{topic} {number}: {view:?} {places:?}");
                let index = self.core.topics.all()[&name(topic)]
                    .publishers
                    .find(&view.id);
                let row =
                    &self.core.topics.all()[&name(topic)].publishers.rows()[index.expect("there")];
                let place = row
                    .broker
                    .map(|number| self.core.brokers[number].name.as_str());
                assert!(
                    place.is_none_or(|place| takes.contains(place) || self.is_away(place)),
                    "{topic} {number} at {place:?}"
                );
            }
        }
        let kept = self.kept.load(Table::Publishers).expect("memory");
        assert_eq!(kept.len(), records, "one record for each");
        let again = Core::restore(Settings::default(), &self.kept, self.now).expect("kept");
        for topic in self.declared.keys().map(|topic| name(*topic)) {
            let places = |core: &Core| {
                let rows = core.topics.all()[&topic].publishers.behind(None);
                let place = |broker: u32| core.brokers[broker].name.clone();
                let places = rows.map(|row| (row.spec.clone(), row.broker.map(place)));
                places.collect::<Vec<_>>()
            };
            assert_eq!(places(&again), places(&self.core), "{topic}");
        }
    }

    /// Whether a broker's link is lost, and nobody knows of what.
    fn is_away(&self, broker: &str) -> bool {
        let views = self.core.broker_views(self.now);
        let view = views.iter().find(|view| view.broker == broker);
        view.is_some_and(|view| view.state == "silent" || view.state == "up")
    }
}

const SMALL: Sizes = Sizes {
    topics: 1,
    rows: usize::MAX,
    looks: usize::MAX,
};
const WHOLE: Sizes = Sizes {
    topics: usize::MAX,
    rows: usize::MAX,
    looks: usize::MAX,
};
const TINY: Sizes = Sizes {
    topics: 1,
    rows: 2,
    looks: 3,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_parts_and_at_once_end_alike(steps in prop::collection::vec(step(), 1..40)) {
        let (mut parts, mut whole) = (World::new(SMALL), World::new(WHOLE));
        for step in &steps {
            for world in [&mut parts, &mut whole] {
                world.happen(step);
                world.finish();
            }
            prop_assert_eq!(parts.shown(), whole.shown(), "after {:?}", step);
        }
        prop_assert_eq!(&parts.told, &whole.told);
        parts.check();
    }

    #[test]
    fn whatever_happens_between_the_parts_nothing_is_lost(
        steps in prop::collection::vec((step(), 0usize..3), 1..60)
    ) {
        let mut world = World::new(TINY);
        for (step, parts) in &steps {
            world.happen(step);
            world.settle();
            for _ in 0..*parts {
                world.core.go_on(world.now);
                world.settle();
            }
        }
        world.finish();
        world.check();
    }
}
