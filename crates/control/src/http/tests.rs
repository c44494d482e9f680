//! The API over a state machine without brokers, request by request.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tower::ServiceExt;

use super::router;
use crate::Settings;
use crate::service::Service;
use crate::store::MemoryStore;

struct Api {
    router: axum::Router,
    _stop: oneshot::Sender<()>,
    _stopping: watch::Sender<bool>,
}

impl Api {
    fn start() -> Api {
        let store = Box::new(MemoryStore::default());
        let (service, handle, _words) =
            Service::open(Settings::default(), store, None).expect("memory");
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(service.run(async move { drop(stopped.await) }));
        let (stopping, is_stopping) = watch::channel(false);
        Api {
            router: router(handle, is_stopping),
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
    ("PUT", "/v1/topics/t", r#"{"limits":{}}"#, 400, "limits"),
    ("PUT", "/v1/topics/t", r#"{} {}"#, 400, "behind"),
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
    let huge = "x".repeat(2 << 20);
    assert_eq!(
        api.ask("PUT", "/v1/topics/t", &huge).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(api.ask("GET", "/v1/topics/t", "").await.1, before);
}

#[tokio::test]
async fn the_document_names_every_path_and_every_field() {
    let api = Api::start();
    let (_, document) = api.ask("GET", "/v1/openapi.json", "").await;
    for (path, methods) in [
        ("/v1/topics", vec!["get"]),
        ("/v1/topics/{topic}", vec!["get", "put", "delete"]),
        ("/v1/topics/{topic}/placement", vec!["get"]),
        ("/v1/topics/{topic}/publishers", vec!["get", "post"]),
        ("/v1/topics/{topic}/publishers/{id}", vec!["get", "delete"]),
        ("/v1/brokers", vec!["get"]),
        ("/v1/brokers/{broker}", vec!["get", "delete"]),
        ("/v1/brokers/{broker}/drain", vec!["post"]),
        ("/v1/brokers/{broker}/resume", vec!["post"]),
        ("/v1/events", vec!["get"]),
    ] {
        for method in methods {
            assert!(
                document["paths"][path][method].is_object(),
                "{method} {path}"
            );
        }
    }
    let broker = serde_json::to_value(crate::view::BrokerView::default()).expect("plain");
    for field in broker.as_object().expect("an object").keys() {
        assert!(
            document["components"]["schemas"]["BrokerView"]["properties"][field].is_object(),
            "{field}"
        );
    }
}

#[tokio::test]
async fn stopping_ends_open_streams() {
    let store = Box::new(MemoryStore::default());
    let (service, handle, _words) =
        Service::open(Settings::default(), store, None).expect("memory");
    let (_stop_service, service_stopped) = oneshot::channel::<()>();
    tokio::spawn(service.run(async move { drop(service_stopped.await) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(super::serve(handle, listener, async move {
        drop(stopped.await)
    }));
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
