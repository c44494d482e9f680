//! What the measurements ask an SRTM broker over HTTP: shares in, what tasks used and how long messages took out.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::BenchError;

/// A stage of a topic's latency by the broker's own clock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub struct Stage {
    /// Messages that it was measured for.
    pub messages: u64,
    /// Half are at most this.
    pub p50_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// 999 of 1000 are.
    pub p999_us: f64,
}

/// Gives `topic` a share of the time of each reactor.
///
/// # Errors
/// When the broker refuses.
pub fn set_cpu_share(http: SocketAddr, topic: &str, share: f64) -> Result<(), BenchError> {
    let path = format!("/v1/topics/{}", escaped(topic));
    let failed = |error: ureq::Error| BenchError::Http {
        method: "PUT",
        path: path.clone(),
        text: error.to_string(),
    };
    let answer = ureq::put(format!("http://{http}{path}")).send_json(json!({ "cpu_share": share }));
    answer.map(drop).map_err(failed)
}

/// Makes a channel of `topic`.
///
/// # Errors
/// When the broker refuses.
pub fn create_channel(http: SocketAddr, topic: &str, channel: &str) -> Result<(), BenchError> {
    let (topic, channel) = (escaped(topic), escaped(channel));
    let path = format!("/channel/create?topic={topic}&channel={channel}");
    let failed = |error: ureq::Error| BenchError::Http {
        method: "POST",
        path: path.clone(),
        text: error.to_string(),
    };
    let answer = ureq::post(format!("http://{http}{path}")).send_empty();
    answer.map(drop).map_err(failed)
}

/// Time that each topic has been served for, microseconds.
///
/// # Errors
/// When the broker does not answer as expected.
pub fn used_us(http: SocketAddr) -> Result<BTreeMap<String, u64>, BenchError> {
    let path = "/v1/tasks";
    used_of(&get(http, path)?).ok_or_else(|| unexpected(path, "no topic and used_us in a task"))
}

/// A stage of `topic`: `total` or `end_to_end`. One that was never sampled has no messages.
///
/// # Errors
/// When the broker does not answer as expected.
pub fn stage(http: SocketAddr, topic: &str, stage: &str) -> Result<Stage, BenchError> {
    let path = format!("/stats?format=json&topic={}", escaped(topic));
    stage_of(&get(http, &path)?, stage)
        .ok_or_else(|| unexpected(&path, &format!("no figures of {stage}")))
}

fn get(http: SocketAddr, path: &str) -> Result<Value, BenchError> {
    let answer = ureq::get(format!("http://{http}{path}")).call();
    answer
        .and_then(|mut answer| answer.body_mut().read_json())
        .map_err(|error| unexpected(path, &error.to_string()))
}

/// A topic has a task on each reactor that spends time for it; tasks without a topic are left out.
fn used_of(answer: &Value) -> Option<BTreeMap<String, u64>> {
    let mut used = BTreeMap::new();
    for task in answer["tasks"].as_array()? {
        if let Some(topic) = task["topic"].as_str() {
            *used.entry(topic.to_owned()).or_default() += task["used_us"].as_u64()?;
        }
    }
    Some(used)
}

fn stage_of(answer: &Value, stage: &str) -> Option<Stage> {
    let told = &answer["topics"][0]["srtm"]["latency_us"][stage];
    Some(Stage {
        messages: told["count"].as_u64()?,
        p50_us: told["p50"].as_f64()?,
        p99_us: told["p99"].as_f64()?,
        p999_us: told["p999"].as_f64()?,
    })
}

/// The mark of what is ephemeral would begin a URL's fragment.
fn escaped(topic: &str) -> String {
    topic.replace('#', "%23")
}

fn unexpected(path: &str, text: &str) -> BenchError {
    BenchError::Http {
        method: "GET",
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_by_topic() {
        let answer = json!({ "period_us": 10_000, "tasks": [
            { "topic": null, "used_us": 5 },
            { "topic": "a", "used_us": 7 },
            { "topic": "b#ephemeral", "used_us": 9 },
        ]});
        let used = used_of(&answer).expect("complete");
        let expected = [("a".to_owned(), 7), ("b#ephemeral".to_owned(), 9)];
        assert_eq!(used, BTreeMap::from(expected));
        assert_eq!(used_of(&json!({})), None);
        assert_eq!(used_of(&json!({ "tasks": [{ "topic": "a" }] })), None);
    }

    #[test]
    fn a_stage_is_read_whole_or_not_at_all() {
        let figures = json!({ "count": 3, "p50": 1.0, "p99": 2.0, "p999": 2.5, "max": 3.0 });
        let answer = json!({ "topics": [{ "srtm": { "latency_us": { "total": figures } } }] });
        let expected = Stage {
            messages: 3,
            p50_us: 1.0,
            p99_us: 2.0,
            p999_us: 2.5,
        };
        assert_eq!(stage_of(&answer, "total"), Some(expected));
        assert_eq!(stage_of(&answer, "end_to_end"), None);
    }

    #[test]
    fn ephemeral_topics_fit_into_a_path() {
        assert_eq!(escaped("a#ephemeral"), "a%23ephemeral");
    }
}
