//! The port as a whole, over a running broker: statuses, bodies and headers match nsqd 1.3.0.

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::*;
use crate::{Broker, Config};

mod announcements;
#[path = "../../../http/fixtures/every_route.rs"]
mod every_route;
mod memory;
mod shares;

/// A broker of its own per test, on ports that the system chooses.
struct Fixture {
    broker: Broker,
    router: Router,
}

struct Answer {
    status: u16,
    body: String,
    headers: axum::http::HeaderMap,
}

impl Fixture {
    fn start() -> Fixture {
        Fixture::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Fixture {
        let localhost = ([127, 0, 0, 1], 0).into();
        let mut config = Config {
            tcp_address: localhost,
            http_address: None,
            threads: 1,
            max_msg_size: 100,
            max_body_size: 1000,
            ..Config::default()
        };
        change(&mut config);
        let info = HttpInfo::new(&config, localhost, localhost, LogLevel::default());
        let broker = Broker::start(config).expect("starts");
        Fixture {
            router: router(broker.handle(), info),
            broker,
        }
    }

    async fn ask(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(body.into())
            .expect("request");
        let response: Response = self
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("infallible");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("body").to_bytes();
        let body = String::from_utf8(bytes.to_vec()).expect("text");
        Answer {
            status: parts.status.as_u16(),
            body,
            headers: parts.headers,
        }
    }

    async fn ok(&self, method: &str, path: &str, body: &str) -> String {
        let answer = self.ask(method, path, body.to_owned()).await;
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        answer.body
    }

    async fn stats(&self, query: &str) -> Value {
        let body = self
            .ok("GET", &format!("/stats?format=json&{query}"), "")
            .await;
        serde_json::from_str(&body).expect("JSON")
    }
}

/// Method, path, body, status, message. A body of `-` is empty, `@N` stands for N bytes.
const BAD_REQUESTS: &str = "
    GET  /nope                                          -          404 NOT_FOUND
    GET  /v1/nope                                       -          404 NOT_FOUND
    POST /ping                                          -          405 METHOD_NOT_ALLOWED
    GET  /pub?topic=t                                   -          405 METHOD_NOT_ALLOWED
    GET  /topic/create?topic=t                          -          405 METHOD_NOT_ALLOWED
    POST /pub?topic=t                                   -          400 MSG_EMPTY
    POST /pub                                           x          400 MISSING_ARG_TOPIC
    POST /pub?topic=                                    x          400 INVALID_TOPIC
    POST /pub?topic=a%20b                               x          400 INVALID_TOPIC
    POST /pub?topic=%zz                                 x          400 INVALID_REQUEST
    POST /pub?topic=t                                   @101       413 MSG_TOO_BIG
    POST /pub?topic=t&defer=x                           x          400 INVALID_DEFER
    POST /pub?topic=t&defer=-1                          x          400 INVALID_DEFER
    POST /pub?topic=t&defer=3600001                     x          400 INVALID_DEFER
    POST /mpub                                          x          400 MISSING_ARG_TOPIC
    POST /mpub?topic=!                                  x          400 INVALID_TOPIC
    POST /mpub?topic=t                                  @1001      413 BODY_TOO_BIG
    POST /mpub?topic=t                                  @101       413 MSG_TOO_BIG
    POST /mpub?topic=t&binary=true                      ab         413 BAD_BODY
    POST /mpub?topic=t&binary=yes                       xxxx       413 BAD_BODY
    POST /topic/create                                  -          400 MISSING_ARG_TOPIC
    POST /topic/create?topic=a;b                        -          400 INVALID_REQUEST
    POST /topic/create?topic=../x                       -          400 INVALID_TOPIC
    POST /topic/empty?topic=a%20b                       -          400 INVALID_TOPIC
    POST /topic/empty?topic=none                        -          404 TOPIC_NOT_FOUND
    POST /topic/delete                                  -          400 MISSING_ARG_TOPIC
    POST /topic/delete?topic=a%20b                      -          404 TOPIC_NOT_FOUND
    POST /topic/delete?topic=none                       -          404 TOPIC_NOT_FOUND
    POST /topic/pause?topic=a%20b                       -          404 TOPIC_NOT_FOUND
    POST /topic/unpause?topic=none                      -          404 TOPIC_NOT_FOUND
    POST /channel/create?channel=c                      -          400 MISSING_ARG_TOPIC
    POST /channel/create?topic=a%20b&channel=c          -          400 INVALID_ARG_TOPIC
    POST /channel/create?topic=t                        -          400 MISSING_ARG_CHANNEL
    POST /channel/create?topic=t&channel=%23ephemeral   -          400 INVALID_ARG_CHANNEL
    POST /channel/create?topic=none&channel=c           -          404 TOPIC_NOT_FOUND
    POST /channel/delete?topic=t&channel=none           -          404 CHANNEL_NOT_FOUND
    POST /channel/empty?topic=t&channel=none            -          404 CHANNEL_NOT_FOUND
    POST /channel/pause?topic=t&channel=none            -          404 CHANNEL_NOT_FOUND
    POST /channel/unpause?topic=none&channel=none       -          404 TOPIC_NOT_FOUND
    GET  /config/nope                                   -          400 INVALID_OPTION
    PUT  /config/mem_queue_size                         1          400 INVALID_OPTION
    PUT  /config/log_level                              -          413 INVALID_VALUE
    PUT  /config/log_level                              loud       400 INVALID_VALUE
    PUT  /config/nsqlookupd_tcp_addresses               [\"a\"]      400 INVALID_VALUE
    PUT  /config/nsqlookupd_tcp_addresses               {}         400 INVALID_VALUE
    GET  /stats?topic=%z                                -          400 INVALID_REQUEST
";

#[tokio::test]
async fn bad_requests_get_nsqds_answers() {
    let fixture = Fixture::start();
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    for row in BAD_REQUESTS.lines().filter(|row| !row.is_empty()) {
        let columns: Vec<_> = row.split_whitespace().collect();
        let [method, path, body, status, message] = columns[..] else {
            panic!("columns of {row}")
        };
        let body = match body.strip_prefix('@') {
            Some(length) => "x".repeat(length.parse().expect("length")),
            None => body.replace('-', ""),
        };
        let answer = fixture.ask(method, path, body).await;
        assert_eq!(answer.status.to_string(), status, "{row}");
        assert_eq!(
            answer.body,
            format!("{{\"message\":\"{message}\"}}"),
            "{row}"
        );
        assert_eq!(
            answer.headers["content-type"], "application/json; charset=utf-8",
            "{row}"
        );
        assert_eq!(
            answer.headers["x-nsq-content-type"], "nsq; version=1.0",
            "{row}"
        );
        assert_eq!(
            answer.headers.contains_key("allow"),
            status == "405",
            "{row}"
        );
    }
    let topics = fixture.stats("").await;
    assert_eq!(
        topics["topics"].as_array().map(Vec::len),
        Some(1),
        "a failure made a topic: {topics}"
    );
    assert_eq!(topics["topics"][0]["message_count"], 0);
    fixture.broker.stop();
}

#[tokio::test]
async fn plain_answers_are_nsqds() {
    let fixture = Fixture::start();
    let ping = fixture.ask("GET", "/ping", "").await;
    assert_eq!((ping.status, ping.body.as_str()), (200, "OK"));
    assert!(!ping.headers.contains_key("x-nsq-content-type"));
    let created = fixture.ask("POST", "/topic/create?topic=t", "").await;
    assert_eq!((created.status, created.body.as_str()), (200, ""));
    assert_eq!(created.headers["x-nsq-content-type"], "nsq; version=1.0");
    assert!(!created.headers.contains_key("content-type"));
    assert_eq!(fixture.ok("POST", "/pub?topic=t", "hello").await, "OK");
    assert_eq!(fixture.ok("POST", "/mpub?topic=t", "").await, "OK");
    assert_eq!(fixture.ok("GET", "/config/log_level", "").await, "2");
    assert_eq!(fixture.ok("PUT", "/config/log_level", "DEBUG").await, "1");
    assert_eq!(fixture.ok("GET", "/config/log_level", "").await, "1");
    let lookups = "/config/nsqlookupd_tcp_addresses";
    assert_eq!(fixture.ok("GET", lookups, "").await, "[]");
    for list in [r#"["a:1","b:2"]"#, "[]"] {
        assert_eq!(fixture.ok("PUT", lookups, list).await, list);
        assert_eq!(fixture.ok("GET", lookups, "").await, list);
    }
    assert_eq!(
        fixture.ok("GET", "/config/msg_timeout", "").await,
        "60000000000"
    );
    let info: Value = serde_json::from_str(&fixture.ok("GET", "/info", "").await).expect("JSON");
    assert_eq!(info["version"], "1.3.0");
    assert_eq!(info["max_heartbeat_interval"], 60_000_000_000u64);
    fixture.broker.stop();
}

#[tokio::test]
async fn publishing_and_operations_show_in_stats() {
    let fixture = Fixture::start();
    let empty = fixture
        .ok("GET", "/stats?format=json&include_mem=false", "")
        .await;
    assert!(
        empty.ends_with(r#""topics":[],"producers":null}"#),
        "{empty}"
    );
    for (path, body) in [
        ("/topic/create?topic=t", ""),
        ("/channel/create?topic=t&channel=c", ""),
        ("/channel/create?topic=t&channel=d", ""),
        ("/pub?topic=t", "one"),
        ("/mpub?topic=t", "two\nthree\n"),
        ("/mpub?topic=t&binary=1", "\0\0\0\x01\0\0\0\x04four"),
        ("/channel/pause?topic=t&channel=c", ""),
        ("/topic/pause?topic=t", ""),
        ("/pub?topic=u", "made by a publish"),
    ] {
        fixture.ok("POST", path, body).await;
    }
    let stats = fixture.stats("topic=t&channel=c&include_mem=0").await;
    let topic = &stats["topics"][0];
    assert_eq!(
        (&topic["topic_name"], &topic["paused"]),
        (&Value::from("t"), &Value::from(true))
    );
    assert_eq!(
        (
            topic["message_count"].as_u64(),
            topic["message_bytes"].as_u64()
        ),
        (Some(4), Some(15))
    );
    let channels = topic["channels"].as_array().expect("channels");
    assert_eq!(channels.len(), 1);
    assert_eq!(
        (&channels[0]["channel_name"], &channels[0]["paused"]),
        (&Value::from("c"), &Value::from(true))
    );
    assert!(stats.get("memory").is_none());
    assert!(fixture.stats("topic=none").await["topics"].is_null());
    assert!(
        fixture.stats("include_clients=false").await["topics"][0]["channels"][0]["clients"]
            .is_null()
    );
    fixture.ok("POST", "/topic/unpause?topic=t", "").await;
    fixture
        .ok("POST", "/channel/delete?topic=t&channel=d", "")
        .await;
    fixture.ok("POST", "/topic/delete?topic=u", "").await;
    let stats = fixture.stats("").await;
    assert_eq!(stats["topics"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        stats["topics"][0]["channels"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(stats["topics"][0]["paused"], false);
    fixture.broker.stop();
}

#[tokio::test]
async fn stats_have_nsqds_fields_in_nsqds_order() {
    let fixture = Fixture::start();
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    fixture
        .ok("POST", "/channel/create?topic=t&channel=c", "")
        .await;
    let body = fixture.ok("GET", "/stats?format=json", "").await;
    let order = "
        version health start_time topics topic_name channels channel_name depth
        backend_depth in_flight_count deferred_count message_count requeue_count
        timeout_count client_count clients paused e2e_processing_latency count percentiles
        depth backend_depth message_count message_bytes paused e2e_processing_latency srtm
        limit tokens dropped_count rejected_count delayed_count held_publishers latency_us
        memory heap_objects gc_total_runs srtm budget_bytes used_bytes parts bodies producers
    ";
    let mut rest = body.as_str();
    for key in order.split_whitespace() {
        let found = rest.split_once(&format!("\"{key}\":"));
        rest = found
            .unwrap_or_else(|| panic!("{key} is not where nsqd has it: {body}"))
            .1;
    }
    let text = fixture.ok("GET", "/stats?include_mem=false", "").await;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("nsqd v1.3.0 (built w/srtm "), "{text}");
    assert_eq!(lines[4], "Health: OK");
    assert_eq!(
        lines[7],
        "   [t              ] depth: 0     be-depth: 0     msgs: 0        e2e%: "
    );
    let channel = "      [c                        ] depth: 0     be-depth: 0     inflt: 0    def: 0    \
                   re-q: 0     timeout: 0     msgs: 0        e2e%: ";
    assert_eq!(lines[8], channel);
    assert_eq!(lines[10], "Producers: None");
    fixture.broker.stop();
}

#[tokio::test]
async fn contracts_are_declared_shown_kept_and_removed() {
    let fixture = Fixture::start();
    let declared = fixture
        .ok(
            "PUT",
            "/v1/topics/t",
            r#"{"limit":{"rate":1000,"burst":50}}"#,
        )
        .await;
    let in_force = r#"{"limit":{"burst":50,"on_exceed":"delay","rate":1000,"sharing":"lease","unit":"messages"}}"#;
    assert_eq!(declared, in_force);
    let refused = fixture
        .ask("PUT", "/v1/topics/t", r#"{"limit":{"rate":0,"burst":50}}"#)
        .await;
    assert_eq!(refused.status, 400);
    assert!(
        refused
            .body
            .starts_with(r#"{"error":"limit.rate: 0 is out of range"#),
        "{}",
        refused.body
    );
    assert_eq!(
        fixture.ok("GET", "/v1/topics/t", "").await,
        in_force,
        "the former contract stays"
    );
    for (method, path, body, status, text) in [
        (
            "PUT",
            "/v1/topics/u",
            r#"{"limit":null,"slo":{"percentile":99,"latency_us":1000}}"#,
            400,
            "slo: ",
        ),
        (
            "PUT",
            "/v1/topics/a%20b",
            r#"{"limit":null}"#,
            400,
            "not a valid name",
        ),
        ("PUT", "/v1/topics/u", "nonsense", 400, "not JSON"),
        ("GET", "/v1/topics/u", "", 404, "topic u does not exist"),
        ("DELETE", "/v1/topics/u", "", 404, "topic u does not exist"),
    ] {
        let answer = fixture.ask(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(
            answer.body.contains(text),
            "{method} {path}: {}",
            answer.body
        );
    }
    assert_eq!(
        fixture
            .ok("PUT", "/v1/topics/free", r#"{"limit":null}"#)
            .await,
        r#"{"limit":null}"#
    );
    assert_eq!(
        fixture.ok("DELETE", "/v1/topics/t", "").await,
        r#"{"limit":null}"#
    );
    let list: Value =
        serde_json::from_str(&fixture.ok("GET", "/v1/topics", "").await).expect("JSON");
    assert_eq!(
        list["topics"],
        serde_json::json!([{"name": "free", "limit": null}, {"name": "t", "limit": null}])
    );
    fixture.broker.stop();
}

#[tokio::test]
async fn under_a_controller_contracts_are_shown_and_not_declared() {
    let fixture = Fixture::with(|config| {
        config.controller = Some(crate::ControllerLink::new(
            String::from("ctl.example:4170"),
            String::from("b1"),
            link::LinkKey::new([1; 32]),
        ));
    });
    for (method, body) in [("PUT", r#"{"limit":null}"#), ("DELETE", "")] {
        let answer = fixture.ask(method, "/v1/topics/t", body).await;
        assert_eq!(answer.status, 409, "{method}");
        assert!(answer.body.contains("ctl.example:4170"), "{}", answer.body);
    }
    let limit = limit::Limit::messages(10.0, 5.0).expect("valid");
    let handle = fixture.broker.handle();
    let set = handle.set_contract("t".parse().expect("valid"), link::Contract::of_limit(limit));
    set.await.expect("set");
    let shown = fixture.ok("GET", "/v1/topics/t", "").await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(
        (&shown["limit"]["rate"], &shown["share"]),
        (&Value::from(10), &Value::Null)
    );
    let why = Value::from("no word from the controller");
    assert_eq!(shown["held"], why);
    let listed = fixture.ok("GET", "/v1/topics", "").await;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["topics"][0]["held"], why);
    fixture.broker.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_cannot_be_kept_is_answered_507_and_changes_nothing() {
    let fixture = Fixture::start();
    let name = format!("srtm-http-507-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let file = crate::catalog_file::CatalogFile::open(&folder).expect("opened");
    fixture.broker.handle().keep_in(file).await;
    let limit = |rate| format!(r#"{{"limit":{{"rate":{rate},"burst":5}}}}"#);
    fixture.ok("PUT", "/v1/topics/t", &limit(10)).await;
    std::fs::remove_dir_all(&folder).expect("removed");
    for (method, body) in [("PUT", limit(1000)), ("DELETE", String::new())] {
        let answer = fixture.ask(method, "/v1/topics/t", body).await;
        assert_eq!(answer.status, 507, "{method}");
        assert!(
            answer.body.contains("repair the data folder"),
            "{}",
            answer.body
        );
    }
    let in_force = fixture.ok("GET", "/v1/topics/t", "").await;
    assert!(in_force.contains(r#""rate":10,"#), "{in_force}");
    let ping = fixture.ask("GET", "/ping", "").await;
    assert_eq!(ping.status, 500);
    assert!(
        ping.body.starts_with("NOK - the catalog cannot be written"),
        "{}",
        ping.body
    );
    assert_eq!(fixture.stats("").await["health"], Value::from(ping.body));
    // The folder is there again; what is declared next is kept.
    std::fs::create_dir(&folder).expect("made");
    fixture.ok("PUT", "/v1/topics/t", &limit(1000)).await;
    assert_eq!(fixture.ok("GET", "/ping", "").await, "OK");
    std::fs::remove_dir_all(&folder).expect("removed");
    fixture.broker.stop();
}

#[tokio::test]
async fn releases_are_told_once_where_they_are_logged() {
    let fixture = Fixture::start();
    let answer = fixture.ask("GET", "/v1/topics/t/releases", "").await;
    assert_eq!(answer.status, 409, "{}", answer.body);
    fixture.broker.stop();

    let fixture = Fixture::with(|config| config.release_log_messages = 2);
    let answer = fixture.ask("GET", "/v1/topics/t/releases", "").await;
    assert_eq!(answer.status, 404, "{}", answer.body);
    let before = crate::sys::monotonic_now().as_nanos();
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    fixture
        .ok("POST", "/channel/create?topic=t&channel=c", "")
        .await;
    for _ in 0..3 {
        fixture.ok("POST", "/pub?topic=t", "x").await;
    }
    // A publish is answered before its message is passed on, which the same turn does.
    while fixture.stats("topic=t").await["topics"][0]["depth"] != 0 {}
    let request = Request::get("/v1/topics/t/releases").body(Body::empty());
    let asked = fixture.router.clone().oneshot(request.expect("request"));
    let response = asked.await.expect("infallible");
    assert_eq!(
        response.headers()["content-type"],
        "application/octet-stream"
    );
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("body")
        .to_bytes();
    let at = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let releases: Vec<u64> = bytes.chunks(8).map(at).collect();
    assert_eq!(releases.len(), 2, "two of three fit");
    let after = crate::sys::monotonic_now().as_nanos();
    assert!(releases.is_sorted() && before <= releases[0] && releases[1] <= after);
    assert_eq!(fixture.ok("GET", "/v1/topics/t/releases", "").await, "");
    fixture.broker.stop();
}

#[tokio::test]
async fn arrivals_are_recorded_while_the_request_lasts() {
    let fixture = Fixture::start();
    let answer = fixture
        .ask("POST", "/v1/topics/t/arrivals?window=10ms", "")
        .await;
    assert_eq!(answer.status, 404, "{}", answer.body);
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    fixture.ok("POST", "/pub?topic=t", "before").await;

    let path = "/v1/topics/t/arrivals?window=500ms";
    let recorded = fixture.ok("POST", path, "");
    let meanwhile = async {
        let second = fixture.ask("POST", path, "").await;
        assert_eq!(second.status, 409, "{}", second.body);
        assert!(
            second.body.contains("being recorded already"),
            "{}",
            second.body
        );
        loop {
            fixture.ok("POST", "/mpub?topic=t", "two\nthree").await;
        }
    };
    let recorded = tokio::select! {
        biased;
        recorded = recorded => recorded,
        () = meanwhile => unreachable!("it publishes for ever"),
    };
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    assert_eq!(recorded["publishers"], serde_json::json!(["~http"]));
    let arrivals = recorded["arrivals"].as_array().expect("arrivals");
    let last = arrivals.last().expect("one at least");
    assert_eq!((&last[1], &last[2]), (&Value::from(0), &Value::from(2)));
    let (begin, end) = (recorded["begin_ns"].as_u64(), recorded["end_ns"].as_u64());
    assert!(begin <= last[0].as_u64() && last[0].as_u64() <= end);
    assert_eq!(recorded["is_cut"], Value::from(false));
    fixture.broker.stop();
}

#[tokio::test]
async fn under_a_controller_recordings_and_windows_are_open_together() {
    let fixture = Fixture::with(|config| {
        config.controller = Some(crate::ControllerLink::new(
            String::from("ctl.example:4170"),
            String::from("b1"),
            link::LinkKey::new([1; 32]),
        ));
    });
    let handle = fixture.broker.handle();
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    let order = crate::window::WindowOrder {
        percentile: 99.0,
        with_trace: true,
        promise_us: None,
    };
    let topic: wire::TopicName = "t".parse().expect("valid");
    let begun = handle.begin_window(topic.clone(), order).await;
    begun.expect("there is a topic");
    let meanwhile = async {
        loop {
            fixture.ok("POST", "/mpub?topic=t", "two\nthree").await;
        }
    };
    let recorded = tokio::select! {
        biased;
        recorded = fixture.ok("POST", "/v1/topics/t/arrivals?window=50ms", "") => recorded,
        () = meanwhile => unreachable!("it publishes for ever"),
    };
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    let recorded = recorded["arrivals"].as_array().expect("arrivals");
    let window = handle.end_window(topic).await.expect("still open");
    let traced = serde_json::to_value(&window.arrivals).expect("JSON");
    let traced = traced.as_array().expect("arrivals");
    assert!(!recorded.is_empty() && traced.len() >= recorded.len());
    assert!(recorded.iter().all(|arrival| traced.contains(arrival)));
    fixture.broker.stop();
}

#[tokio::test]
async fn a_topic_that_is_deleted_while_it_is_recorded_is_gone() {
    let fixture = Fixture::start();
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    let recording = fixture.ask("POST", "/v1/topics/t/arrivals?window=50ms", "");
    let deleted = fixture.ok("POST", "/topic/delete?topic=t", "");
    let (answer, _) = tokio::join!(biased; recording, deleted);
    assert_eq!(answer.status, 410, "{}", answer.body);
    assert!(
        answer.body.contains("t was deleted while"),
        "{}",
        answer.body
    );
    fixture.broker.stop();
}

#[tokio::test]
async fn a_recording_that_nobody_waits_for_ends() {
    let fixture = Fixture::start();
    fixture.ok("POST", "/topic/create?topic=t", "").await;
    let mut abandoned = Box::pin(fixture.ok("POST", "/v1/topics/t/arrivals?window=9m", ""));
    let refused = async {
        while fixture
            .ask("POST", "/v1/topics/t/arrivals?window=10ms", "")
            .await
            .status
            != 409
        {}
    };
    tokio::select! {
        biased;
        _ = &mut abandoned => panic!("it lasts nine minutes"),
        () = refused => {}
    }
    drop(abandoned);
    while fixture
        .ask("POST", "/v1/topics/t/arrivals?window=10ms", "")
        .await
        .status
        == 409
    {
        tokio::task::yield_now().await;
    }
    fixture.broker.stop();
}

#[tokio::test]
async fn a_limit_that_rejects_answers_429() {
    let fixture = Fixture::start();
    let contract = r#"{"limit":{"rate":0.001,"burst":1,"on_exceed":"reject"}}"#;
    fixture.ok("PUT", "/v1/topics/t", contract).await;
    // The bucket starts empty and would need 1000 s for its first token.
    let answer = fixture.ask("POST", "/pub?topic=t", "x").await;
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert!(
        answer.body.starts_with(r#"{"message":""#),
        "{}",
        answer.body
    );
    let page = fixture.ok("GET", "/metrics", "").await;
    assert!(
        page.contains(r#"srtm_topic_limit_rate{topic="t"} 0.001"#),
        "{page}"
    );
    fixture.broker.stop();
}

#[tokio::test]
async fn real_sockets_are_served_bounded_and_closed() {
    let fixture = Fixture::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("address");
    let mut info = HttpInfo::new(
        fixture.broker.handle().config(),
        address,
        address,
        LogLevel::default(),
    );
    info.tcp_port = 4150;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let told = async {
        let _ = stopped.await;
    };
    let handle = fixture.broker.handle();
    let served = tokio::spawn(serve(handle, [Some(listener), None], info, told));
    let oversize = format!(
        "POST /pub?topic=t HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{}",
        "x".repeat(5000)
    );
    let endless =
        "POST /mpub?topic=t HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n"
            .to_owned();
    let cases = [
        ("  V2", "HTTP/1.1 400", "port 4150"),
        ("  V2SUB t c\n", "HTTP/1.1 400", "port 4150"),
        ("nonsense\r\n\r\n", "HTTP/1.1 400", ""),
        (
            "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200",
            "OK",
        ),
        ("GET /ping HTTP/1.0\r\n\r\n", "HTTP/1.0 200", "OK"),
        (oversize.as_str(), "HTTP/1.1 413", "MSG_TOO_BIG"),
        (
            &(endless + &"y".repeat(4095)),
            "HTTP/1.1 413",
            "BODY_TOO_BIG",
        ),
    ];
    for (sent, status, text) in cases {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(sent.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains(text) || answer.is_empty() {
            let read = stream.read(&mut chunk).await.expect("answered");
            assert!(
                read > 0,
                "{sent:?}: closed after {:?}",
                String::from_utf8_lossy(&answer)
            );
            answer.extend_from_slice(&chunk[..read]);
        }
        assert!(
            answer.starts_with(status.as_bytes()),
            "{sent:?}: {:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    stop.send(()).expect("still serving");
    served.await.expect("ends");
    assert!(
        TcpStream::connect(address).await.is_err(),
        "the port is closed"
    );
    fixture.broker.stop();
}

#[tokio::test]
async fn every_route_asks_for_what_it_takes() {
    let fixture = Fixture::with(|config| config.access = Some(every_route::access()));
    let list = routes(None, &Pages::default()).list().to_vec();
    assert_eq!(list.len(), 31);
    every_route::check(&fixture.router, &list).await;
    let refused = fixture.ask("POST", "/pub?topic=t", "x").await;
    assert_eq!(refused.status, 401);
    assert!(
        refused.body.contains("`srtm access token` makes one"),
        "{}",
        refused.body
    );
    fixture.broker.stop();
}
