//! The memory budget, its parts and their use.

use super::*;

async fn read(fixture: &Fixture, path: &str) -> Value {
    serde_json::from_str(&fixture.ok("GET", path, "").await).expect("JSON")
}

#[tokio::test]
async fn the_budget_is_shown_with_its_parts_and_what_they_hold() {
    let fixture = Fixture::start();
    let memory = read(&fixture, "/v1/memory").await;
    let parts = memory["parts"].as_object().expect("parts");
    let names: Vec<&str> = parts.keys().map(String::as_str).collect();
    assert_eq!(names, ["bodies", "input", "output", "pieces", "topics"]);
    let sum = |of: &str| -> u64 { parts.values().filter_map(|part| part[of].as_u64()).sum() };
    let whole = |of: &str| memory[of].as_u64().expect("a number");
    let all = whole("budget_bytes");
    assert!(all - sum("limit_bytes") < 16, "sixteenths: {memory}");
    assert_eq!(sum("used_bytes"), whole("used_bytes"));
    let stats = read(&fixture, "/stats?format=json").await;
    let same = &stats["memory"]["srtm"];
    assert_eq!(same["budget_bytes"], memory["budget_bytes"]);
    assert_eq!(same["parts"]["bodies"], memory["parts"]["bodies"]);
    assert!(stats["memory"]["heap_in_use_bytes"].as_u64() > Some(0));
    let without = read(&fixture, "/stats?format=json&include_mem=false").await;
    assert_eq!(without["memory"], Value::Null);
    fixture.broker.stop();
}
