//! An SRTM broker's HTTP port, as far as the measurements use it: declaring contracts, reading the
//! use of tasks and latencies.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use api::{ApiError, Bounds, Client, Method, Target, Why};
use bench::BenchError;
use clock::Instant;
use limit::Limit;
use serde::Serialize;
use serde_json::{Value, json};

/// Longest answer: the log of releases of a long run.
const ANSWER_MAX_BYTES: u64 = 1 << 30;

/// A broker's HTTP port.
#[derive(Debug)]
pub struct BrokerPort {
    client: Client,
}

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
    /// All are.
    #[serde(skip)]
    pub max_us: f64,
}

/// The broker's own figures of a topic's limit.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LimitStats {
    /// Messages that waited for a token.
    pub delayed_messages: u64,
    /// By how many messages the worst window of releases exceeded rate x time + burst, on the broker's clock.
    pub window_excess_messages: f64,
    /// From the instant of a message's token to its release, in microseconds.
    pub release_late_p50_us: f64,
    /// The same at the 99th percentile.
    pub release_late_p99_us: f64,
}

/// Every function fails when the broker refuses or does not answer as expected.
impl BrokerPort {
    /// The one at this address.
    pub fn new(http: SocketAddr) -> BrokerPort {
        let bounds = Bounds {
            answer_max_bytes: ANSWER_MAX_BYTES,
            ..Bounds::default()
        };
        BrokerPort {
            client: Client::new(&http.to_string(), bounds),
        }
    }

    /// Limits `topic`.
    pub fn set_limit(&self, topic: &str, limit: &Limit) -> Result<(), BenchError> {
        self.declare(topic, &json!({ "limit": limit }))
    }

    /// Limits `topic` to this many messages per second and at once.
    pub fn limit_messages(&self, topic: &str, rate: f64, burst: f64) -> Result<(), BenchError> {
        let limit = Limit::messages(rate, burst);
        let limit = limit.map_err(|error| BenchError::Options(error.to_string()))?;
        self.set_limit(topic, &limit)
    }

    /// Gives `topic` a share of the time of each reactor.
    pub fn set_cpu_share(&self, topic: &str, share: f64) -> Result<(), BenchError> {
        self.declare(topic, &json!({ "cpu_share": share }))
    }

    /// Makes `topic`.
    pub fn create_topic(&self, topic: &str) -> Result<(), BenchError> {
        self.order(&Target::new("/topic/create").query("topic", topic))
    }

    /// Makes a channel of `topic`.
    pub fn create_channel(&self, topic: &str, channel: &str) -> Result<(), BenchError> {
        let create = Target::new("/channel/create").query("topic", topic);
        self.order(&create.query("channel", channel))
    }

    /// Time that each topic has been served for, microseconds.
    pub fn used_us(&self) -> Result<BTreeMap<String, u64>, BenchError> {
        let tasks = Target::new("/v1/tasks");
        let answer = self.client.get(&tasks)?;
        used_of(&answer).ok_or_else(|| self.lacks(&tasks, "topic and used_us in a task"))
    }

    /// A stage of `topic`: `total` or `end_to_end`. One that was never sampled has no messages.
    pub fn stage(&self, topic: &str, stage: &str) -> Result<Stage, BenchError> {
        let stats = of_stats(topic);
        stage_of(&self.client.get(&stats)?, stage)
            .ok_or_else(|| self.lacks(&stats, &format!("figures of {stage}")))
    }

    /// Its figures of a limited topic.
    pub fn limit_stats(&self, topic: &str) -> Result<LimitStats, BenchError> {
        let stats = of_stats(topic);
        let answer: Value = self.client.get(&stats)?;
        let srtm = &answer["topics"][0]["srtm"];
        let release = &srtm["latency_us"]["release"];
        let number = |value: &Value, name: &str| {
            let number = value.as_f64();
            number.ok_or_else(|| self.lacks(&stats, name))
        };
        Ok(LimitStats {
            delayed_messages: number(&srtm["delayed_count"], "delayed_count")? as u64,
            window_excess_messages: number(&srtm["window_excess"], "window_excess")?,
            release_late_p50_us: number(&release["p50"], "release p50")?,
            release_late_p99_us: number(&release["p99"], "release p99")?,
        })
    }

    /// Release instants of `topic`; the broker's log of them is emptied by it. None where the topic never was.
    pub fn releases(&self, topic: &str) -> Result<Vec<Instant>, BenchError> {
        let releases = of_topic(topic).then("/releases");
        let answer = self.client.ask(Method::Get, &releases, None)?;
        if answer.status.as_u16() == 404 {
            return Ok(Vec::new());
        }
        let stamps = answer.accepted()?.chunks_exact(8);
        let stamps = stamps.filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        Ok(stamps.map(Instant::from_nanos).collect())
    }

    /// Its page of metrics.
    pub fn metrics(&self) -> Result<String, BenchError> {
        let answer = self
            .client
            .ask(Method::Get, &Target::new("/metrics"), None)?;
        Ok(String::from_utf8_lossy(answer.accepted()?).into_owned())
    }

    fn declare(&self, topic: &str, contract: &Value) -> Result<(), BenchError> {
        let _in_force: Value = self.client.put(&of_topic(topic), contract)?;
        Ok(())
    }

    fn order(&self, target: &Target) -> Result<(), BenchError> {
        let answer = self.client.ask(Method::Post, target, None)?;
        Ok(answer.accepted().map(drop)?)
    }

    /// The answer to a GET that does not hold what it should.
    fn lacks(&self, target: &Target, what: &str) -> BenchError {
        BenchError::from(ApiError {
            method: Method::Get,
            url: self.client.url(target),
            why: Why::Unexpected(format!("no {what}")),
        })
    }
}

fn of_topic(topic: &str) -> Target {
    Target::new("/v1/topics").segment(topic)
}

fn of_stats(topic: &str) -> Target {
    Target::new("/stats")
        .query("format", "json")
        .query("topic", topic)
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
        max_us: told["max"].as_f64()?,
    })
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
            max_us: 3.0,
        };
        assert_eq!(stage_of(&answer, "total"), Some(expected));
        assert_eq!(stage_of(&answer, "end_to_end"), None);
    }
}
