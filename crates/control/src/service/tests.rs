//! The order of writing, ordering and answering.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::store::{Change, MemoryStore, Table};
use crate::view::{NameView, PublisherSpec, TopicSpec};
use link::{Hello, LINK_VERSION, TopicChange};

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

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
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

#[test]
fn an_identifier_is_told_once_it_is_kept() {
    let (answer, names) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(0)));
    let store = Watching {
        kept: MemoryStore::default(),
        answer: Arc::clone(&answer),
        names: Arc::clone(&names),
    };
    let opened = Service::open(crate::Settings::default(), Box::new(store), None);
    let (mut service, ..) = opened.expect("memory");
    for (topic, id, commits) in [("a", 1, 1), ("b", 2, 2), ("a", 1, 2)] {
        let (reply, hears) = oneshot::channel();
        *answer.lock().expect("whole") = Some(hears);
        service.command(Command::PutName(topic.to_owned(), reply));
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
    orders: Option<mpsc::Receiver<ToBroker>>,
    commits: u32,
}

impl Heard {
    fn orders(&mut self) -> Vec<String> {
        let orders = self.orders.as_mut().expect("linked");
        let orders = std::iter::from_fn(|| orders.try_recv().ok());
        let told = orders.filter_map(|order| match order {
            ToBroker::Contract { topic, limit, .. } => {
                Some(format!("{topic}: {}", limit.is_some()))
            }
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

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
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
    let opened = Service::open(crate::Settings::default(), Box::new(store), None);
    let (mut service, ..) = opened.expect("memory");
    let (orders, taken) = mpsc::channel(64);
    heard.lock().expect("whole").orders = Some(taken);
    let hello = Hello {
        version: LINK_VERSION,
        broker: String::from("b1"),
        incarnation: 1,
        tcp_address: String::from("127.0.0.1:4150"),
        http_address: None,
        gossip_address: None,
        mcap: None,
        model: None,
    };
    service.words_from(LinkWord::Hello {
        link: 1,
        hello: Box::new(hello),
        orders,
    });
    let (topics, is_last) = (Vec::new(), true);
    says(&mut service, ToController::Inventory { topics, is_last });
    (service, heard)
}

fn says(service: &mut Service, word: ToController) {
    service.words_from(LinkWord::Said(1, Box::new(word), RoomTaken::default()));
    service.settle();
}

#[test]
fn a_contract_is_kept_before_a_broker_hears_of_it_and_before_it_is_confirmed() {
    let (mut service, heard) = service();
    let limit = limit::Limit::messages(10.0, 5.0).expect("good");
    let spec = TopicSpec {
        limit: Some(limit),
        ..TopicSpec::default()
    };
    let (reply, mut answer) = oneshot::channel();
    service.command(Command::PutTopic(String::from("t"), spec, reply));
    assert!(matches!(answer.try_recv(), Err(TryRecvError::Empty)));
    service.settle();
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
    service.command(Command::DeleteTopic(String::from("t"), reply));
    let mut told = heard.lock().expect("whole");
    assert_eq!(
        (told.commits, told.orders()),
        (2, vec![String::from("t: false")])
    );
    assert!(answer.try_recv().expect("answered").is_ok());
}

#[test]
fn a_place_is_told_once_the_broker_has_the_channels() {
    let (mut service, heard) = service();
    let topic = || String::from("t");
    let channel = TopicChange::ChannelCreated {
        channel: String::from("c"),
    };
    let (reply, mut answer) = oneshot::channel();
    service.command(Command::ChangeTopic(topic(), channel, reply));
    assert!(answer.try_recv().expect("answered").is_ok());
    let publisher = |id: &str| PublisherSpec {
        id: id.to_owned(),
        rate: 1.0,
        batch: 1,
        group: None,
    };
    let (reply, mut first) = oneshot::channel();
    service.command(Command::PutPublishers(topic(), vec![publisher("a")], reply));
    let (reply, mut second) = oneshot::channel();
    let (id, avoid) = (String::from("a"), None);
    service.command(Command::Publisher {
        topic: topic(),
        id,
        avoid,
        reply,
    });
    service.settle();
    assert!(matches!(first.try_recv(), Err(TryRecvError::Empty)));
    assert_eq!(heard.lock().expect("whole").orders(), ["t: its channels"]);
    // Another one asks in vain for as long as it may wait.
    let late = service.now() + Duration::from_secs(3);
    service.placing.expire(&service.core, late);
    assert!(
        first.try_recv().expect("answered").expect("known")[0]
            .broker
            .is_none()
    );
    assert!(
        second
            .try_recv()
            .expect("answered")
            .expect("known")
            .broker
            .is_none()
    );
    let (reply, mut third) = oneshot::channel();
    service.command(Command::PutPublishers(topic(), vec![publisher("b")], reply));
    says(
        &mut service,
        ToController::TopicReady {
            topic: topic(),
            ticket: 1,
        },
    );
    let views = third.try_recv().expect("answered").expect("known");
    assert_eq!(views[0].broker.as_ref().expect("told").broker, "b1");
}
