//! The API over a state machine without brokers, request by request.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request, StatusCode};
use futures_util::StreamExt;
use http::Counts;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tower::ServiceExt;

use super::events::EventCounts;
use super::router;
use crate::handle::StoreState;
use crate::service::Service;
use crate::store::MemoryStore;
use crate::view::{
    BrokerAddress, BrokerView, ChannelView, ChannelViews, EventView, NameView, NameViews,
    NeighbourView, PlacementView, PublisherList, PublisherSpec, PublisherView, PublisherViews, Slo,
    TopicBrokerView, TopicSpec, TopicView,
};
use crate::{ControlHandle, Settings, every_route};

struct Api {
    router: axum::Router,
    _stop: oneshot::Sender<()>,
    _stopping: watch::Sender<bool>,
}

/// A state machine that keeps nothing, without links.
fn service() -> (Service, ControlHandle) {
    let (settings, store) = (Settings::default(), Box::new(MemoryStore::default()));
    let key = link::LinkKey::new([1; 32]);
    let (service, handle, _words) = Service::open(settings, store, key, None).expect("memory");
    (service, handle)
}

impl Api {
    fn start() -> Api {
        Api::with(None)
    }

    fn with(access: Option<access::InForce>) -> Api {
        let (service, handle) = service();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(service.run(async move { drop(stopped.await) }));
        let (stopping, is_stopping) = watch::channel(false);
        Api {
            router: router(handle, access, is_stopping, Counts::default()),
            _stop: stop,
            _stopping: stopping,
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method.parse::<Method>().expect("a method"))
            .uri(path)
            .body(Body::from(body.to_owned()))
            .expect("a request");
        let response = self
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("infallible");
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24)
            .await
            .expect("short");
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }
}

#[tokio::test]
async fn a_contract_is_declared_shown_and_removed() {
    let api = Api::start();
    let contract =
        r#"{"limit":{"rate":1000,"burst":50},"slo":{"percentile":99,"latency_us":1000}}"#;
    let (status, view) = api.ask("PUT", "/v1/topics/telemetry", contract).await;
    assert_eq!(
        (status, &view["limit"]["rate"]),
        (StatusCode::OK, &json!(1000)),
        "{view}"
    );
    assert_eq!(
        view["slo"],
        json!({"percentile": 99.0, "latency_us": 1000.0})
    );
    let (_, list) = api.ask("GET", "/v1/topics", "").await;
    assert_eq!(list["topics"][0]["topic"], "telemetry");
    let (status, _) = api.ask("DELETE", "/v1/topics/telemetry", "").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(
        api.ask("GET", "/v1/topics/telemetry", "").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn lists_and_metrics_know_all_topics_however_many_there_are() {
    let api = Api::start();
    let names: Vec<String> = (0..300).map(|number| format!("t{number:03}")).collect();
    for (number, name) in names.iter().enumerate() {
        let path = format!("/v1/topics/{name}");
        assert_eq!(api.ask("PUT", &path, "{}").await.0, StatusCode::OK);
        // Around the ends of parts.
        if number % 64 >= 62 || number % 64 == 0 {
            let (_, list) = api.ask("GET", "/v1/topics", "").await;
            let topics = list["topics"].as_array().expect("a list");
            let listed = topics.iter().map(|topic| topic["topic"].as_str());
            let declared = names.iter().take(number + 1);
            assert!(listed.eq(declared.map(|name| Some(name.as_str()))));
        }
    }
    let request = Request::get("/metrics").body(Body::empty());
    let answer = api.router.clone().oneshot(request.expect("a request"));
    let body = answer.await.expect("infallible").into_body();
    let page = axum::body::to_bytes(body, 1 << 24).await.expect("short");
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("srtm_control_topics 300.0"), "{page}");
    assert_eq!(page.matches("srtm_control_topic_publishers{").count(), 200);
}

#[tokio::test]
async fn a_share_of_time_is_declared_alone_or_with_a_limit_and_given_up() {
    let api = Api::start();
    let put = async |body: &str| {
        let (status, view) = api.ask("PUT", "/v1/topics/t", body).await;
        assert_eq!(status, StatusCode::OK, "{view}");
        assert_eq!(api.ask("GET", "/v1/topics/t", "").await.1, view);
        (view["cpu_share"].clone(), view["limit"]["rate"].clone())
    };
    let alone = put(r#"{"cpu_share":0.2}"#).await;
    assert_eq!(alone, (json!(0.2), Value::Null));
    let both = put(r#"{"cpu_share":1,"limit":{"rate":5,"burst":1}}"#).await;
    assert_eq!(both, (json!(1.0), json!(5)));
    // What is left out takes its default, not its former value.
    let limit = put(r#"{"limit":{"rate":5,"burst":1}}"#).await;
    assert_eq!(limit, (Value::Null, json!(5)));
    put(r#"{"cpu_share":0.3}"#).await;
    assert_eq!(
        put(r#"{"cpu_share":null}"#).await,
        (Value::Null, Value::Null)
    );
}

#[tokio::test]
async fn names_get_identifiers() {
    let api = Api::start();
    for (topic, id) in [("b", 1), ("a", 2), ("b", 1), ("a%23ephemeral", 3)] {
        let (status, named) = api.ask("PUT", &format!("/v1/names/{topic}"), "").await;
        assert_eq!(
            (status, &named["id"]),
            (StatusCode::OK, &json!(id)),
            "{named}"
        );
    }
    let (_, named) = api.ask("GET", "/v1/names/b", "").await;
    assert_eq!(named, json!({"topic": "b", "id": 1}));
    let (_, list) = api.ask("GET", "/v1/names?after=a", "").await;
    let names = json!([{"topic": "a#ephemeral", "id": 3}, {"topic": "b", "id": 1}]);
    assert_eq!(list, json!({"names": names, "has_more": false}));
}

#[tokio::test]
async fn publishers_come_and_go() {
    let api = Api::start();
    let list = r#"{"publishers":[{"id":"s1","rate":10,"batch":2,"group":"g"},{"id":"s2"}]}"#;
    let (status, views) = api.ask("POST", "/v1/topics/t/publishers", list).await;
    assert_eq!(
        (status, views["publishers"].as_array().map(Vec::len)),
        (StatusCode::OK, Some(2)),
        "{views}"
    );
    let (status, view) = api
        .ask("GET", "/v1/topics/t/publishers/s1?avoid=b1", "")
        .await;
    assert_eq!((status, &view["batch"]), (StatusCode::OK, &json!(2)));
    assert!(view["broker"].is_null(), "there is no broker yet");
    assert_eq!(
        api.ask("DELETE", "/v1/topics/t/publishers/s1", "").await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        api.ask("GET", "/v1/topics/t/publishers/s1", "").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_hundred_thousand_publishers_fit_into_one_request() {
    let api = Api::start();
    let publishers: Vec<Value> = (0..100_000)
        .map(|n| json!({"id": format!("s{n}"), "rate": 1, "group": format!("g{}", n / 25)}))
        .collect();
    let body = json!({ "publishers": publishers }).to_string();
    let (status, views) = api.ask("POST", "/v1/topics/t/publishers", &body).await;
    assert_eq!(
        (status, views["publishers"].as_array().map(Vec::len)),
        (StatusCode::OK, Some(100_000))
    );
}

const GOOD: &str = r#"{"limit":{"rate":1000,"burst":50}}"#;

/// Method, path, body, status, part of the text.
const BAD: &[(&str, &str, &str, u16, &str)] = &[
    ("PUT", "/v1/topics/t", "", 400, "the body"),
    ("PUT", "/v1/topics/t", "[]", 400, "the body"),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"limit":{"rate":0,"burst":1}}"#,
        400,
        "limit",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"limit":{"rate":-5,"burst":1}}"#,
        400,
        "limit",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"limit":{"rate":NaN,"burst":1}}"#,
        400,
        "limit",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"limit":{"rate":1e308,"burst":1}}"#,
        400,
        "limit",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"limit":{"rate":1,"burst":0.5}}"#,
        400,
        "limit",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"limit":{"rate":1}}"#,
        400,
        "burst",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"slo":{"percentile":0,"latency_us":1}}"#,
        400,
        "percentile",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"slo":{"percentile":99,"latency_us":-1}}"#,
        400,
        "latency_us",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"slo":{"latency_ms":1}}"#,
        400,
        "latency_ms",
    ),
    ("PUT", "/v1/topics/t", r#"{"policy":"best"}"#, 400, "policy"),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"on_full":"disk"}"#,
        400,
        "on_full",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"durability":"raid"}"#,
        400,
        "durability: unknown variant `raid`, expected one of `memory`, `disk`, `fsync`",
    ),
    ("PUT", "/v1/topics/t", r#"{"limits":{}}"#, 400, "limits"),
    ("PUT", "/v1/topics/t", r#"{} {}"#, 400, "after the value"),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"cpu_share":0}"#,
        400,
        "cpu_share: a share of 0 is out of range: give more than 0 and at most 1",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"cpu_share":1.5}"#,
        400,
        "a share of 1.5",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"cpu_share":"0.2"}"#,
        400,
        "cpu_share",
    ),
    (
        "PUT",
        "/v1/topics/t",
        r#"{"cpu_share":0.5}"#,
        409,
        "0.75 of 1 is held by others (half 0.5, quarter 0.25)",
    ),
    ("PUT", "/v1/names/a%20b", "", 400, "topic name"),
    ("GET", "/v1/topics/none/channels", "", 404, "no broker has"),
    ("GET", "/v1/topics/a%20b/channels", "", 400, "topic name"),
    ("GET", "/v1/names/a%20b", "", 400, "topic name"),
    ("GET", "/v1/names/none", "", 404, "PUT /v1/names/none"),
    ("GET", "/v1/names?behind=a", "", 400, "behind"),
    ("DELETE", "/v1/names/t", "", 405, "method"),
    ("PUT", "/v1/topics/a%20b", GOOD, 400, "topic name"),
    (
        "POST",
        "/v1/topics/t/publishers",
        r#"{"publishers":[{"id":"a"},{"id":"a"}]}"#,
        400,
        "twice",
    ),
    (
        "POST",
        "/v1/topics/t/publishers",
        r#"{"publishers":[{"id":"a","rate":0}]}"#,
        400,
        "rate 0",
    ),
    (
        "POST",
        "/v1/topics/t/publishers",
        r#"{"publishers":[{"id":"a","rate":1e308}]}"#,
        400,
        "rate",
    ),
    (
        "POST",
        "/v1/topics/t/publishers",
        r#"{"publishers":[{"id":"a","batch":0}]}"#,
        400,
        "batch 0",
    ),
    (
        "POST",
        "/v1/topics/t/publishers",
        r#"{"publishers":[{"id":"a","batch":-1}]}"#,
        400,
        "publishers[0].batch",
    ),
    (
        "POST",
        "/v1/topics/t/publishers",
        r#"{"publishers":[{}]}"#,
        400,
        "publishers[0]",
    ),
    (
        "GET",
        "/v1/topics/t/publishers/nobody",
        "",
        404,
        "no publisher",
    ),
    (
        "GET",
        "/v1/topics/t/publishers/nobody?avoi=b",
        "",
        400,
        "avoi",
    ),
    ("GET", "/v1/topics/nothing", "", 404, "no topic"),
    ("DELETE", "/v1/topics/nothing", "", 404, "no topic"),
    ("GET", "/v1/topics/a%20b/placement", "", 400, "topic name"),
    ("POST", "/v1/brokers/nobody/drain", "", 404, "no broker"),
    ("POST", "/v1/brokers/nobody/resume", "", 404, "no broker"),
    ("DELETE", "/v1/brokers/nobody", "", 404, "no broker"),
    ("PATCH", "/v1/topics/t", "", 405, "method"),
    ("GET", "/nowhere", "", 404, "no such path"),
];

#[tokio::test]
async fn bad_input_is_refused_with_a_place_and_a_reason_and_changes_nothing() {
    let api = Api::start();
    assert_eq!(api.ask("PUT", "/v1/topics/t", GOOD).await.0, StatusCode::OK);
    for (name, share) in [("half", 0.5), ("quarter", 0.25)] {
        let body = json!({ "cpu_share": share }).to_string();
        let put = api.ask("PUT", &format!("/v1/topics/{name}"), &body).await;
        assert_eq!(put.0, StatusCode::OK);
    }
    let before = api.ask("GET", "/v1/topics/t", "").await.1;
    for &(method, path, body, status, text) in BAD {
        let (got, answer) = api.ask(method, path, body).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert_eq!(got.as_u16(), status, "{method} {path} {body}: {answer}");
        assert!(
            error.contains(text),
            "{method} {path} {body}: {error:?} lacks {text:?}"
        );
    }
    let huge = "x".repeat((16 << 20) + 1);
    let (status, answer) = api.ask("POST", "/v1/topics/t/publishers", &huge).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    let huge = "x".repeat(2 << 20);
    assert_eq!(
        api.ask("PUT", "/v1/topics/t", &huge).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(api.ask("GET", "/v1/topics/t", "").await.1, before);
}

/// The paths of all endpoints.
macro_rules! paths_of {
    ($($path:literal $($shared:ident)? { $($method:ident [$need:expr] $module:ident::$handler:ident),+ })+) => {
        const PATHS: &[&str] = &[$($path),+];
    };
}

endpoints!(paths_of);

#[tokio::test]
async fn the_document_names_every_path() {
    let api = Api::start();
    let (_, document) = api.ask("GET", "/v1/openapi.json", "").await;
    let documented = document["paths"].as_object().expect("an object");
    let documented: BTreeSet<(&str, &str)> = documented
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("an object").keys();
            methods.map(move |method| (path.as_str(), method.as_str()))
        })
        .collect();
    let mut served = BTreeSet::new();
    for path in PATHS {
        for method in ["get", "put", "post", "delete"] {
            let example = path.replace(['{', '}'], "");
            let request = Request::builder().method(method.to_uppercase().as_str());
            let request = request.uri(example).body(Body::empty());
            let response = api.router.clone().oneshot(request.expect("a request"));
            let status = response.await.expect("infallible").status();
            if status != StatusCode::METHOD_NOT_ALLOWED {
                served.insert((*path, method));
            }
        }
    }
    assert_eq!(documented, served);
}

/// The fields that serde knows are the ones that it lists when it meets an unknown one, or those of an example.
#[tokio::test]
async fn a_controller_that_does_not_lead_names_the_one_that_does() {
    for leader in [None, Some("http://10.0.0.2:4180")] {
        let error = crate::ControlError::Elsewhere {
            text: String::from("not here"),
            leader: leader.map(str::to_owned),
        };
        let refused = axum::response::IntoResponse::into_response(http::Refusal::from(error));
        assert_eq!(refused.status().as_u16(), 421);
        let body = axum::body::to_bytes(refused.into_body(), 1024).await;
        let body: Value = serde_json::from_slice(&body.expect("short")).expect("JSON");
        assert_eq!(body["error"], "not here");
        assert_eq!(body["leader"].as_str(), leader);
    }
}

#[tokio::test]
async fn the_document_names_every_field() {
    let api = Api::start();
    let (_, document) = api.ask("GET", "/v1/openapi.json", "").await;
    let spec = json!({"limit": {"rate": 1, "burst": 1}, "slo": {"latency_us": 1.0}, "cpu_share": 0.2,
            "on_full": "block", "durability": "fsync"});
    let carrier = json!({"broker": "b", "tcp_address": "h:1", "publishers": 0, "attached": 0, "rate": 0.0,
        "measured_rate": 0.0, "fixed_rate": 0.0, "share": {"rate": 1, "burst": 1}, "latency_us": 1.0});
    let mut topic = json!({"topic": "t", "state": "", "text": "", "publishers": 0, "unplaced": 0, "rate": 0.0,
        "brokers": [carrier], "fit_status": placement::FitStatus::default(), "fit_brokers": ["b1"],
        "decided_by": {"topic": "u", "broker": "b1", "latency_us": 1.0, "promise_us": 2.0}});
    let fields = spec.as_object().expect("an object").clone();
    topic.as_object_mut().expect("an object").extend(fields);
    let publisher = json!({"id": "s", "rate": 1.0, "measured_rate": 2.0, "batch": 1, "group": "g", "attached_to": "b",
        "broker": {"broker": "b", "tcp_address": "h:1"}});
    let event = EventView {
        topic: Some(String::new()),
        broker: Some(String::new()),
        ..EventView::default()
    };
    let broker = BrokerView {
        http_address: Some(String::new()),
        gossip_address: Some(String::new()),
        not_counted: Some(String::new()),
        memory_used_bytes: Some(1),
        memory_budget_bytes: Some(2),
        ..BrokerView::default()
    };
    let named = json!({"topic": "t", "id": 1});
    let channels = json!({"topic": "t", "is_paused": true, "brokers": ["b1"],
        "channels": [{"channel": "c", "is_paused": true}]});
    let declared = json!({"id": "s", "group": "g"});
    let full = |name: &str| match name {
        "TopicSpec" => again::<TopicSpec>(&spec),
        "Slo" => again::<Slo>(&spec["slo"]),
        "TopicView" => again::<TopicView>(&topic),
        "TopicBrokerView" => again::<TopicBrokerView>(&topic["brokers"][0]),
        "PublisherList" => again::<PublisherList>(&json!({"publishers": []})),
        "PublisherSpec" => again::<PublisherSpec>(&declared),
        "PublisherView" => again::<PublisherView>(&publisher),
        "PublisherViews" => again::<PublisherViews>(&json!({"publishers": [publisher]})),
        "BrokerAddress" => again::<BrokerAddress>(&publisher["broker"]),
        "NeighbourView" => topic["decided_by"].clone(),
        "PlacementView" => serde_json::to_value(PlacementView {
            decided_by: Some(NeighbourView::default()),
            ..PlacementView::default()
        })
        .expect("plain"),
        "ChannelViews" => again::<ChannelViews>(&channels),
        "ChannelView" => again::<ChannelView>(&channels["channels"][0]),
        "BrokerView" => serde_json::to_value(&broker).expect("plain"),
        "EventView" => serde_json::to_value(&event).expect("plain"),
        "NameView" => again::<NameView>(&named),
        "NameViews" => again::<NameViews>(&json!({"names": [named], "has_more": false})),
        "TopicViews" => json!({"topics": []}),
        "BrokerViews" => json!({"brokers": []}),
        "Refusal" => json!({"error": "", "leader": ""}),
        other => panic!("{other} is documented and not checked here"),
    };
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.expect("an object") {
        let full = full(name);
        let fields: BTreeSet<&str> = full
            .as_object()
            .expect("one")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(properties(&document, schema), fields, "{name}");
    }
}

/// A value through its type and back, with all defaults filled in.
fn again<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let value: T = serde_json::from_value(value.clone()).expect("an example");
    serde_json::to_value(value).expect("plain")
}

/// Names of a schema's fields, of those that it is made of too.
fn properties<'a>(document: &'a Value, schema: &'a Value) -> BTreeSet<&'a str> {
    let own = schema["properties"].as_object().into_iter().flatten();
    let mut names: BTreeSet<&str> = own.map(|(name, _)| name.as_str()).collect();
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().expect("a name");
        names.extend(properties(
            document,
            &document["components"]["schemas"][name],
        ));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        names.extend(properties(document, part));
    }
    names
}

#[tokio::test]
async fn events_are_streamed_and_a_slow_reader_is_told_what_it_missed() {
    let (commands, _asked) = mpsc::channel(1);
    let (events, _) = broadcast::channel(4);
    let (_stop, is_stopping) = watch::channel(false);
    let router = router(
        ControlHandle::new(
            commands,
            events.clone(),
            Default::default(),
            watch::channel(StoreState::default()).1,
        ),
        None,
        is_stopping,
        Counts::default(),
    );
    let peer = ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1)));
    let request = Request::builder().uri("/v1/events").extension(peer);
    let request = request.body(Body::empty());
    let response = router
        .oneshot(request.expect("a request"))
        .await
        .expect("infallible");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    let mut next = async || {
        let piece = stream.next().await.expect("open").expect("whole");
        String::from_utf8(piece.to_vec()).expect("text")
    };
    let send = |number| {
        let kind = String::from("problem");
        events
            .send(EventView {
                number,
                kind,
                ..EventView::default()
            })
            .expect("a reader");
    };
    send(1);
    let data = r#"{"number":1,"at_ms":0,"kind":"problem","text":""}"#;
    let first = next().await;
    for line in ["id: 1", "event: problem", &format!("data: {data}")] {
        assert!(
            first.lines().any(|each| each == line),
            "{line} is not in\n{first}"
        );
    }
    // Four fit; the stream is not read meanwhile.
    (2..=8).for_each(send);
    let lagged = next().await;
    assert!(
        lagged.contains("event: lagged") && lagged.contains(r#"{"missed":3}"#),
        "{lagged}"
    );
    assert!(next().await.contains("id: 5"));
}

#[tokio::test]
async fn events_are_counted_by_kind_and_those_missed_too() {
    let (events, receiver) = broadcast::channel(4);
    let (_stop, is_stopping) = watch::channel(false);
    for kind in ["share", "fit", "share", "fit", "problem", "share"] {
        let kind = String::from(kind);
        let event = EventView {
            kind,
            ..EventView::default()
        };
        events.send(event).expect("a reader");
    }
    drop(events);
    let counts = EventCounts::default();
    counts.clone().count(receiver, is_stopping).await;
    let expected = [("fit", 1), ("missed", 2), ("problem", 1), ("share", 2)];
    let counted = counts.read();
    assert!(
        counted
            .iter()
            .map(|(kind, count)| (kind.as_str(), *count))
            .eq(expected),
        "{counted:?}"
    );
}

#[tokio::test]
async fn stopping_ends_open_streams() {
    let (service, handle) = service();
    let (_stop_service, service_stopped) = oneshot::channel::<()>();
    tokio::spawn(service.run(async move { drop(service_stopped.await) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(super::serve(
        handle,
        listener,
        super::Admission::default(),
        None,
        async move { drop(stopped.await) },
    ));
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("listening");
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    stream
        .write_all(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("open");
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    stop.send(()).expect("still serving");
    serving.await.expect("ends although a stream was open");
}

#[tokio::test]
async fn every_route_asks_for_what_it_takes() {
    let api = Api::with(Some(every_route::access()));
    let list = super::routes(None, &http::Pages::default()).list().to_vec();
    assert_eq!(list.len(), 22);
    every_route::check(&api.router, &list).await;
    let (status, refused) = api.ask("DELETE", "/v1/topics/t", "").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let text = refused["error"].as_str().expect("a text");
    assert!(text.contains("`srtm access token` makes one"), "{text}");
}
