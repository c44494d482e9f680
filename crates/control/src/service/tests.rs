//! The order of writing, ordering and answering.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::core::Declared;
use crate::store::{Change, MemoryStore, Table};
use crate::view::{NameView, PublisherSpec, TopicSpec};
use link::{Door, Hello, Identity, LinkKey, Present, TopicChange};

mod leading;
mod refusals;
mod writing;

impl Service {
    /// As the loop does it: everything is written, and what rests on it done.
    fn finished(&mut self) {
        self.settle();
        while self.keeping.is_writing() || self.is_busy() {
            let next = match self.keeping.is_writing() {
                true => self.next_written().map(Next::Written),
                false => Some(Next::Part),
            };
            self.turn(next.expect("the thread goes on"));
        }
    }

    fn next_written(&mut self) -> Option<Written> {
        loop {
            match self.written.try_recv() {
                Ok(written) => return Some(written),
                Err(mpsc::error::TryRecvError::Empty) => std::thread::yield_now(),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
            }
        }
    }

    fn asked(&mut self, command: Command) {
        self.command(command);
        self.finished();
    }

    /// It is so late: those who have waited are answered.
    fn late(&mut self, now: Instant) {
        for asker in self.placing.expire(now) {
            self.tell_place(asker);
        }
        self.finished();
    }

    /// It is so late: what waits for the store is tried again.
    fn try_again(&mut self, now: Instant) {
        self.keeping.retry(now);
        self.finished();
    }
}

type Answer = oneshot::Receiver<Result<NameView, ControlError>>;

/// A store that looks, when it is written, whether an answer has gone out before.
struct Watching {
    kept: MemoryStore,
    answer: Arc<Mutex<Option<Answer>>>,
    names: Arc<Mutex<u32>>,
}

impl Store for Watching {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.kept.load(table)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        if changes.iter().any(|change| change.table == Table::Names) {
            *self.names.lock().expect("whole") += 1;
            let mut answer = self.answer.lock().expect("whole");
            let heard = answer.as_mut().expect("somebody asks").try_recv();
            assert!(
                matches!(heard, Err(TryRecvError::Empty)),
                "answered before it was kept"
            );
        }
        self.kept.commit(changes)
    }
}

#[tokio::test]
async fn an_identifier_is_told_once_it_is_kept() {
    let (answer, names) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(0)));
    let store = Watching {
        kept: MemoryStore::default(),
        answer: Arc::clone(&answer),
        names: Arc::clone(&names),
    };
    let opened = Service::open(
        crate::Settings::default(),
        Box::new(store),
        LinkKey::new([1; 32]),
        None,
    );
    let (mut service, ..) = opened.expect("memory");
    for (topic, id, commits) in [("a", 1, 1), ("b", 2, 2), ("a", 1, 2)] {
        let (reply, hears) = oneshot::channel();
        *answer.lock().expect("whole") = Some(hears);
        service.asked(Command::PutName(topic.to_owned(), reply));
        let heard = answer
            .lock()
            .expect("whole")
            .take()
            .expect("put there")
            .try_recv();
        let named = heard.expect("answered").expect("a good name");
        assert_eq!(
            (named.id, *names.lock().expect("whole")),
            (id, commits),
            "{topic}"
        );
    }
}

/// A store that counts what it is told, and refuses to be told once somebody has heard of it.
struct Strict {
    kept: MemoryStore,
    heard: Arc<Mutex<Heard>>,
}

/// What went out: orders to a broker, answers.
#[derive(Default)]
struct Heard {
    orders: Option<mpsc::Receiver<Order>>,
    commits: u32,
}

impl Heard {
    fn orders(&mut self) -> Vec<String> {
        let orders = self.orders.as_mut().expect("linked");
        let orders = std::iter::from_fn(|| orders.try_recv().ok());
        let told = orders.filter_map(|told| match told.order {
            ToBroker::Contract {
                topic, contract, ..
            } => Some(format!("{topic}: {}", contract.limit.is_some())),
            ToBroker::Topic { state, .. } => Some(format!("{}: its channels", state.topic)),
            _ => None,
        });
        told.collect()
    }
}

impl Store for Strict {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.kept.load(table)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        if changes.iter().any(|change| change.table == Table::Topics) {
            let mut heard = self.heard.lock().expect("whole");
            heard.commits += 1;
            assert!(heard.orders().is_empty(), "ordered before it was kept");
        }
        self.kept.commit(changes)
    }
}

/// A service with one broker, which has been told everything.
fn service() -> (Service, Arc<Mutex<Heard>>) {
    let heard: Arc<Mutex<Heard>> = Arc::default();
    let store = Strict {
        kept: MemoryStore::default(),
        heard: Arc::clone(&heard),
    };
    let opened = Service::open(
        crate::Settings::default(),
        Box::new(store),
        LinkKey::new([1; 32]),
        None,
    );
    let (mut service, ..) = opened.expect("memory");
    let (orders, taken) = mpsc::channel(64);
    heard.lock().expect("whole").orders = Some(taken);
    service.hear_links(FromLink::Hello {
        link: 1,
        from: [127, 0, 0, 1].into(),
        hello: Box::new(hello()),
        orders,
    });
    is_there(&mut service);
    let (topics, is_last) = (Vec::new(), true);
    says(&mut service, ToController::Inventory { topics, is_last });
    (service, heard)
}

/// The broker answers at its address.
fn is_there(service: &mut Service) {
    // The first that is given.
    let life = service.core.epoch() << 32;
    let probe = Probe {
        broker: 0,
        life,
        door: Door::Clients,
        address: String::from("127.0.0.1:4150"),
        is_known: false,
    };
    let present = Present {
        broker: String::from("b1"),
        identity: Identity([1; 16]),
        life,
    };
    let now = service.now();
    let present = ProbeAnswer::Present(present);
    service.core.probed(&probe, &present, now);
}

fn hello() -> Hello {
    Hello {
        broker: String::from("b1"),
        identity: Identity([1; 16]),
        life: 0,
        tcp_address: String::from("127.0.0.1:4150"),
        http_address: None,
        gossip_address: None,
        mcap: None,
        model: None,
    }
}

fn says(service: &mut Service, message: ToController) {
    service.hear_links(FromLink::Message(
        1,
        Box::new(message),
        RoomTaken::default(),
    ));
    service.finished();
}

#[tokio::test]
async fn a_contract_is_kept_before_a_broker_hears_of_it_and_before_it_is_confirmed() {
    let (mut service, heard) = service();
    let limit = limit::Limit::messages(10.0, 5.0).expect("good");
    let spec = TopicSpec::of_limit(limit);
    let (reply, mut answer) = oneshot::channel();
    service.asked(Command::PutTopic(String::from("t"), spec, reply));
    assert!(matches!(answer.try_recv(), Err(TryRecvError::Empty)));
    service.finished();
    let mut told = heard.lock().expect("whole");
    assert_eq!(
        (told.commits, told.orders()),
        (1, vec![String::from("t: true")])
    );
    drop(told);
    assert!(
        matches!(answer.try_recv(), Err(TryRecvError::Empty)),
        "the broker has not confirmed"
    );
    let topic = String::from("t");
    says(
        &mut service,
        ToController::ContractInForce { topic, ticket: 1 },
    );
    assert!(answer.try_recv().expect("answered").is_ok());

    // An answer about its end is no earlier.
    let (reply, mut answer) = oneshot::channel();
    service.asked(Command::DeleteTopic(String::from("t"), reply));
    let mut told = heard.lock().expect("whole");
    assert_eq!(
        (told.commits, told.orders()),
        (2, vec![String::from("t: false")])
    );
    assert!(answer.try_recv().expect("answered").is_ok());
}

#[tokio::test]
async fn a_place_is_told_once_the_broker_has_the_channels() {
    let (mut service, heard) = service();
    let topic = || String::from("t");
    let channel = TopicChange::ChannelCreated {
        channel: String::from("c"),
    };
    let (reply, mut answer) = oneshot::channel();
    service.asked(Command::ChangeTopic(topic(), channel, reply));
    assert!(answer.try_recv().expect("answered").is_ok());
    let publisher = |id: &str| PublisherSpec {
        id: id.to_owned(),
        rate: 1.0,
        batch: 1,
        group: None,
    };
    let (reply, mut first) = oneshot::channel();
    service.asked(Command::PutPublishers(
        topic(),
        declared(publisher("a")),
        reply,
    ));
    let (reply, mut second) = oneshot::channel();
    let (id, avoid) = (String::from("a"), None);
    service.asked(Command::Publisher {
        topic: topic(),
        id,
        avoid,
        reply,
    });
    service.finished();
    assert!(matches!(first.try_recv(), Err(TryRecvError::Empty)));
    assert_eq!(heard.lock().expect("whole").orders(), ["t: its channels"]);
    // Another one asks in vain for as long as it may wait.
    let late = service.now() + Duration::from_secs(3);
    service.late(late);
    first.try_recv().expect("answered").expect("taken");
    assert!(place_of(&service, "a").is_none());
    assert!(
        second
            .try_recv()
            .expect("answered")
            .expect("known")
            .broker
            .is_none()
    );
    let (reply, mut third) = oneshot::channel();
    service.asked(Command::PutPublishers(
        topic(),
        declared(publisher("b")),
        reply,
    ));
    says(
        &mut service,
        ToController::TopicReady {
            topic: topic(),
            ticket: 1,
        },
    );
    third.try_recv().expect("answered").expect("taken");
    assert_eq!(place_of(&service, "b").as_deref(), Some("b1"));
}

fn declared(publisher: PublisherSpec) -> Declared {
    Declared::new(vec![publisher]).expect("good")
}

/// The broker that a publisher of `t` is told.
fn place_of(service: &Service, id: &str) -> Option<String> {
    let views = service.core.publishers_named("t", &[id.to_owned()]);
    let place = views.into_iter().next().expect("known").broker;
    place.map(|place| place.broker)
}

/// A store that takes nothing while it is full.
#[derive(Clone, Default)]
struct Bounded {
    kept: Arc<Mutex<MemoryStore>>,
    is_full: Arc<AtomicBool>,
}

impl Store for Bounded {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.kept.lock().expect("whole").load(table)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(ControlError::Unavailable(String::from("no space left"))),
            false => self.kept.lock().expect("whole").commit(changes),
        }
    }
}

/// A service whose store can be filled, with one broker that has been told everything.
struct Filled {
    service: Service,
    handle: ControlHandle,
    store: Bounded,
    orders: mpsc::Receiver<Order>,
}

impl Filled {
    fn new() -> Filled {
        let store = Bounded::default();
        let opened = Service::open(
            crate::Settings::default(),
            Box::new(store.clone()),
            LinkKey::new([1; 32]),
            None,
        );
        let (service, handle, _) = opened.expect("memory");
        let mut filled = Filled {
            service,
            handle,
            store,
            orders: mpsc::channel(1).1,
        };
        filled.dial(1);
        filled
    }

    fn dial(&mut self, link: u64) {
        let (orders, taken) = mpsc::channel(64);
        self.orders = taken;
        let hello = Box::new(hello());
        self.service.hear_links(FromLink::Hello {
            link,
            from: [127, 0, 0, 1].into(),
            hello,
            orders,
        });
        self.service.finished();
        is_there(&mut self.service);
        let (topics, is_last) = (Vec::new(), true);
        let said = Box::new(ToController::Inventory { topics, is_last });
        self.service
            .hear_links(FromLink::Message(link, said, RoomTaken::default()));
        self.service.finished();
    }

    fn fill(&self, is_full: bool) {
        self.store.is_full.store(is_full, Ordering::Relaxed);
    }

    fn ask<T>(
        &mut self,
        make: impl FnOnce(Reply<T>) -> Command,
    ) -> Option<Result<T, ControlError>> {
        let (reply, mut answer) = oneshot::channel();
        self.service.asked(make(reply));
        answer.try_recv().ok()
    }

    fn put(&mut self, topic: &str) -> Option<Result<crate::view::TopicView, ControlError>> {
        let spec = TopicSpec::of_limit(limit::Limit::messages(10.0, 5.0).expect("good"));
        self.ask(|reply| Command::PutTopic(topic.to_owned(), spec, reply))
    }

    fn told(&mut self) -> Vec<&'static str> {
        let orders = std::iter::from_fn(|| self.orders.try_recv().ok());
        orders
            .filter_map(|told| match told.order {
                ToBroker::Contract { .. } => Some("contract"),
                ToBroker::Topic { .. } => Some("topic"),
                ToBroker::Complete => Some("complete"),
                ToBroker::Change { .. } => Some("change"),
                ToBroker::Welcome { .. } => Some("welcome"),
                _ => None,
            })
            .collect()
    }

    /// So much later it is tried again.
    fn later(&mut self, seconds: u64) {
        let now = self.service.now() + Duration::from_secs(seconds);
        self.service.try_again(now);
    }
}

/// The text of a 507.
fn not_kept<T: std::fmt::Debug>(answer: Option<Result<T, ControlError>>) -> String {
    match answer {
        Some(Err(ControlError::NotKept(text))) => text,
        other => panic!("{other:?} is no refusal of what cannot be kept"),
    }
}

#[tokio::test]
async fn with_a_full_store_changes_are_refused_and_everything_else_goes_on() {
    let mut filled = Filled::new();
    assert!(filled.put("before").is_none(), "the broker is to confirm");
    filled.told();
    filled.fill(true);
    let text = not_kept(filled.put("t"));
    assert!(
        text.contains("no space left") && text.contains("nothing was changed"),
        "{text}"
    );
    assert_eq!(filled.told(), [""; 0], "ordered before it was kept");
    let state = filled.handle.store_state();
    assert!(
        state
            .failure
            .is_some_and(|why| why.contains("no space left"))
    );
    assert_eq!(state.failures, 1);
    not_kept(filled.put("u"));
    not_kept(filled.ask(|reply| Command::DeleteTopic(String::from("before"), reply)));
    not_kept(filled.ask(|reply| Command::PutName(String::from("n"), reply)));
    not_kept(filled.ask(|reply| Command::DrainBroker(String::from("b1"), reply)));
    let ask = |reply| Command::Topics(None, usize::MAX, reply);
    let topics = filled.ask(ask).expect("read").expect("read");
    let names: Vec<&str> = topics.iter().map(|view| view.topic.as_str()).collect();
    assert_eq!(names, ["before"]);
    let brokers = filled.ask(Command::Brokers).expect("read").expect("read");
    assert!(!brokers[0].is_draining);
    filled.later(1);
    assert_eq!(filled.told(), [""; 0]);
    assert_eq!(filled.handle.store_state().failures, 2);
    // What keeps nothing is done.
    let emptied =
        |reply| Command::ChangeTopic(String::from("before"), TopicChange::TopicEmptied, reply);
    assert_eq!(filled.ask(emptied), Some(Ok(())));
    assert_eq!(filled.told(), ["change"]);
    // Once there is room, what was refused stays so.
    filled.fill(false);
    filled.later(3);
    assert_eq!(filled.told(), [""; 0]);
    assert_eq!(filled.handle.store_state().failure, None);
    let kept = filled.store.load(Table::Topics).expect("memory");
    assert_eq!(kept.len(), 1);
    assert!(filled.put("u").is_none());
    assert_eq!(filled.told(), ["contract"]);
}

#[tokio::test]
async fn an_identifier_that_is_not_kept_is_told_to_nobody() {
    let mut filled = Filled::new();
    let named = filled.ask(|reply| Command::PutName(String::from("a"), reply));
    assert_eq!(named.expect("answered").expect("kept").id, 1);
    filled.fill(true);
    let name = || String::from("n");
    not_kept(filled.ask(|reply| Command::PutName(name(), reply)));
    let named = filled.ask(|reply| Command::look(|core, _| core.name_view("n"), reply));
    assert!(
        matches!(named, Some(Err(ControlError::NotFound(_)))),
        "{named:?}"
    );
    let views = filled.ask(|reply| Command::look(|core, _| Ok(core.name_views(None)), reply));
    let views = views.expect("answered").expect("read");
    assert_eq!(views.names.len(), 1);
    let known = filled.ask(|reply| Command::PutName(String::from("a"), reply));
    assert_eq!(known.expect("answered").expect("it has one").id, 1);
    filled.fill(false);
    filled.later(1);
    let named = filled.ask(|reply| Command::PutName(name(), reply));
    assert_eq!(named.expect("answered").expect("kept").id, 2);
}

#[tokio::test]
async fn a_broker_that_dials_meanwhile_is_told_what_is_kept() {
    let mut filled = Filled::new();
    assert!(filled.put("t").is_none());
    filled.fill(true);
    not_kept(filled.ask(|reply| Command::DeleteTopic(String::from("t"), reply)));
    filled.dial(2);
    assert_eq!(filled.told(), ["welcome", "contract", "complete"]);
}

#[tokio::test]
async fn a_topic_that_comes_into_being_at_a_broker_is_answered_and_a_deletion_waits() {
    let mut filled = Filled::new();
    filled.told();
    filled.fill(true);
    let says = |filled: &mut Filled, change| {
        let topic = String::from("new");
        let message = Box::new(ToController::Changed { topic, change });
        filled
            .service
            .hear_links(FromLink::Message(1, message, RoomTaken::default()));
        filled.service.finished();
        filled.told()
    };
    assert_eq!(says(&mut filled, TopicChange::TopicCreated), ["topic"]);
    assert!(filled.handle.store_state().failure.is_some());
    let channel = String::from("c");
    let service = &mut filled.service;
    service.links.order(
        &service.keeping,
        0,
        ToBroker::Change {
            topic: String::from("new"),
            change: TopicChange::ChannelDeleted { channel },
        },
    );
    assert_eq!(filled.told(), [""; 0]);
    filled.fill(false);
    filled.later(1);
    assert_eq!(filled.told(), ["change"]);
}

#[tokio::test]
async fn a_place_that_is_kept_is_told_and_one_that_is_not_is_not() {
    let mut filled = Filled::new();
    let put = |filled: &mut Filled, id: &str| {
        let publisher = PublisherSpec {
            id: id.to_owned(),
            rate: 1.0,
            batch: 1,
            group: None,
        };
        filled.ask(|reply| Command::PutPublishers(String::from("t"), declared(publisher), reply))
    };
    put(&mut filled, "a").expect("answered").expect("kept");
    assert!(place_of(&filled.service, "a").is_some());
    filled.fill(true);
    not_kept(put(&mut filled, "b"));
    assert!(
        put(&mut filled, "a").expect("answered").is_ok(),
        "it changes nothing"
    );
    let ask = |filled: &mut Filled, id: &str| {
        let (topic, id, avoid) = (String::from("t"), id.to_owned(), None);
        filled.ask(|reply| Command::Publisher {
            topic,
            id,
            avoid,
            reply,
        })
    };
    let place = ask(&mut filled, "a").expect("answered").expect("kept");
    assert!(place.broker.is_some());
    let stranger = ask(&mut filled, "b");
    assert!(
        matches!(stranger, Some(Err(ControlError::NotFound(_)))),
        "{stranger:?}"
    );
    filled.fill(false);
    filled.later(1);
    assert!(put(&mut filled, "b").expect("answered").is_ok());
    assert!(ask(&mut filled, "b").expect("answered").is_ok());
}

#[tokio::test]
async fn brokers_are_shown_with_the_memory_that_they_report() {
    let mut filled = Filled::new();
    let memory = |filled: &mut Filled| {
        let views = filled.ask(Command::Brokers).expect("answered");
        let view = views.expect("read").remove(0);
        (view.memory_used_bytes, view.memory_budget_bytes)
    };
    assert_eq!(memory(&mut filled), (None, None));
    let report = link::BrokerReport {
        number: 1,
        memory: Some(link::MemoryReport {
            used_bytes: 7,
            budget_bytes: 64,
        }),
        ..link::BrokerReport::default()
    };
    says(&mut filled.service, ToController::Report(report));
    assert_eq!(memory(&mut filled), (Some(7), Some(64)));
    filled.dial(2);
    assert_eq!(memory(&mut filled), (None, None), "another process");
}
