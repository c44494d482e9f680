//! Metrics as tables: a family has a name, a meaning, a kind, and the source of its value.
//!
//! The format adds `_total` to counters. Units stand last in a name.

use std::fmt;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Of a page of metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a value can only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It can.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One family of series over things of type `T`.
pub struct Series<T: 'static> {
    /// Without the registry's prefix and the ending of counters.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// `None` where the thing has no such value.
    pub value: fn(&T) -> Option<f64>,
}

/// A family of counters.
pub const fn counter<T>(
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Option<f64>,
) -> Series<T> {
    Series {
        name,
        help,
        kind: Kind::Counter,
        value,
    }
}

/// A family of gauges.
pub const fn gauge<T>(
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Option<f64>,
) -> Series<T> {
    Series {
        name,
        help,
        kind: Kind::Gauge,
        value,
    }
}

/// Counts beyond 2^53 lose their last digits, after 285 years at a million a second.
#[must_use]
pub fn float(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// One family: descriptor, then a sample per labelled item that has the value.
///
/// # Errors
/// Those of the encoder.
pub fn put<'a, T: 'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    series: &Series<T>,
    items: impl IntoIterator<Item = ([(&'a str, &'a str); N], &'a T)>,
) -> fmt::Result {
    let kind = match series.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut metric = encoder.encode_descriptor(series.name, series.help, None, kind)?;
    for (labels, item) in items {
        let Some(value) = (series.value)(item) else {
            continue;
        };
        match (series.kind, N) {
            (Kind::Counter, 0) => metric.encode_counter::<NoLabelSet, f64, u64>(&value, None)?,
            (Kind::Gauge, 0) => metric.encode_gauge(&value)?,
            (Kind::Counter, _) => metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, f64, u64>(&value, None)?,
            (Kind::Gauge, _) => metric.encode_family(&labels)?.encode_gauge(&value)?,
        }
    }
    Ok(())
}

/// All of `registry`, in OpenMetrics.
#[must_use]
pub fn text_of(registry: &Registry) -> String {
    let mut page = String::new();
    if let Err(error) = text::encode(&mut page, registry) {
        tracing::error!(%error, "the metrics could not be rendered");
    }
    page
}

/// A page of metrics as an answer.
#[must_use]
pub fn answer(page: String) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response()
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;

    use super::*;

    #[derive(Debug)]
    struct Two;

    impl Collector for Two {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let things = [1_u64, 2];
            let names = ["a", "b\"c"];
            let labelled = || names.iter().map(|name| [("name", *name)]).zip(&things);
            let seen = counter("seen", "Seen so far", |thing| float(*thing));
            put(&mut encoder, &seen, labelled())?;
            let odd = gauge("odd", "Odd ones", |thing| (thing % 2 == 1).then_some(0.5));
            put(&mut encoder, &odd, labelled())?;
            let all = counter("all", "All of them", |number| float(*number));
            put(&mut encoder, &all, [([], &7)])
        }
    }

    #[test]
    fn a_table_reads_as_open_metrics() {
        let mut registry = Registry::with_prefix("srtm");
        registry.register_collector(Box::new(Two));
        let page = text_of(&registry);
        for line in [
            "# TYPE srtm_seen counter",
            "srtm_seen_total{name=\"a\"} 1.0",
            "srtm_seen_total{name=\"b\\\"c\"} 2.0",
            "srtm_odd{name=\"a\"} 0.5",
            "srtm_all_total 7.0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
        assert!(!page.contains("srtm_odd{name=\"b"), "{page}");
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
