//! The spec: what is published, to which topic, on which cluster.
//!
//! The types define the values, `check` which of them make sense, `document` their text. Durations
//! are written as `"250ms"`. The keys with their units and defaults are in `docs/workloads.md`.

mod check;
mod document;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::SpecError;

pub use check::POLICIES;

pub(crate) use check::MAX_PUBLISHERS;

/// A load, complete with its seed: the same spec gives the same arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Seed of all random choices.
    #[serde(default = "one")]
    pub seed: u64,
    /// Load before measuring begins.
    #[serde(default, with = "text")]
    pub warmup: Duration,
    /// Length of the measurement.
    #[serde(default = "ten_seconds", with = "text")]
    pub duration: Duration,
    /// Who publishes; 1 to 1,024 classes.
    #[serde(default)]
    pub publishers: Vec<Class>,
    /// What the topic is promised.
    #[serde(default)]
    pub topic: Topic,
    /// Where it runs; programs that load a live cluster ignore it.
    #[serde(default)]
    pub cluster: Cluster,
    /// Brokers that fail, for the simulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// Publishers that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name, unlike all others'; empty stands for `class 1` and so on.
    #[serde(default)]
    pub name: String,
    /// Publishers; 1 to 1,000,000 in all classes together.
    pub count: u32,
    /// Messages per second of each, in the mean and while it is on; 0.000001 to 1,000,000.
    pub rate: f64,
    /// How sends follow each other.
    #[serde(default)]
    pub arrivals: Pattern,
    /// Messages that a publisher sends at once.
    #[serde(default = "one_message", rename = "batch")]
    pub batch_messages: u16,
    /// Body of a message, 1 to 1,048,576.
    #[serde(default = "hundred", rename = "bytes")]
    pub body_bytes: u32,
    /// Publishers of a correlation group, which send together; 1: everybody alone. The last group may be smaller. The
    /// text may say `groups = 10` instead, the number of them.
    #[serde(default = "one_publisher", rename = "group")]
    pub group_publishers: u32,
    /// Interval over which the members of a group are evenly spread, at most `batch / rate`; 0: synchronised.
    #[serde(default, with = "text")]
    pub spread: Duration,
    /// With `off`: sends for this long, then pauses; all publishers of a group together, each group at a phase of
    /// its own. The clock of periodic publishers stands still meanwhile. At least 1 ms.
    #[serde(default, with = "text")]
    pub on: Duration,
    /// See `on`; at most 1,000,000 times as long.
    #[serde(default, with = "text")]
    pub off: Duration,
    /// The rate's change over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Ramp>,
}

/// How the sends of a group follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Exponential gaps: events.
    #[default]
    Poisson,
    /// Equal gaps with a random phase: sensors.
    Periodic,
}

/// A rate that goes linearly from one multiple of itself to another, and stays there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Multiple of the rate at the beginning, 0 and up.
    pub from: f64,
    /// Multiple at the end.
    pub to: f64,
    /// When that is reached.
    #[serde(with = "text")]
    pub over: Duration,
}

/// The topic's contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topic {
    /// Whether it has a limit at all.
    pub limited: bool,
    /// Limit in messages per second; without it `headroom` × the mean rate.
    pub rate: Option<f64>,
    /// Burst in messages; without it the smallest that delays nothing at the promised percentile.
    pub burst: Option<f64>,
    /// Multiple of the mean rate that the limit is (SRTM-long, section 6: 1.1).
    pub headroom: f64,
    /// Latency that is promised.
    #[serde(with = "text")]
    pub slo: Duration,
    /// The percentile that it is promised for.
    pub percentile: f64,
    /// How publishers are distributed: srtm, max-min, conc, lb.
    pub policy: String,
    /// How the fit is found: replay, measure.
    pub fit: String,
    /// Length of a profiling window.
    #[serde(with = "text")]
    pub window: Duration,
    /// Whether the TB Adaptor is at work.
    pub adaptor: bool,
}

/// Brokers that are alike but for what they carry already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Brokers, 1 to 1,024.
    pub brokers: u32,
    /// Servers of each that share its queue.
    pub cores: u32,
    /// Time of a server per message.
    #[serde(with = "text")]
    pub per_message: Duration,
    /// Time of a server per publish command, beside its messages.
    #[serde(with = "text")]
    pub per_batch: Duration,
    /// Time of a server per publish command for each publisher active in the same millisecond.
    #[serde(with = "text")]
    pub per_active_connection: Duration,
    /// Latency outside of the queue.
    #[serde(with = "text")]
    pub base: Duration,
    /// Messages per second that a broker carries under the promise; without it what its service time gives.
    pub mcap: Option<f64>,
    /// Messages per second of other topics, by broker; shorter lists end in zeros.
    pub load: Vec<f64>,
    /// Messages of a batch of other topics.
    pub load_batch: u16,
}

/// A broker that is gone for a while, or for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Which, from 1.
    pub broker: u32,
    /// When.
    #[serde(with = "text")]
    pub at: Duration,
    /// For how long; without it for good.
    #[serde(default, with = "text")]
    pub away: Duration,
}

impl Spec {
    /// Reads and checks a spec. A class without a name gets one, `class 1`.
    ///
    /// # Errors
    /// [`SpecError`], which names line and column.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        document::read(text)
    }

    /// Checks a spec that was built rather than read: nothing here holds it to its ranges otherwise.
    ///
    /// # Errors
    /// [`SpecError::Value`] without a place.
    pub fn check(&self) -> Result<(), SpecError> {
        check::check(self).map_err(|problem| problem.at(None))
    }

    /// The TOML that [`Spec::parse`] reads as this spec.
    ///
    /// # Errors
    /// As [`Spec::check`].
    pub fn to_toml(&self) -> Result<String, SpecError> {
        document::write(self)
    }

    /// Warm-up and measurement together.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.warmup.saturating_add(self.duration)
    }

    /// Publishers of all classes together.
    #[must_use]
    pub fn publisher_count(&self) -> u32 {
        self.publishers.iter().map(|class| class.count).sum()
    }
}

impl Class {
    /// Independent publishers that send single messages of 100 bytes at random, `rate` per second each.
    #[must_use]
    pub fn new(count: u32, rate: f64) -> Self {
        Class {
            name: String::new(),
            count,
            rate,
            arrivals: Pattern::default(),
            batch_messages: one_message(),
            body_bytes: hundred(),
            group_publishers: one_publisher(),
            spread: Duration::ZERO,
            on: Duration::ZERO,
            off: Duration::ZERO,
            ramp: None,
        }
    }

    /// Correlation groups of the class.
    #[must_use]
    pub fn groups(&self) -> u32 {
        self.count.div_ceil(self.group_publishers.max(1))
    }

    /// Messages per second of one publisher in the mean over time, pauses counted, after the ramp.
    #[must_use]
    pub fn mean_rate(&self) -> f64 {
        let (on, off) = (self.on.as_secs_f64(), self.off.as_secs_f64());
        let part_on = if on > 0.0 && off > 0.0 {
            on / (on + off)
        } else {
            1.0
        };
        self.rate * part_on * self.ramp.map_or(1.0, |ramp| ramp.to)
    }
}

impl Default for Topic {
    fn default() -> Self {
        Topic {
            limited: true,
            rate: None,
            burst: None,
            headroom: 1.1,
            slo: Duration::from_millis(1),
            percentile: 99.0,
            policy: String::from("srtm"),
            fit: String::from("replay"),
            window: Duration::from_secs(60),
            adaptor: false,
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            brokers: 6,
            cores: 2,
            per_message: Duration::from_micros(12),
            per_batch: Duration::from_micros(16),
            per_active_connection: Duration::ZERO,
            base: Duration::from_micros(150),
            mcap: None,
            load: Vec::new(),
            load_batch: 10,
        }
    }
}

fn one() -> u64 {
    1
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

fn one_message() -> u16 {
    1
}

fn hundred() -> u32 {
    100
}

fn one_publisher() -> u32 {
    1
}

/// Durations as `250ms`.
mod text {
    use std::time::Duration;

    use clock::DurationText;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&DurationText(*span))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        let span: DurationText = text.parse().map_err(de::Error::custom)?;
        Ok(span.0)
    }
}
