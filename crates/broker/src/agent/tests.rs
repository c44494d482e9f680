//! A broker under a controller that the test plays over a real socket. Nothing sleeps: each step
//! waits for a message.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use limit::{Grant, Limit, Share};
use link::{
    BrokerReport, ChannelState, Contract, Door, Durability, LinkKey, MAX_FRAME_BYTES, OnFull,
    Opener, Order, Sealer, ToBroker, ToController, TopicChange, TopicReport, TopicState,
    WindowReport,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use wire::TopicName;

use super::*;
use crate::stats::{StatsFilter, TopicStats};
use crate::{BacklogConfig, Broker, BrokerError, Config, Operation};

/// Reports come so often here.
const REPORT_INTERVAL_MS: u64 = 10;

struct Fixture {
    broker: Broker,
    listener: TcpListener,
    stop: oneshot::Sender<()>,
    agent: JoinHandle<()>,
    /// What is on disk.
    folder: PathBuf,
}

/// The controller's end of one link.
struct Controller {
    /// Number of its life.
    epoch: u64,
    frames: Framed<TcpStream, LengthDelimitedCodec>,
    sealer: Sealer,
    opener: Opener,
}

/// What both ends know.
fn key() -> LinkKey {
    LinkKey::new([7; 32])
}

/// A place to listen, and where it is.
async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

/// Takes a link up to its hello.
async fn hear_hello_at(listener: &TcpListener) -> (Controller, Hello) {
    let (stream, _) = listener.accept().await.expect("dialled");
    let codec = LengthDelimitedCodec::builder()
        .max_frame_length(MAX_FRAME_BYTES)
        .new_codec();
    let mut frames = Framed::new(stream, codec);
    let first = frames.next().await.expect("open").expect("read");
    let begun = link::Listener::begin(key(), [3; 32], &first);
    let (listener, answer) = begun.expect("a link");
    frames.send(Bytes::from(answer)).await.expect("sent");
    let proof = frames.next().await.expect("open").expect("read");
    let (sealer, opener) = listener.proven(&proof).expect("the key");
    let mut controller = Controller {
        epoch: 7,
        frames,
        sealer,
        opener,
    };
    match controller.hear().await {
        ToController::Hello(hello) => (controller, hello),
        other => panic!("no hello: {other:?}"),
    }
}

impl Fixture {
    async fn start() -> Fixture {
        Fixture::passing_after(None).await
    }

    async fn passing_after(pass_after: Option<Duration>) -> Fixture {
        let (listener, address) = listener().await;
        Fixture::dialling(vec![address], listener, pass_after).await
    }

    /// A broker that knows controllers at several addresses, one of them that of `listener`.
    async fn dialling(
        addresses: Vec<String>,
        listener: TcpListener,
        pass_after: Option<Duration>,
    ) -> Fixture {
        let link = ControllerLink {
            addresses,
            advertised_tcp_address: Some(String::from("b1.example:4150")),
            mcap: Some(1000.0),
            pass_after,
            ..ControllerLink::new(String::new(), String::from("b1"), key())
        };
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("srtm-agent-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let config = Config {
            tcp_address: ([127, 0, 0, 1], 0).into(),
            http_address: None,
            threads: 2,
            backlog: Some(BacklogConfig::within(folder.clone())),
            controller: Some(link.clone()),
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        let broker = Broker::start(config).expect("starts");
        let (stop, stopped) = oneshot::channel::<()>();
        let agent = tokio::spawn(run(
            broker.handle(),
            link,
            String::from("127.0.0.1:1"),
            Some(String::from("127.0.0.1:2")),
            async {
                let _ = stopped.await;
            },
        ));
        Fixture {
            broker,
            listener,
            stop,
            agent,
            folder,
        }
    }

    /// Takes a link up to its hello.
    async fn hear_hello(&self) -> (Controller, Hello) {
        hear_hello_at(&self.listener).await
    }

    /// A link on which everything has been said.
    async fn link(&self) -> Controller {
        let (mut controller, _) = self.hear_hello().await;
        controller.welcome().await;
        controller.say(&ToBroker::Complete).await;
        controller
    }

    async fn end(self) {
        self.stop.send(()).expect("the agent runs");
        self.agent.await.expect("the agent ends when told to");
        self.broker.stop();
        let _ = std::fs::remove_dir_all(self.folder);
    }

    async fn publish(&self, topic: &str, messages: usize) {
        let bodies = vec![Bytes::from_static(b"m"); messages];
        let handle = self.broker.handle();
        let published = handle.publish(name(topic), bodies, Duration::ZERO).await;
        published.expect("published");
    }

    async fn subscribed(&self, topic: &str) {
        let handle = self.broker.handle();
        let made = handle.topic(name(topic), Operation::Create).await;
        made.expect("created");
        let channel = "c".parse().expect("valid");
        let made = handle.channel(name(topic), channel, Operation::Create);
        made.await.expect("created");
    }
}

impl Controller {
    async fn welcome(&mut self) {
        self.say(&ToBroker::Welcome {
            life: 5,
            report_interval_ms: REPORT_INTERVAL_MS,
            history_window_ms: 10_000,
        })
        .await;
    }

    async fn say(&mut self, order: &ToBroker) {
        let (epoch, order) = (self.epoch, order.clone());
        let bytes = link::encode(&Order { epoch, order }).expect("encodes");
        let frame = Bytes::from(self.sealer.seal(&bytes));
        self.frames.send(frame).await.expect("sent");
    }

    async fn hear(&mut self) -> ToController {
        let frame = self.frames.next().await.expect("open").expect("read");
        let bytes = self.opener.open(&frame).expect("sealed");
        link::decode(bytes).expect("a message of the link")
    }

    async fn report(&mut self) -> BrokerReport {
        loop {
            match self.hear().await {
                ToController::Report(report) => return report,
                ToController::TopicAsked { topic } => self.tell_topic(&topic, &[], 0).await,
                _ => {}
            }
        }
    }

    /// The next message that answers something. Topics are known as soon as they are asked for.
    async fn answer(&mut self) -> ToController {
        loop {
            match self.hear().await {
                ToController::Report(_)
                | ToController::Inventory { .. }
                | ToController::Changed { .. }
                | ToController::DeletionKept { .. }
                | ToController::TopicReady { .. } => {}
                ToController::TopicAsked { topic } => self.tell_topic(&topic, &[], 0).await,
                other => return other,
            }
        }
    }

    /// The next message of topics and channels as they become; asks nothing back.
    async fn message(&mut self) -> ToController {
        loop {
            match self.hear().await {
                ToController::Report(_) | ToController::DeletionKept { .. } => {}
                other => return other,
            }
        }
    }

    async fn tell_topic(&mut self, topic: &str, channels: &[&str], ticket: u64) {
        let channels = channels.iter().map(|channel| ChannelState {
            channel: (*channel).to_owned(),
            is_paused: false,
        });
        let state = TopicState {
            topic: topic.to_owned(),
            is_paused: false,
            channels: channels.collect(),
        };
        self.say(&ToBroker::Topic { state, ticket }).await;
    }

    /// The number of the first report from now on that says `is_so` of the topic.
    async fn until(&mut self, topic: &str, is_so: impl Fn(&TopicReport) -> bool) -> u64 {
        loop {
            let report = self.report().await;
            let mut named = report.topics.iter().filter(|said| said.topic == topic);
            if named.any(&is_so) {
                return report.number;
            }
        }
    }

    async fn grant(&mut self, topic: &str, seq: u64, answers: u64, share: Option<Share>) {
        let grant = Grant {
            epoch: 7,
            seq,
            share,
            floor: None,
            ttl_ms: 60_000,
            answers_report: answers,
            round: 0,
        };
        let topic = topic.to_owned();
        self.say(&ToBroker::Grant { topic, grant }).await;
    }

    async fn contract(&mut self, topic: &str, limit: Option<Limit>, ticket: u64) {
        self.entitle(topic, limit, None, ticket).await;
    }

    async fn entitle(
        &mut self,
        topic: &str,
        limit: Option<Limit>,
        cpu_share: Option<kernel::CpuShare>,
        ticket: u64,
    ) {
        let topic = topic.to_owned();
        let contract = ToBroker::Contract {
            topic: topic.clone(),
            contract: Contract {
                limit,
                cpu_share,
                ..Contract::default()
            },
            limit_number: None,
            ticket,
        };
        self.say(&contract).await;
        let in_force = ToController::ContractInForce { topic, ticket };
        assert_eq!(self.answer().await, in_force);
    }
}

fn name(topic: &str) -> TopicName {
    topic.parse().expect("valid")
}

fn limit() -> Limit {
    Limit::messages(1e6, 1000.0).expect("valid")
}

#[tokio::test]
async fn nothing_passes_a_limit_before_its_share_is_granted() {
    let fixture = Fixture::start().await;
    let mut controller = fixture.link().await;
    controller.contract("t", Some(limit()), 3).await;
    fixture.subscribed("t").await;
    fixture.publish("t", 5).await;
    let waits = |said: &TopicReport| said.depth == 5 && said.held.is_none();
    let report = controller.until("t", waits).await;
    let share = Some(Share::whole(&limit()));
    controller.grant("t", 4, report, share).await;
    let flows = |said: &TopicReport| said.depth == 0 && said.held == share;
    controller.until("t", flows).await;
    let confirmed = |said: &TopicReport| said.confirmed == (7, 4) && said.channels == ["c"];
    let report = controller.until("t", confirmed).await;
    // A share of nothing stops it again; an older grant does not bring it back.
    controller.grant("t", 5, report, None).await;
    controller.grant("t", 3, report, share).await;
    controller.until("t", |said| said.confirmed == (7, 5)).await;
    fixture.publish("t", 2).await;
    let waits = |said: &TopicReport| said.depth == 2 && said.held.is_none();
    controller.until("t", waits).await;
    // Without a limit there is nothing to have a share of.
    controller.contract("t", None, 6).await;
    controller.until("t", |said| said.depth == 0).await;
    fixture.end().await;
}

#[tokio::test]
async fn words_of_a_contract_are_orders_and_are_reported() {
    let fixture = Fixture::start().await;
    let mut controller = fixture.link().await;
    for (ticket, on_full, durability) in [
        (1, Some(OnFull::DropOldest), Durability::Memory),
        (2, Some(OnFull::Block), Durability::Fsync),
        (3, None, Durability::Disk),
        (4, None, Durability::Memory),
    ] {
        let contract = ToBroker::Contract {
            topic: String::from("t"),
            contract: Contract {
                on_full,
                durability,
                ..Contract::default()
            },
            limit_number: None,
            ticket,
        };
        controller.say(&contract).await;
        let topic = String::from("t");
        let in_force = ToController::ContractInForce { topic, ticket };
        assert_eq!(controller.answer().await, in_force);
        let is_so = |said: &TopicReport| (said.on_full, said.durability) == (on_full, durability);
        if on_full.is_some() || !durability.is_memory() {
            // Neither traffic nor a limit: it is told all the same.
            controller.until("t", is_so).await;
        }
    }
    fixture.end().await;
}

/// A topic without its limit would pass what the limit forbids. The controller keeps the contract.
#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_cannot_be_kept_is_in_force_all_the_same() {
    let fixture = Fixture::start().await;
    let name = format!("srtm-agent-unkept-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let file = crate::catalog_file::CatalogFile::open(&folder).expect("free");
    fixture.broker.handle().keep_in(file).await;
    std::fs::remove_dir_all(&folder).expect("removed");
    let mut controller = fixture.link().await;
    let topic = String::from("t");
    let contract = ToBroker::Contract {
        topic: topic.clone(),
        contract: Contract::of_limit(limit()),
        limit_number: None,
        ticket: 1,
    };
    controller.say(&contract).await;
    let problem = controller.answer().await;
    assert!(
        matches!(&problem, ToController::Problem { text } if text.contains("not kept yet")),
        "{problem:?}"
    );
    let in_force = ToController::ContractInForce { topic, ticket: 1 };
    assert_eq!(controller.answer().await, in_force);
    controller.until("t", |said| said.is_limited).await;
    fixture.end().await;
}

#[tokio::test]
async fn shares_of_time_are_orders_and_are_reported() {
    let fixture = Fixture::start().await;
    let mut controller = fixture.link().await;
    let share = |value| kernel::CpuShare::new(value).ok();
    controller.entitle("t", None, share(0.75), 1).await;
    // Neither traffic nor a limit: it is told all the same.
    let has = |value| move |said: &TopicReport| said.cpu_share == share(value);
    controller.until("t", has(0.75)).await;
    controller.entitle("t", Some(limit()), share(0.5), 2).await;
    let both = |said: &TopicReport| said.is_limited && said.cpu_share == share(0.5);
    controller.until("t", both).await;
    // A topic of the same reactor finds that half of its time is taken, and changes nothing.
    let home = |topic: &str| crate::reactor::home_of(topic, 2);
    let mut names = (0..).map(|number| format!("u{number}"));
    let other = names.find(|name| home(name) == home("t")).expect("soon");
    let too_much = ToBroker::Contract {
        topic: other.clone(),
        contract: Contract {
            cpu_share: share(0.6),
            ..Contract::of_limit(limit())
        },
        limit_number: None,
        ticket: 3,
    };
    controller.say(&too_much).await;
    match controller.answer().await {
        ToController::Problem { text } => {
            assert!(text.contains(&other) && text.contains("0.6"), "{text}");
        }
        answer => panic!("{answer:?}"),
    }
    let handle = fixture.broker.handle();
    let deleted = handle.topic(name(&other), Operation::Delete).await;
    assert!(
        matches!(deleted, Err(BrokerError::TopicNotFound(_))),
        "nothing was made"
    );
    controller.entitle(&other, None, share(0.5), 4).await;
    controller.until(&other, has(0.5)).await;
    // What is declared as neither needs no topic.
    controller.entitle(&other, None, None, 5).await;
    controller.entitle("nowhere", None, None, 6).await;
    let topics = handle.catalog().await.expect("answers").topics;
    let entitled = topics
        .iter()
        .filter(|topic| topic.contract.cpu_share.is_some());
    assert!(entitled.map(|topic| &topic.name).eq(["t"]), "{topics:?}");
    fixture.end().await;
}

#[tokio::test]
async fn whoever_knows_the_key_is_told_who_serves_the_port() {
    let fixture = Fixture::start().await;
    let ask = async |key: &LinkKey| {
        let question = link::probe_question(key, Door::Clients, &[4; 32]);
        let mut stream = TcpStream::connect(fixture.broker.tcp_address()).await?;
        let (first, rest) = question.split_at(10);
        stream.write_all(first).await?;
        stream.flush().await?;
        stream.write_all(rest).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok((question, answer))
    };
    let (question, answer) = ask(&key()).await.expect("answered");
    let present = link::probed(&key(), &question, &answer).expect("the key");
    assert_eq!(present.broker, "b1");
    assert_eq!(present.identity, link::Identity([0; 16]));
    let (_, answer) = ask(&LinkKey::new([8; 32])).await.expect("closed");
    assert!(answer.is_empty(), "a stranger is told nothing");
    fixture.end().await;
}

#[tokio::test]
async fn a_deleted_topic_keeps_its_limit() {
    let fixture = Fixture::start().await;
    let mut controller = fixture.link().await;
    controller.contract("t", Some(limit()), 1).await;
    let handle = fixture.broker.handle();
    let deleted = handle.topic(name("t"), Operation::Delete).await;
    deleted.expect("deleted");
    fixture.subscribed("t").await;
    fixture.publish("t", 3).await;
    controller.until("t", |said| said.depth == 3).await;
    fixture.end().await;
}

#[tokio::test]
async fn a_hello_tells_who_and_where_and_a_lost_link_is_dialled_anew() {
    let fixture = Fixture::start().await;
    let (controller, first) = fixture.hear_hello().await;
    assert_eq!(first.life, 0, "it was given none yet");
    assert_eq!(
        (&first.broker[..], &first.tcp_address[..], first.mcap),
        ("b1", "b1.example:4150", Some(1000.0))
    );
    assert_eq!(first.http_address.as_deref(), Some("127.0.0.1:2"));
    drop(controller);
    let mut controller = fixture.link().await;
    controller.contract("t", Some(limit()), 1).await;
    fixture.publish("t", 1).await;
    controller.until("t", |said| said.messages == 1).await;
    drop(controller);
    let (mut controller, second) = fixture.hear_hello().await;
    let same = Hello { life: 5, ..first };
    assert_eq!(
        second, same,
        "the same process, so the life that it was given"
    );
    controller.epoch = 8;
    let welcome = ToBroker::Welcome {
        life: 5,
        report_interval_ms: REPORT_INTERVAL_MS,
        history_window_ms: 10_000,
    };
    controller.say(&welcome).await;
    let report = controller.report().await;
    assert_eq!(report.number, 1);
    assert!(
        report.seconds > 0.04,
        "since the last report, not the last link: {report:?}"
    );
    assert_eq!(controller.report().await.number, 2);
    fixture.end().await;
}

#[tokio::test]
async fn windows_are_measured_and_what_cannot_be_done_is_told() {
    let fixture = Fixture::start().await;
    let mut controller = fixture.link().await;
    fixture.subscribed("t").await;
    let measure = |window, topic: &str, seconds| ToBroker::Measure {
        window,
        topic: topic.to_owned(),
        seconds,
        percentile: 99.0,
        promise_us: None,
        with_trace: true,
    };
    controller.say(&measure(1, "t", 0.05)).await;
    // Orders are carried out in turn, so the window is not older than this answer.
    controller.contract("other", None, 1).await;
    fixture.publish("t", 1).await;
    let (mut publishers, mut arrivals) = (Vec::new(), Vec::new());
    let report = loop {
        match controller.answer().await {
            ToController::Trace(part) => {
                assert_eq!((part.window, &part.topic[..]), (1, "t"));
                publishers.extend(part.publishers);
                arrivals.extend(part.arrivals);
            }
            ToController::Window(report) => break report,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((report.window, &report.topic[..]), (1, "t"));
    assert!(report.latency_us.is_none() && !report.is_trace_cut);
    // The window begins in a task of its own and may begin after the message.
    assert_eq!(publishers.len(), arrivals.len());
    controller.say(&measure(2, "nowhere", 0.01)).await;
    let nothing = WindowReport {
        window: 2,
        topic: String::from("nowhere"),
        seconds: 0.01,
        ..WindowReport::default()
    };
    assert_eq!(controller.answer().await, ToController::Window(nothing));
    // A second window of a topic takes the place of the first, which answers no more.
    controller.say(&measure(5, "t", 600.0)).await;
    controller.say(&measure(6, "t", 0.01)).await;
    match controller.answer().await {
        ToController::Window(report) => assert_eq!(report.window, 6),
        other => panic!("{other:?}"),
    }
    for (order, expected) in [
        (measure(3, "t", -1.0), "out of range"),
        (measure(4, "no name", 1.0), "is not a valid topic name"),
        (
            ToBroker::Refused {
                reason: String::new(),
                passes: false,
            },
            "not an order",
        ),
    ] {
        controller.say(&order).await;
        match controller.answer().await {
            ToController::Problem { text } => assert!(text.contains(expected), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    controller.grant("t", 1, 1, None).await;
    match controller.answer().await {
        ToController::Problem { text } => assert!(text.contains("share of t"), "{text}"),
        other => panic!("{other:?}"),
    }
    fixture.end().await;
}

impl Fixture {
    /// What a topic has, as soon as it `is_so`.
    async fn until(&self, topic: &str, is_so: impl Fn(&TopicStats) -> bool) -> TopicStats {
        let handle = self.broker.handle();
        loop {
            let filter = StatsFilter {
                topic: topic.to_owned(),
                ..StatsFilter::default()
            };
            let mut topics = handle.stats(filter).await.expect("answers").topics;
            if topics.first().is_some_and(&is_so) {
                return topics.remove(0);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn operate(&self, topic: &str, channel: Option<&str>, operation: Operation) {
        let handle = self.broker.handle();
        let done = match channel {
            None => handle.topic(name(topic), operation).await,
            Some(channel) => {
                let channel = channel.parse().expect("valid");
                handle.channel(name(topic), channel, operation).await
            }
        };
        done.expect("done");
    }
}

fn depths(topic: &TopicStats) -> Vec<(&str, u64)> {
    let channels = topic.channels.iter();
    channels
        .map(|each| (&each.channel[..], each.depth))
        .collect()
}

#[tokio::test]
async fn everything_here_is_said_and_held_until_the_controller_has_said_everything() {
    let fixture = Fixture::start().await;
    fixture.subscribed("t").await;
    fixture.publish("t", 3).await;
    fixture.subscribed("u").await;
    fixture.publish("u", 2).await;
    let (mut controller, _) = fixture.hear_hello().await;
    controller.welcome().await;
    let ToController::Inventory { topics, is_last } = controller.message().await else {
        panic!("no inventory");
    };
    let names = topics.iter().map(|state| &state.topic[..]);
    assert!(is_last && names.eq(["t", "u"]), "{topics:?}");
    assert_eq!(topics[0].channels[0].channel, "c");
    // One channel more, made elsewhere: it misses nothing.
    controller.tell_topic("t", &["c", "d"], 9).await;
    let ready = ToController::TopicReady {
        topic: String::from("t"),
        ticket: 9,
    };
    assert_eq!(controller.message().await, ready);
    let topic = fixture.until("t", |topic| topic.depth == 0).await;
    assert_eq!(depths(&topic), [("c", 3), ("d", 3)]);
    let waiting = fixture.until("u", |_| true).await;
    assert_eq!(
        (waiting.held, waiting.depth),
        (Some("no word from the controller"), 2)
    );
    controller.say(&ToBroker::Complete).await;
    let topic = fixture.until("u", |topic| topic.held.is_none()).await;
    assert_eq!(topic.topic, "u");
    fixture.until("u", |topic| topic.depth == 0).await;
    fixture.end().await;
}

#[tokio::test]
async fn what_becomes_of_topics_is_told_at_once_and_not_told_back() {
    let fixture = Fixture::start().await;
    let mut controller = fixture.link().await;
    assert!(matches!(
        controller.message().await,
        ToController::Inventory { is_last: true, .. }
    ));
    // A contract is answered behind `Complete`.
    controller.contract("other", None, 1).await;
    fixture.publish("t", 2).await;
    let changed = |change| ToController::Changed {
        topic: String::from("t"),
        change,
    };
    let asked = ToController::TopicAsked {
        topic: String::from("t"),
    };
    assert_eq!(
        [controller.message().await, controller.message().await],
        [changed(TopicChange::TopicCreated), asked]
    );
    controller.tell_topic("t", &["d"], 4).await;
    let ready = ToController::TopicReady {
        topic: String::from("t"),
        ticket: 4,
    };
    assert_eq!(controller.message().await, ready);
    fixture.operate("t", Some("d"), Operation::Pause).await;
    let channel = String::from("d");
    let paused = changed(TopicChange::ChannelPaused { channel });
    assert_eq!(controller.message().await, paused);
    fixture.end().await;
}

fn created(channel: &str) -> TopicChange {
    let channel = channel.to_owned();
    TopicChange::ChannelCreated { channel }
}

/// What a controller says of changes at other brokers.
fn changes_elsewhere() -> [(&'static str, TopicChange); 9] {
    let (d, channel) = (String::from("d"), String::from("d"));
    let nowhere = String::from("nowhere");
    [
        ("t", TopicChange::ChannelPaused { channel: d.clone() }),
        ("t", created("e")),
        ("t", TopicChange::ChannelResumed { channel }),
        ("t", TopicChange::ChannelEmptied { channel: d }),
        ("t", TopicChange::TopicPaused),
        ("t", created("x#ephemeral")),
        ("t", TopicChange::ChannelDeleted { channel: nowhere }),
        ("nowhere", TopicChange::TopicCreated),
        ("nowhere", TopicChange::TopicDeleted),
    ]
}

#[tokio::test]
async fn what_became_of_topics_elsewhere_is_done_here_and_not_told_back() {
    let fixture = Fixture::start().await;
    let (mut controller, _) = fixture.hear_hello().await;
    controller.welcome().await;
    assert!(matches!(
        controller.message().await,
        ToController::Inventory { is_last: true, .. }
    ));
    controller.tell_topic("t", &["d"], 4).await;
    controller.say(&ToBroker::Complete).await;
    let ready = ToController::TopicReady {
        topic: String::from("t"),
        ticket: 4,
    };
    assert_eq!(controller.message().await, ready);
    for (topic, change) in changes_elsewhere() {
        let topic = topic.to_owned();
        controller.say(&ToBroker::Change { topic, change }).await;
    }
    let contract = ToBroker::Contract {
        topic: String::from("t"),
        contract: Contract::default(),
        limit_number: None,
        ticket: 5,
    };
    controller.say(&contract).await;
    let in_force = ToController::ContractInForce {
        topic: String::from("t"),
        ticket: 5,
    };
    // Deletions are confirmed, also of what is not here.
    let followed = |topic: &str, change| ToController::Followed {
        topic: topic.to_owned(),
        change,
    };
    let channel = String::from("nowhere");
    let of_channel = followed("t", TopicChange::ChannelDeleted { channel });
    assert_eq!(controller.message().await, of_channel);
    let of_topic = followed("nowhere", TopicChange::TopicDeleted);
    assert_eq!(controller.message().await, of_topic);
    assert_eq!(controller.message().await, in_force);
    let topic = fixture.until("t", |_| true).await;
    assert_eq!(depths(&topic), [("d", 0), ("e", 0)]);
    assert!(topic.paused && !topic.channels[0].paused);
    a_deletion_is_confirmed_behind_what_was_said(&fixture, &mut controller).await;
    let handle = fixture.broker.handle();
    let topics = handle.catalog().await.expect("answers").topics;
    assert!(topics.is_empty(), "{topics:?}");
    fixture.end().await;
}

/// Deletes topic t; the topic is gone behind it.
async fn a_deletion_is_confirmed_behind_what_was_said(
    fixture: &Fixture,
    controller: &mut Controller,
) {
    fixture.operate("t", Some("own"), Operation::Create).await;
    let (topic, change) = (String::from("t"), TopicChange::TopicDeleted);
    controller.say(&ToBroker::Change { topic, change }).await;
    let own = ToController::Changed {
        topic: String::from("t"),
        change: TopicChange::ChannelCreated {
            channel: String::from("own"),
        },
    };
    assert_eq!(controller.message().await, own);
    let followed = ToController::Followed {
        topic: String::from("t"),
        change: TopicChange::TopicDeleted,
    };
    assert_eq!(controller.message().await, followed);
    controller.contract("other", None, 6).await;
}

#[tokio::test]
async fn a_controller_that_stays_away_is_given_up_where_that_is_asked_for() {
    let fixture = Fixture::passing_after(Some(Duration::from_millis(20))).await;
    fixture.subscribed("t").await;
    fixture.publish("t", 3).await;
    let topic = fixture.until("t", |topic| topic.held.is_none()).await;
    assert!(fixture.broker.handle().link.is_given_up());
    assert_eq!(topic.topic, "t");
    fixture.until("t", |topic| topic.depth == 0).await;
    // It comes after all: what comes into being from now on is asked for.
    let mut controller = fixture.link().await;
    controller.contract("other", None, 1).await;
    assert!(!fixture.broker.handle().link.is_given_up());
    fixture.publish("u", 1).await;
    let held = fixture.until("u", |topic| topic.held.is_some()).await;
    assert_eq!(held.held, Some("its channels are asked for"));
    // Gone again, for as long again.
    drop(controller);
    fixture.until("u", |topic| topic.held.is_none()).await;
    fixture.end().await;
}

#[tokio::test]
async fn the_next_controller_is_dialled_and_the_one_that_it_says_leads() {
    let (dead, nobody_there) = listener().await;
    drop(dead);
    let (follower, second) = listener().await;
    let (leader, third) = listener().await;
    let (_unasked, fourth) = listener().await;
    let addresses = vec![nobody_there, second, fourth];
    let fixture = Fixture::dialling(addresses, leader, None).await;
    let (mut told, _) = hear_hello_at(&follower).await;
    told.epoch = 0;
    let not_leading = ToBroker::NotLeading {
        leader: Some(third),
    };
    told.say(&not_leading).await;
    let mut controller = fixture.link().await;
    controller.contract("t", Some(limit()), 1).await;
    fixture.end().await;
}

#[tokio::test]
async fn the_orders_of_a_controller_that_was_deposed_change_nothing() {
    let (former, first) = listener().await;
    let (leader, second) = listener().await;
    let fixture = Fixture::dialling(vec![first, second], leader, None).await;
    let (mut deposed, _) = hear_hello_at(&former).await;
    deposed.welcome().await;
    deposed.say(&ToBroker::Complete).await;
    deposed.contract("t", Some(limit()), 1).await;
    drop(deposed);
    drop(former);
    let (mut controller, hello) = fixture.hear_hello().await;
    controller.epoch = 8;
    controller.welcome().await;
    controller.say(&ToBroker::Complete).await;
    controller.contract("u", Some(limit()), 2).await;
    assert_eq!(hello.life, 5);
    // An order of the life before, wherever it comes from, ends the link before it is carried out.
    controller.epoch = 7;
    let contract = ToBroker::Contract {
        topic: String::from("u"),
        contract: Contract::default(),
        limit_number: None,
        ticket: 3,
    };
    controller.say(&contract).await;
    let (mut controller, _) = fixture.hear_hello().await;
    // So does a welcome.
    controller.welcome().await;
    let (mut controller, _) = fixture.hear_hello().await;
    controller.epoch = 9;
    controller.welcome().await;
    controller.say(&ToBroker::Complete).await;
    controller.until("u", |said| said.is_limited).await;
    fixture.end().await;
}
