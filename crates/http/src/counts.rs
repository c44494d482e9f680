//! Counts of a port's connections, as metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Counts since the start; clones count together. As a collector it leaves the prefix to the registry.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    open: AtomicU64,
    gave_way: AtomicU64,
    refused: AtomicU64,
    exhausted: AtomicU64,
    foreign: AtomicU64,
    denied: AtomicU64,
}

/// One number and what it is called, without the daemon's prefix and the ending of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// `http_…`.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The number now.
    pub value: u64,
}

/// A connection that is counted as open.
pub(crate) struct Open(Counts);

impl Counts {
    /// All numbers now.
    #[must_use]
    pub fn figures(&self) -> [Figure; 6] {
        let numbers = &*self.0;
        let figure = |name, help, is_counter, value: &AtomicU64| {
            let value = value.load(Ordering::Relaxed);
            Figure {
                name,
                help,
                is_counter,
                value,
            }
        };
        [
            figure(
                "http_connections",
                "HTTP connections that have a place, including those of the reserve.",
                false,
                &numbers.open,
            ),
            figure(
                "http_gave_way",
                "HTTP connections that were closed to make room for others, because their peers kept the port waiting longest.",
                true,
                &numbers.gave_way,
            ),
            figure(
                "http_refused",
                "HTTP requests and connections that were refused because all places were taken.",
                true,
                &numbers.refused,
            ),
            figure(
                "http_exhausted",
                "Times that no connection could be accepted because the process had no descriptors left.",
                true,
                &numbers.exhausted,
            ),
            figure(
                "http_foreign",
                "Changes that were refused because a web page from elsewhere or a foreign name asked for them.",
                true,
                &numbers.foreign,
            ),
            figure(
                "http_denied",
                "Requests that were refused because they showed no token, an unknown one, or one that does not permit them.",
                true,
                &numbers.denied,
            ),
        ]
    }

    pub(crate) fn open(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    pub(crate) fn gave_way(&self) {
        self.0.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn exhausted(&self) {
        self.0.exhausted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn foreign(&self) {
        self.0.foreign.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn denied(&self) {
        self.0.denied.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for figure in self.figures() {
            let kind = match figure.is_counter {
                true => MetricType::Counter,
                false => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(figure.name, figure.help, None, kind)?;
            match figure.is_counter {
                true => metric.encode_counter::<NoLabelSet, u64, u64>(&figure.value, None)?,
                false => metric.encode_gauge(&figure.value)?,
            }
        }
        Ok(())
    }
}
