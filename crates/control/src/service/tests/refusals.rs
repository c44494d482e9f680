//! Whichever write fails: what was answered 200 is there, and what was answered 507 is not, neither
//! now nor after a restart.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A store that fails at some of its commits, counted from 0.
#[derive(Clone, Default)]
struct Failing(Arc<Mutex<Medium>>);

#[derive(Clone, Default)]
struct Medium {
    kept: MemoryStore,
    commits: u32,
    fails: std::ops::Range<u32>,
}

impl Store for Failing {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.0.lock().expect("whole").kept.load(table)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        let mut medium = self.0.lock().expect("whole");
        medium.commits += 1;
        match medium.fails.contains(&(medium.commits - 1)) {
            true => Err(ControlError::Unavailable(String::from("no space left"))),
            false => medium.kept.commit(changes),
        }
    }
}

/// What requests have made of the state.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    /// Limits by topic; none for one that came with its publishers.
    topics: BTreeMap<String, Option<f64>>,
    /// Rates by topic and publisher.
    publishers: BTreeMap<(String, String), f64>,
    names: BTreeMap<String, u32>,
    channels: BTreeMap<String, BTreeSet<(String, bool)>>,
    draining: BTreeMap<String, bool>,
}

/// One request: what it asks for, and what it makes of the state.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(&'static str, f64),
    Publish(&'static str, &'static str, f64),
    Leave(&'static str, &'static str),
    Delete(&'static str),
    Name(&'static str),
    Create(&'static str, &'static str),
    Pause(&'static str, &'static str),
    DeleteChannel(&'static str, &'static str),
    Drain(bool),
    Remove,
}

const STEPS: [Step; 18] = [
    Step::Put("t", 100.0),
    Step::Publish("t", "a", 5.0),
    Step::Create("t", "c"),
    Step::Name("n"),
    Step::Publish("u", "x", 1.0),
    Step::Publish("t", "a", 7.0),
    Step::Pause("t", "c"),
    Step::Put("t", 50.0),
    Step::Drain(true),
    Step::Name("m"),
    Step::Drain(false),
    Step::Create("u", "d"),
    Step::Leave("t", "a"),
    Step::DeleteChannel("t", "c"),
    Step::Delete("t"),
    Step::Put("v", 10.0),
    Step::Remove,
    Step::Delete("u"),
];

impl State {
    fn follow(&mut self, step: Step) {
        let text = str::to_owned;
        match step {
            Step::Put(topic, rate) => drop(self.topics.insert(text(topic), Some(rate))),
            Step::Publish(topic, id, rate) => {
                self.topics.entry(text(topic)).or_default();
                self.publishers.insert((text(topic), text(id)), rate);
            }
            Step::Leave(topic, id) => drop(self.publishers.remove(&(text(topic), text(id)))),
            Step::Delete(topic) => {
                self.topics.remove(topic);
                self.publishers.retain(|(of, _), _| of != topic);
            }
            Step::Name(name) => {
                let next = self.names.len() as u32 + 1;
                self.names.entry(text(name)).or_insert(next);
            }
            Step::Create(topic, channel) => {
                let channels = self.channels.entry(text(topic)).or_default();
                channels.insert((text(channel), false));
            }
            Step::Pause(topic, channel) => {
                let channels = self.channels.entry(text(topic)).or_default();
                if channels.remove(&(text(channel), false)) {
                    channels.insert((text(channel), true));
                }
            }
            Step::DeleteChannel(topic, channel) => {
                let channels = self.channels.entry(text(topic)).or_default();
                channels.retain(|(name, _)| name != channel);
            }
            Step::Drain(is_draining) => {
                self.draining.insert(text("b1"), is_draining);
            }
            Step::Remove => self.draining.clear(),
        }
        self.channels.retain(|_, channels| !channels.is_empty());
    }

    /// As a core has it.
    fn of(core: &Core, now: Instant) -> State {
        let mut state = State::default();
        for view in core.topic_views(None, usize::MAX) {
            for publisher in core
                .publisher_views(&view.topic, None, usize::MAX)
                .expect("known")
            {
                let key = (view.topic.clone(), publisher.id);
                state.publishers.insert(key, publisher.rate);
            }
            let rate = view.spec.contract.limit.map(|limit| limit.rate.get());
            state.topics.insert(view.topic, rate);
        }
        for topic in ["t", "u"] {
            let views = core
                .channel_views(topic)
                .map_or_else(|_| Vec::new(), |views| views.channels);
            let channels = views.into_iter().map(|view| (view.channel, view.is_paused));
            state.channels.insert(topic.to_owned(), channels.collect());
        }
        state.channels.retain(|_, channels| !channels.is_empty());
        let names = core.name_views(None).names.into_iter();
        state.names = names.map(|view| (view.topic, view.id)).collect();
        let brokers = core.broker_views(now).into_iter();
        state.draining = brokers
            .map(|view| (view.broker, view.is_draining))
            .collect();
        state
    }
}

/// A service with one broker over a store that fails, and what it should have.
struct World {
    service: Service,
    store: Failing,
    orders: mpsc::Receiver<Order>,
    expected: State,
    refusals: usize,
    /// When it was tried again last.
    tried: Duration,
}

impl World {
    fn new(fails: std::ops::Range<u32>) -> World {
        let store = Failing::default();
        let (service, orders) = open(&store);
        let mut medium = store.0.lock().expect("whole");
        (medium.commits, medium.fails) = (0, fails);
        drop(medium);
        let mut expected = State::default();
        expected.draining.insert(String::from("b1"), false);
        World {
            service,
            store,
            orders,
            expected,
            refusals: 0,
            tried: Duration::ZERO,
        }
    }

    /// Another process takes over what is kept.
    fn restart(&mut self) {
        (self.service, self.orders) = open(&self.store);
    }

    /// Does a step; it is answered, and the answer is the truth.
    fn step(&mut self, step: Step) {
        let text = str::to_owned;
        let answered = match step {
            Step::Put(topic, rate) => {
                let limit = limit::Limit::messages(rate, 5.0).expect("good");
                let spec = TopicSpec::of_limit(limit);
                self.ask(|reply| Command::PutTopic(text(topic), spec, reply))
                    .map(drop)
            }
            Step::Publish(topic, id, rate) => {
                let (batch, group) = (1, None);
                let publisher = PublisherSpec {
                    id: text(id),
                    rate,
                    batch,
                    group,
                };
                let list = declared(publisher);
                self.ask(|reply| Command::PutPublishers(text(topic), list, reply))
                    .map(drop)
            }
            Step::Leave(topic, id) => {
                self.ask(|reply| Command::DeletePublisher(text(topic), text(id), reply))
            }
            Step::Delete(topic) => self.ask(|reply| Command::DeleteTopic(text(topic), reply)),
            Step::Name(name) => self
                .ask(|reply| Command::PutName(text(name), reply))
                .map(drop),
            Step::Create(topic, channel) => {
                let channel = text(channel);
                self.change(topic, TopicChange::ChannelCreated { channel })
            }
            Step::Pause(topic, channel) => {
                let channel = text(channel);
                self.change(topic, TopicChange::ChannelPaused { channel })
            }
            Step::DeleteChannel(topic, channel) => {
                let channel = text(channel);
                self.change(topic, TopicChange::ChannelDeleted { channel })
            }
            Step::Drain(true) => self
                .ask(|reply| Command::DrainBroker(text("b1"), reply))
                .map(drop),
            Step::Drain(false) => self
                .ask(|reply| Command::ResumeBroker(text("b1"), reply))
                .map(drop),
            Step::Remove => {
                self.service.hear_links(FromLink::Lost(1));
                self.service.finished();
                self.ask(|reply| Command::RemoveBroker(text("b1"), reply))
            }
        };
        match answered {
            Ok(()) => self.expected.follow(step),
            Err(ControlError::NotKept(text)) => {
                assert!(text.contains("nothing was changed"), "{text}");
                self.refusals += 1;
            }
            // What it is about was refused before.
            Err(ControlError::NotFound(_)) if self.refusals > 0 => {}
            Err(error) => panic!("{step:?}: {error}"),
        }
    }

    fn change(&mut self, topic: &str, change: TopicChange) -> Result<(), ControlError> {
        self.ask(|reply| Command::ChangeTopic(topic.to_owned(), change, reply))
    }

    fn ask<T>(&mut self, make: impl FnOnce(Reply<T>) -> Command) -> Result<T, ControlError> {
        let (reply, mut answer) = oneshot::channel();
        self.service.asked(make(reply));
        // The broker does as it is told, at once.
        while let Ok(told) = self.orders.try_recv() {
            match told.order {
                ToBroker::Contract { topic, ticket, .. } => {
                    says(
                        &mut self.service,
                        ToController::ContractInForce { topic, ticket },
                    );
                }
                ToBroker::Topic { state, ticket } => {
                    let topic = state.topic;
                    says(
                        &mut self.service,
                        ToController::TopicReady { topic, ticket },
                    );
                }
                _ => {}
            }
        }
        let late = self.service.now() + Duration::from_secs(3);
        self.service.late(late);
        answer.try_recv().expect("answered")
    }

    /// It has what was answered 200 and nothing else, and so has one that starts from what is kept.
    fn check(&self, at: &str) {
        let now = self.service.now();
        assert_eq!(State::of(&self.service.core, now), self.expected, "{at}");
        let kept = self.store.0.lock().expect("whole").kept.clone();
        let restarted = Core::restore(crate::Settings::default(), &kept, now).expect("kept");
        assert_eq!(State::of(&restarted, now), self.expected, "{at}, restarted");
    }

    /// Later than any pause it is tried again.
    fn later(&mut self) {
        self.tried += Duration::from_secs(20);
        let now = self.service.now() + self.tried;
        self.service.try_again(now);
    }
}

/// A service over a store, and what it orders its one broker.
fn open(store: &Failing) -> (Service, mpsc::Receiver<Order>) {
    let opened = Service::open(
        crate::Settings::default(),
        Box::new(store.clone()),
        LinkKey::new([1; 32]),
        None,
    );
    let (mut service, ..) = opened.expect("memory");
    let (orders, taken) = mpsc::channel(1024);
    let (link, from, hello) = (1, [127, 0, 0, 1].into(), Box::new(hello()));
    service.hear_links(FromLink::Hello {
        link,
        from,
        hello,
        orders,
    });
    service.finished();
    is_there(&mut service);
    let (topics, is_last) = (Vec::new(), true);
    says(&mut service, ToController::Inventory { topics, is_last });
    (service, taken)
}

/// One that starts without room serves what is kept; one that has nothing to serve does not start.
#[tokio::test]
async fn without_room_a_controller_starts_from_what_is_kept() {
    let mut world = World::new(0..0);
    for step in [
        Step::Put("t", 100.0),
        Step::Publish("t", "a", 5.0),
        Step::Name("n"),
    ] {
        world.step(step);
    }
    let store = world.store.clone();
    let fills = |full: bool| {
        let mut medium = store.0.lock().expect("whole");
        medium.fails = if full { 0..u32::MAX } else { 0..0 };
    };
    fills(true);
    for _ in 0..2 {
        world.restart();
        assert!(world.service.keeping.is_waiting());
        world.check("started without room");
        world.step(Step::Put("u", 1.0));
        world.step(Step::Name("m"));
        assert_eq!(world.refusals, 2);
        world.refusals = 0;
    }
    fills(false);
    world.later();
    world.step(Step::Put("u", 1.0));
    world.check("in the end");
    assert_eq!(world.refusals, 0);
    let nothing = Failing::default();
    nothing.0.lock().expect("whole").fails = 0..1;
    let opened = Service::open(
        crate::Settings::default(),
        Box::new(nothing),
        LinkKey::new([1; 32]),
        None,
    );
    let Err(error) = opened else {
        panic!("there is nothing to serve")
    };
    assert!(error.to_string().contains("make room"), "{error}");
}

#[tokio::test]
async fn whichever_write_fails_what_is_answered_is_the_truth() {
    let mut world = World::new(0..0);
    for step in STEPS {
        world.step(step);
        world.check(&format!("{step:?}"));
    }
    let commits = world.store.0.lock().expect("whole").commits;
    assert!(commits as usize >= STEPS.len(), "{commits}");
    let mut refusals = 0;
    for first in 0..commits {
        for failures in [1, 2, 5] {
            for recovers_after in [0, 1, 3, usize::MAX] {
                let mut world = World::new(first..first + failures);
                let mut full_for = 0;
                for step in STEPS {
                    world.step(step);
                    let at = format!("{failures} from {first}, {recovers_after}: {step:?}");
                    world.check(&at);
                    full_for += usize::from(world.service.keeping.is_waiting());
                    if full_for > recovers_after {
                        world.later();
                        world.check(&format!("{at}, later"));
                    }
                }
                for _ in 0..failures + 1 {
                    world.later();
                }
                assert!(!world.service.keeping.is_waiting());
                world.check(&format!("{failures} from {first}: in the end"));
                refusals += world.refusals;
            }
        }
    }
    assert!(refusals > STEPS.len(), "{refusals}");
}
