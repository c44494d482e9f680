//! A simulated kernel's spec, as values. The same names are the keys of the TOML.

use std::time::Duration;

use kernel::{CpuShare, OnOverrun};
use serde::Deserialize;
use workload::SpecError;

use super::{check, document};

/// Tasks, the kernel that serves them, and for how long.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Of all random draws.
    #[serde(default = "one")]
    pub seed: u64,
    /// Time before anything is measured.
    #[serde(default = "one_second", deserialize_with = "document::span")]
    pub warmup: Duration,
    /// Time that is measured.
    #[serde(default = "minute", deserialize_with = "document::span")]
    pub duration: Duration,
    /// The kernel.
    #[serde(default)]
    pub kernel: KernelSpec,
    /// The tasks.
    #[serde(default, rename = "task")]
    pub tasks: Vec<TaskSpec>,
}

/// The kernel and the threads that it runs on. The default is the paper's: T of 10 ms, 100 buckets; one thread that
/// always runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelSpec {
    /// T: the time that shares are fractions of.
    #[serde(deserialize_with = "document::span")]
    pub period: Duration,
    /// Steps in which credits are told apart.
    pub buckets: usize,
    /// Scheduler threads, each with a processor of its own; 1 to 64.
    pub threads: u32,
    /// P: the part of the time that a thread has its processor, independently of the others; above 0, at most 1.
    pub availability: f64,
    /// Mean time that a thread keeps its processor, where `availability` is below 1; exponentially distributed, as are the
    /// times between.
    #[serde(deserialize_with = "document::span")]
    pub slice: Duration,
    /// When a thread loses its processor.
    pub loses_processor: LosesProcessor,
    /// What happens to a task that is not conformant: `report` or `penalise`.
    #[serde(deserialize_with = "document::on_overrun")]
    pub on_overrun: OnOverrun,
    /// Who is served next.
    pub served_by: ServedBy,
}

/// When a thread loses its processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LosesProcessor {
    /// At the end of the turn it serves: its task is free for others.
    #[default]
    BetweenTurns,
    /// At once: the task stays with it until it runs again. What it was away for is not charged.
    WithinTurn,
}

/// Who is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServedBy {
    /// The task with the most credits: [`kernel::Scheduler`].
    #[default]
    Credits,
    /// The event that arrived first, whatever its task: one queue for all, to compare with.
    Arrival,
}

/// A task: its share, its events, its queue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// What it is called.
    pub name: String,
    /// The share that it declares; none: an equal part of what others leave.
    #[serde(default, deserialize_with = "document::share")]
    pub share: Option<CpuShare>,
    /// When its events arrive.
    pub arrivals: Arrivals,
    /// How long each takes.
    pub service: Service,
    /// Events that may wait or be served.
    #[serde(default = "queue")]
    pub queue: usize,
    /// What happens to an event that finds no room.
    #[serde(default)]
    pub on_full: OnFull,
    /// The mean wait that is wanted, for [`super::calibrate`].
    #[serde(default, deserialize_with = "document::maybe_span")]
    pub want_wait: Option<Duration>,
}

/// When the events of a task arrive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// So many per second at exponential gaps.
    Poisson(f64),
    /// So many per second at equal gaps, with a random phase.
    Periodic(f64),
    /// So many at once every so often, with a random phase.
    Bursts {
        /// Time between bursts.
        #[serde(deserialize_with = "document::span")]
        every: Duration,
        /// Events of each.
        events: u32,
    },
    /// At these times from the beginning, in order; nothing after the last.
    #[serde(deserialize_with = "document::spans")]
    Trace(Vec<Duration>),
}

/// How long the events of a task take.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Always this.
    #[serde(deserialize_with = "document::span")]
    Constant(Duration),
    /// Exponentially distributed around this.
    #[serde(deserialize_with = "document::span")]
    Exponential(Duration),
    /// Anything between these two, equally likely.
    #[serde(deserialize_with = "document::pair")]
    Uniform(Duration, Duration),
    /// These, one after the other, and from the beginning again.
    #[serde(deserialize_with = "document::spans")]
    Measured(Vec<Duration>),
}

/// What happens to an event that finds no room in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// Its writer waits for room; what would have arrived later arrives so much later.
    #[default]
    Block,
    /// It is dropped, and counted.
    Drop,
}

impl Spec {
    /// Reads and checks a spec.
    ///
    /// # Errors
    /// [`SpecError`], which names line and column.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        document::read(text)
    }

    /// Checks a spec that was built rather than read.
    ///
    /// # Errors
    /// [`SpecError::Value`] without a place.
    pub fn check(&self) -> Result<(), SpecError> {
        check::check(self).map_err(|problem| problem.at(None))
    }

    /// Warm-up and measurement together.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.warmup.saturating_add(self.duration)
    }
}

impl TaskSpec {
    /// A task that declares nothing, with room for 1,000 events, whose writers block.
    #[must_use]
    pub fn new(name: &str, arrivals: Arrivals, service: Service) -> TaskSpec {
        TaskSpec {
            name: name.to_owned(),
            share: None,
            arrivals,
            service,
            queue: queue(),
            on_full: OnFull::default(),
            want_wait: None,
        }
    }
}

impl Arrivals {
    /// Events within `length`, about.
    pub(super) fn events_within(&self, length: Duration) -> f64 {
        let length = length.as_secs_f64();
        match self {
            Arrivals::Poisson(rate) | Arrivals::Periodic(rate) => rate * length,
            Arrivals::Bursts { every, events } => {
                f64::from(*events) * (length / every.as_secs_f64() + 1.0)
            }
            Arrivals::Trace(times) => times.len() as f64,
        }
    }
}

impl Service {
    /// The mean; for a measured list that of the list.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Service::Constant(time) | Service::Exponential(time) => *time,
            Service::Uniform(from, to) => (*from + *to) / 2,
            Service::Measured(times) => {
                let sum: Duration = times.iter().sum();
                sum / u32::try_from(times.len().max(1)).unwrap_or(u32::MAX)
            }
        }
    }
}

impl Default for KernelSpec {
    fn default() -> Self {
        KernelSpec {
            period: Duration::from_millis(10),
            buckets: 100,
            threads: 1,
            availability: 1.0,
            slice: Duration::from_millis(100),
            loses_processor: LosesProcessor::default(),
            on_overrun: OnOverrun::default(),
            served_by: ServedBy::default(),
        }
    }
}

fn one() -> u64 {
    1
}

fn one_second() -> Duration {
    Duration::from_secs(1)
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

fn queue() -> usize {
    1_000
}
