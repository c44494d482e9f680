//! CPU shares, declared and read back, and how topics fare with them.

use serde_json::json;

use super::*;

async fn read(fixture: &Fixture, path: &str) -> Value {
    serde_json::from_str(&fixture.ok("GET", path, "").await).expect("JSON")
}

async fn put(fixture: &Fixture, topic: &str, body: &str) -> Value {
    let path = format!("/v1/topics/{topic}");
    let answer = fixture.ok("PUT", &path, body).await;
    let answer = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(read(fixture, &path).await, answer);
    answer
}

#[tokio::test]
async fn a_share_is_declared_alone_or_with_a_limit_and_given_up() {
    let fixture = Fixture::start();
    let alone = put(&fixture, "t", r#"{"cpu_share":0.2}"#).await;
    assert_eq!(alone, json!({"limit": null, "cpu_share": 0.2}));
    let both = r#"{"cpu_share":0.4,"limit":{"rate":10,"burst":2}}"#;
    let both = put(&fixture, "t", both).await;
    assert_eq!(
        (&both["cpu_share"], &both["limit"]["rate"]),
        (&json!(0.4), &json!(10))
    );
    let list = read(&fixture, "/v1/topics").await;
    assert_eq!(list["topics"][0]["cpu_share"], 0.4);
    // What is left out is none, not what it was.
    let limited = put(&fixture, "t", r#"{"limit":{"rate":10,"burst":2}}"#).await;
    assert!(limited.get("cpu_share").is_none(), "{limited}");
    put(&fixture, "t", r#"{"cpu_share":0.3}"#).await;
    let none = put(&fixture, "t", r#"{"cpu_share":null}"#).await;
    assert_eq!(none, json!({"limit": null}));
    put(
        &fixture,
        "t",
        r#"{"cpu_share":0.3,"limit":{"rate":10,"burst":2}}"#,
    )
    .await;
    let answer = fixture.ok("DELETE", "/v1/topics/t", "").await;
    assert_eq!(answer, r#"{"limit":null}"#);
    fixture.broker.stop();
}

#[tokio::test]
async fn more_than_the_whole_is_refused_and_changes_nothing() {
    let fixture = Fixture::start();
    put(&fixture, "a", r#"{"cpu_share":0.7}"#).await;
    let former = put(&fixture, "b", r#"{"limit":{"rate":1,"burst":1}}"#).await;
    for topic in ["b", "new"] {
        let path = format!("/v1/topics/{topic}");
        let body = r#"{"cpu_share":0.4,"limit":{"rate":9,"burst":9}}"#;
        let answer = fixture.ask("PUT", &path, body).await;
        assert_eq!(answer.status, 409, "{}", answer.body);
        assert!(answer.body.contains("0.7 of 1"), "{}", answer.body);
    }
    assert_eq!(read(&fixture, "/v1/topics/b").await, former);
    assert_eq!(fixture.ask("GET", "/v1/topics/new", "").await.status, 404);
    // Its own share counts once.
    put(&fixture, "a", r#"{"cpu_share":1}"#).await;
    // A deleted topic takes its share along.
    fixture.ok("POST", "/topic/delete?topic=a", "").await;
    put(&fixture, "b", r#"{"cpu_share":1}"#).await;
    fixture.broker.stop();
}

#[tokio::test]
async fn tasks_tell_what_a_topic_is_entitled_to_and_has_used() {
    let fixture = Fixture::with(|config| config.threads = 2);
    put(&fixture, "t", r#"{"cpu_share":0.25}"#).await;
    fixture.ok("POST", "/pub?topic=t", "hello").await;
    let document = read(&fixture, "/v1/tasks").await;
    assert_eq!(document["period_us"], 10_000);
    assert!(document["periods"].is_u64());
    let tasks = document["tasks"].as_array().expect("a list");
    let common = tasks.iter().filter(|task| task["topic"].is_null());
    assert!(
        common
            .map(|task| task["reactor"].as_u64())
            .eq([Some(0), Some(1)]),
        "{tasks:?}"
    );
    let task = tasks
        .iter()
        .find(|task| task["topic"] == "t")
        .expect("shown");
    let shown = (&task["cpu_share"], &task["unstable"]);
    assert_eq!(shown, (&json!(0.25), &json!(false)));
    // The allotment follows with the next period.
    for field in [
        "allotment_us",
        "queued_events",
        "served_events",
        "turns",
        "used_us",
        "sojourn_us",
        "waited_us",
        "wait_max_us",
        "overruns",
        "overrun_max_us",
        "unstable_spells",
        "full",
    ] {
        assert!(task[field].is_u64(), "{field}: {task}");
    }
    let page = fixture.ok("GET", "/metrics", "").await;
    assert!(
        page.contains("srtm_task_cpu_share{topic=\"t\"} 0.25\n"),
        "{page}"
    );
    assert!(
        page.contains("srtm_task_used_seconds_total{topic=\"\"} "),
        "{page}"
    );
    fixture.broker.stop();
}
