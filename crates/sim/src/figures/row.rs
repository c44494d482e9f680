//! One run's result: a line of JSON without anything that depends on the machine or the hour.

use serde::{Deserialize, Serialize};

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Figure and panel: `fig7a`.
    pub experiment: String,
    /// Letter of the panel; empty where the figure has one.
    pub panel: String,
    /// The curve.
    pub series: String,
    /// Value on the x-axis.
    pub x: f64,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// Seed of the run's load.
    pub seed: u64,
    /// Brokers that carry the topic.
    pub k: usize,
    /// Whether the measured latency at the promised percentile was within the promise on every broker.
    pub met: bool,
    /// What the fit said of its last window, where there was a fit; if false, `k` is the number of brokers whose
    /// worst one is best.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fitted: Option<bool>,
    /// The promise, in microseconds.
    pub slo_us: f64,
    /// Latency of all messages, median.
    pub p50_us: f64,
    /// Latency of all messages, 95th percentile.
    pub p95_us: f64,
    /// Latency of all messages, 99th percentile.
    pub p99_us: f64,
    /// The 99th percentile at the broker where it is highest: what a promise is judged by.
    pub worst_p99_us: f64,
    /// The limit: tokens per second.
    pub rate: f64,
    /// The limit: tokens at once.
    pub burst: f64,
    /// Profiling windows that the fit took.
    pub windows: u32,
    /// Their length together, in seconds of the simulated time.
    pub fit_seconds: f64,
    /// Windows of each iteration of the fit, the first being that of the least number of brokers.
    pub rounds: Vec<u32>,
    /// Messages measured.
    pub messages: u64,
    /// Of those, messages that waited for a token.
    pub delayed: u64,
    /// The brokers, in their order; also those that carry nothing.
    pub brokers: Vec<BrokerRow>,
    /// Digest of every message's publisher and latency: equal runs have equal ones.
    pub hash: String,
    /// Fewer repeats and shorter measurements than the definition asks for.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub quick: bool,
}

/// One broker in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerRow {
    /// Publishers of the topic there.
    pub publishers: usize,
    /// Latency of their messages, 99th percentile; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_us: Option<f64>,
}
