//! Both listeners over sockets, and the HTTP API request by request; texts are those of nsqlookupd
//! 1.3.0.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tower::ServiceExt;

use super::*;
use crate::core::Topics;
use crate::handle::{BrokerHoldings, Command, Holdings, StoreState};
use crate::{ControlError, every_route};
use wire::lookup::{Identity, MAGIC, Subject, encode_answer};

fn lookup(handle: Option<ControlHandle>) -> Arc<Lookup> {
    Arc::new(Lookup::new(handle, Config::default(), [4160, 4161]))
}

fn subject(topic: &str, channel: Option<&str>) -> Subject {
    Subject {
        topic: topic.parse().expect("valid"),
        channel: channel.map(|name| name.parse().expect("valid")),
    }
}

/// An nsqd that has registered two topics and a channel.
fn register_one(lookup: &Lookup) {
    let identity = Identity {
        broadcast_address: String::from("h1"),
        hostname: String::from("m1"),
        tcp_port: 1,
        http_port: 2,
        version: String::from("1.3.0"),
    };
    let mut registry = lookup.registry();
    let address = String::from("10.0.0.1:5000");
    registry.identify(1, address, identity, lookup.now());
    for names in [subject("t", Some("c")), subject("u", None)] {
        registry.register(1, &names).expect("room");
    }
}

/// Status, the two content types, and the body as it is.
async fn ask(lookup: &Arc<Lookup>, method: &str, path: &str) -> (u16, [String; 2], String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).expect("a request");
    let response = api::router(Arc::clone(lookup), None).oneshot(request).await;
    let response = response.expect("infallible");
    let status = response.status().as_u16();
    let types = ["content-type", "x-nsq-content-type"].map(|name| {
        let value = response.headers().get(name);
        value
            .map_or("", |value| value.to_str().expect("text"))
            .to_owned()
    });
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await;
    let body = body.expect("short").to_vec();
    (status, types, String::from_utf8(body).expect("text"))
}

/// Requests in their order, status and body. `PRODUCER` stands for the fields of the one that is registered, and a code for
/// the error that it is.
const ANSWERS: &[(&str, u16, &str)] = &[
    ("GET /info", 200, r#"{"version":"1.3.0"}"#),
    ("GET /topics", 200, r#"{"topics":["t","u"]}"#),
    ("GET /channels?topic=t", 200, r#"{"channels":["c"]}"#),
    ("GET /channels?topic=none", 200, r#"{"channels":[]}"#),
    ("GET /channels", 400, "MISSING_ARG_TOPIC"),
    (
        "GET /lookup?topic=t",
        200,
        r#"{"channels":["c"],"producers":[{PRODUCER}]}"#,
    ),
    (
        "GET /lookup?topic=u",
        200,
        r#"{"channels":[],"producers":[{PRODUCER}]}"#,
    ),
    ("GET /lookup?topic=none", 404, "TOPIC_NOT_FOUND"),
    ("GET /lookup?topic=*", 404, "TOPIC_NOT_FOUND"),
    ("GET /lookup?topic=", 404, "TOPIC_NOT_FOUND"),
    ("GET /lookup", 400, "MISSING_ARG_TOPIC"),
    ("GET /lookup?topic=a%", 400, "INVALID_REQUEST"),
    (
        "GET /nodes",
        200,
        r#"{"producers":[{PRODUCER,"tombstones":[false,false],"topics":["t","u"]}]}"#,
    ),
    ("GET /nowhere", 404, "NOT_FOUND"),
    ("POST /lookup?topic=t", 405, "METHOD_NOT_ALLOWED"),
    ("GET /topic/create?topic=x", 405, "METHOD_NOT_ALLOWED"),
    ("POST /topic/create", 400, "MISSING_ARG_TOPIC"),
    ("POST /topic/create?topic=a%20b", 400, "INVALID_ARG_TOPIC"),
    ("POST /topic/create?topic=new", 200, ""),
    (
        "GET /lookup?topic=new",
        200,
        r#"{"channels":[],"producers":[]}"#,
    ),
    ("POST /channel/create?channel=x", 400, "MISSING_ARG_TOPIC"),
    ("POST /channel/create?topic=t", 400, "MISSING_ARG_CHANNEL"),
    (
        "POST /channel/create?topic=t&channel=a%20b",
        400,
        "INVALID_ARG_CHANNEL",
    ),
    ("POST /channel/create?topic=new&channel=x", 200, ""),
    ("GET /channels?topic=new", 200, r#"{"channels":["x"]}"#),
    (
        "POST /channel/delete?topic=new&channel=y",
        404,
        "CHANNEL_NOT_FOUND",
    ),
    ("POST /channel/delete?topic=new&channel=x", 200, ""),
    ("POST /topic/delete", 400, "MISSING_ARG_TOPIC"),
    ("POST /topic/delete?topic=none", 200, ""),
    ("POST /topic/delete?topic=*", 200, ""),
    ("POST /topic/delete?topic=new", 200, ""),
    ("POST /topic/tombstone", 400, "MISSING_ARG_TOPIC"),
    ("POST /topic/tombstone?topic=t", 400, "MISSING_ARG_NODE"),
    ("POST /topic/tombstone?topic=t&node=h1:2", 200, ""),
    (
        "GET /lookup?topic=t",
        200,
        r#"{"channels":["c"],"producers":[]}"#,
    ),
    (
        "GET /lookup?topic=u",
        200,
        r#"{"channels":[],"producers":[{PRODUCER}]}"#,
    ),
    (
        "GET /nodes",
        200,
        r#"{"producers":[{PRODUCER,"tombstones":[true,false],"topics":["t","u"]}]}"#,
    ),
];

const PRODUCER: &str = r#""remote_address":"10.0.0.1:5000","hostname":"m1","broadcast_address":"h1","tcp_port":1,"http_port":2,"version":"1.3.0""#;

#[tokio::test]
async fn answers_are_nsqlookupds_to_the_letter() {
    let lookup = lookup(None);
    register_one(&lookup);
    for &(request, status, body) in ANSWERS {
        let (method, path) = request.split_once(' ').expect("two words");
        let json = if body.is_empty() {
            ""
        } else {
            "application/json; charset=utf-8"
        };
        let types = [json, "nsq; version=1.0"].map(str::to_owned);
        let body = match status {
            200 => body.replace("PRODUCER", PRODUCER),
            _ => format!(r#"{{"message":"{body}"}}"#),
        };
        assert_eq!(
            ask(&lookup, method, path).await,
            (status, types, body),
            "{request}"
        );
    }
    let plain = ["text/plain; charset=utf-8", ""].map(str::to_owned);
    assert_eq!(
        ask(&lookup, "GET", "/ping").await,
        (200, plain, String::from("OK"))
    );
}

#[tokio::test]
async fn debug_shows_every_registration() {
    let lookup = lookup(None);
    assert_eq!(ask(&lookup, "GET", "/debug").await.2, "{}");
    register_one(&lookup);
    ask(&lookup, "POST", "/topic/tombstone?topic=t&node=h1:2").await;
    let debug: Value = serde_json::from_str(&ask(&lookup, "GET", "/debug").await.2).expect("JSON");
    let keys: Vec<&String> = debug.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["channel:t:c", "client::", "topic:t:", "topic:u:"]);
    let row = &debug["topic:t:"][0];
    assert_eq!(row["id"], "10.0.0.1:5000");
    assert_eq!(row["tombstoned"], true);
    assert!(row["tombstoned_at"].as_i64() > Some(0) && row["last_update"].as_i64() > Some(0));
    assert_eq!(
        debug["topic:u:"][0]["tombstoned_at"],
        json!(-6_795_364_578_871_345_152_i64)
    );
}

/// A control plane with two brokers that answers `Holdings`, takes changes, and counts what it is asked.
struct Plane {
    handle: ControlHandle,
    asked: Arc<AtomicUsize>,
    version: Arc<AtomicU64>,
    changes: Arc<Mutex<Vec<String>>>,
}

fn control_plane() -> Plane {
    let (commands, mut waiting) = mpsc::channel(8);
    let (events, _) = broadcast::channel(8);
    let (asked, version) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
    let changes: Arc<Mutex<Vec<String>>> = Arc::default();
    let (counted, noted) = (Arc::clone(&asked), Arc::clone(&changes));
    tokio::spawn(async move {
        while let Some(command) = waiting.recv().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut noted = noted.lock().expect("whole");
            match command {
                Command::Holdings(_, _, reply) => drop(reply.send(Ok(holdings()))),
                Command::ChangeTopic(topic, change, reply) => {
                    noted.push(format!("{topic}: {change:?}"));
                    drop(reply.send(Ok(())));
                }
                Command::PlaceTombstone {
                    topic, node, reply, ..
                } => {
                    noted.push(format!("{topic}: tombstone for {node}"));
                    drop(reply.send(Ok(())));
                }
                other => panic!("lookup asks for {other:?}"),
            }
        }
    });
    Plane {
        handle: ControlHandle::new(
            commands,
            events,
            (Arc::clone(&version), Default::default()),
            watch::channel(StoreState::default()).1,
        ),
        asked,
        version,
        changes,
    }
}

fn topics(topics: &[(&str, &[&str])]) -> Topics {
    let topics = topics.iter().map(|(topic, channels)| {
        let channels = channels
            .iter()
            .map(|name| name.parse().expect("a good name"));
        (topic.parse().expect("a good name"), channels.collect())
    });
    topics.collect()
}

fn holdings() -> Holdings {
    let silent = BrokerHoldings {
        broker: String::from("b3"),
        tcp_address: String::from("10.1.0.3:4150"),
        silent_for: Duration::from_secs(301),
        topics: topics(&[("t", &["c"])]),
        ..BrokerHoldings::default()
    };
    let brokers = vec![
        BrokerHoldings {
            broker: String::from("b1"),
            tcp_address: String::from("10.1.0.1:4150"),
            http_address: Some(String::from("10.1.0.1:4151")),
            silent_for: Duration::from_secs(300),
            topics: topics(&[("t", &["c", "d#ephemeral"])]),
            placed: topics(&[("own", &[])]).into_keys().collect(),
        },
        BrokerHoldings {
            broker: String::from("b2"),
            tcp_address: String::from("h1:1"),
            topics: topics(&[("t", &["c"])]),
            ..BrokerHoldings::default()
        },
        silent,
    ];
    Holdings {
        brokers,
        topics: topics(&[("t", &["c", "away"]), ("declared", &[])]),
        last: None,
    }
}

#[tokio::test]
async fn brokers_of_the_control_plane_are_found_without_registering() {
    let plane = control_plane();
    let mut lookup = lookup(Some(plane.handle));
    register_one(&lookup);
    let hosts = async |lookup: &Arc<Lookup>, path: &str| {
        let answer: Value = serde_json::from_str(&ask(lookup, "GET", path).await.2).expect("JSON");
        let producers = answer["producers"].as_array().expect("a list").clone();
        let of = |producer: &Value| format!("{}:{}", producer["hostname"], producer["tcp_port"]);
        producers.iter().map(of).collect::<Vec<String>>()
    };
    // b2 has registered too, under the address that it has here: it is told once.
    assert_eq!(
        hosts(&lookup, "/lookup?topic=t").await,
        ["\"b1\":4150", "\"b2\":1"]
    );
    assert_eq!(hosts(&lookup, "/nodes").await, ["\"b1\":4150", "\"b2\":1"]);
    assert_eq!(hosts(&lookup, "/lookup?topic=own").await, ["\"b1\":4150"]);
    assert!(hosts(&lookup, "/lookup?topic=declared").await.is_empty());
    assert_eq!(
        ask(&lookup, "GET", "/topics").await.2,
        r#"{"topics":["declared","own","t","u"]}"#
    );
    assert_eq!(
        ask(&lookup, "GET", "/channels?topic=t").await.2,
        r#"{"channels":["away","c","d#ephemeral"]}"#
    );
    assert_eq!(
        ask(
            &lookup,
            "POST",
            "/topic/tombstone?topic=t&node=10.1.0.1:4151"
        )
        .await
        .0,
        200
    );
    assert_eq!(hosts(&lookup, "/lookup?topic=t").await, ["\"b2\":1"]);
    assert_eq!(hosts(&lookup, "/lookup?topic=own").await, ["\"b1\":4150"]);
    let nodes: Value = serde_json::from_str(&ask(&lookup, "GET", "/nodes").await.2).expect("JSON");
    assert_eq!(nodes["producers"][0]["tombstones"], json!([false, true]));
    let shared = Arc::get_mut(&mut lookup).expect("no request is under way");
    shared.zero -= Duration::from_secs(45);
    assert_eq!(
        hosts(&lookup, "/lookup?topic=t").await,
        ["\"b1\":4150", "\"b2\":1"]
    );
}

#[tokio::test]
async fn what_is_done_by_hand_is_done_at_the_brokers() {
    let plane = control_plane();
    let lookup = lookup(Some(plane.handle));
    register_one(&lookup);
    for (path, status, expected) in [
        ("/topic/create?topic=new", 200, Some("new: TopicCreated")),
        (
            "/channel/create?topic=new&channel=x",
            200,
            Some(r#"new: ChannelCreated { channel: "x" }"#),
        ),
        ("/channel/create?topic=new&channel=x%23ephemeral", 200, None),
        (
            "/channel/delete?topic=t&channel=away",
            200,
            Some(r#"t: ChannelDeleted { channel: "away" }"#),
        ),
        ("/channel/delete?topic=new&channel=x%23ephemeral", 200, None),
        ("/channel/delete?topic=t&channel=nobodys", 404, None),
        ("/topic/delete?topic=t", 200, Some("t: TopicDeleted")),
        ("/topic/delete?topic=nobodys", 200, None),
        (
            "/topic/tombstone?topic=t&node=10.1.0.1:4151",
            200,
            Some("t: tombstone for 10.1.0.1:4151"),
        ),
        ("/topic/tombstone?topic=t&node=10.9.9.9:4151", 200, None),
    ] {
        assert_eq!(ask(&lookup, "POST", path).await.0, status, "{path}");
        let changes = std::mem::take(&mut *plane.changes.lock().expect("whole"));
        assert_eq!(changes.first().map(String::as_str), expected, "{path}");
    }
}

#[tokio::test]
async fn one_answer_of_the_control_plane_serves_everybody_until_something_changes() {
    let plane = control_plane();
    let cluster = Cluster::new(Some(plane.handle), Rules::default());
    for (at_ms, version, asked) in [
        (0, 0, 1),
        (199, 0, 1),
        (200, 0, 2),
        (201, 1, 2),
        (202, 1, 3),
        (401, 1, 3),
        (5_000, 1, 4),
    ] {
        plane.version.store(version, Ordering::Relaxed);
        let now = Instant::ZERO + Duration::from_millis(at_ms);
        let snapshot = cluster.snapshot(now).await.expect("there");
        assert_eq!(snapshot.brokers.len(), 2, "one is silent");
        assert_eq!(plane.asked.load(Ordering::Relaxed), asked, "{at_ms} ms");
    }
}

#[tokio::test]
async fn without_its_control_plane_it_says_so_instead_of_half() {
    let (commands, mut asked) = mpsc::channel(8);
    let (events, _) = broadcast::channel(8);
    let handle = ControlHandle::new(
        commands,
        events,
        Default::default(),
        watch::channel(StoreState::default()).1,
    );
    let lookup = lookup(Some(handle));
    register_one(&lookup);
    tokio::spawn(async move {
        let busy = || Err(ControlError::Unavailable(String::from("stopping")));
        if let Some(Command::Holdings(_, _, reply)) = asked.recv().await {
            drop(reply.send(busy()));
        }
    });
    for _ in 0..2 {
        let (status, _, body) = ask(&lookup, "GET", "/lookup?topic=t").await;
        assert_eq!(
            (status, body.as_str()),
            (503, r#"{"message":"CONTROLLER_UNAVAILABLE"}"#)
        );
    }
}

struct Peer(TcpStream);

impl Peer {
    async fn connect(address: std::net::SocketAddr) -> Peer {
        let mut stream = TcpStream::connect(address).await.expect("listening");
        stream.write_all(&MAGIC).await.expect("open");
        Peer(stream)
    }

    async fn say(&mut self, bytes: &[u8]) -> String {
        self.0.write_all(bytes).await.expect("open");
        let size = self.0.read_u32().await.expect("an answer");
        let mut answer = vec![0; size as usize];
        self.0.read_exact(&mut answer).await.expect("whole");
        String::from_utf8(answer).expect("text")
    }

    async fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]).await, Ok(0) | Err(_))
    }
}

fn identify() -> Vec<u8> {
    let body = r#"{"broadcast_address":"h1","hostname":"m1","tcp_port":1,"http_port":2,"version":"1.3.0"}"#;
    [&b"IDENTIFY\n"[..], &encode_answer(body.as_bytes())].concat()
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("listening");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn a_peer_registers_is_found_goes_and_the_end_closes_everything() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let http = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (tcp_at, http_at) = (
        tcp.local_addr().expect("bound"),
        http.local_addr().expect("bound"),
    );
    let config = Config {
        broadcast_address: Some(String::from("lookup.example")),
        ..Config::default()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve(None, Some(tcp), http, config, async move {
        drop(stopped.await)
    }));

    let mut stranger = Peer::connect(tcp_at).await;
    assert_eq!(
        stranger.say(b"REGISTER t\nmore").await,
        "E_INVALID client must IDENTIFY"
    );
    assert!(stranger.is_closed().await);

    let mut peer = Peer::connect(tcp_at).await;
    let answer: Value = serde_json::from_str(&peer.say(&identify()).await).expect("JSON");
    assert_eq!(answer["broadcast_address"], "lookup.example");
    assert_eq!(
        (&answer["tcp_port"], &answer["http_port"]),
        (&json!(tcp_at.port()), &json!(http_at.port()))
    );
    assert_eq!(
        (&answer["version"], answer["hostname"].is_string()),
        (&json!("1.3.0"), true)
    );
    assert_eq!(peer.say(b"REGISTER t c\n").await, "OK");
    let address = peer.0.local_addr().expect("connected");
    let found = get(http_at, "/lookup?topic=t").await;
    assert!(
        found.contains(&format!(r#""remote_address":"{address}""#)),
        "{found}"
    );

    let mut second = Peer::connect(tcp_at).await;
    second.say(&identify()).await;
    assert_eq!(second.say(b"REGISTER t\n").await, "OK");
    drop(peer);
    // Its end is seen as soon as the system tells.
    while get(http_at, "/lookup?topic=t")
        .await
        .contains(&address.to_string())
    {
        tokio::task::yield_now().await;
    }
    stop.send(()).expect("still serving");
    serving.await.expect("ends although a peer is connected");
    assert!(second.is_closed().await);
}

#[tokio::test]
async fn every_route_asks_for_what_it_takes() {
    let list = api::routes(None).list().to_vec();
    assert_eq!(list.len(), 12);
    let router = api::router(lookup(None), Some(every_route::access()));
    every_route::check(&router, &list).await;
}
