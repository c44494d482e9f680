//! `GET /metrics`: the control plane in numbers, for Prometheus.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use http::rendered;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Shared;
use super::answer::Failure;
use crate::handle::{Command, StoreState};
use crate::view::{BrokerView, TopicBrokerView, TopicView};

/// Topics with series of their own; the others are left out and counted.
const TOPICS_MAX: usize = 200;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page, in OpenMetrics.
#[cfg_attr(test, utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "application/openmetrics-text"))))]
pub(super) async fn metrics(State(service): Shared) -> Result<Response, Failure> {
    let first = |reply| Command::Topics(None, TOPICS_MAX, reply);
    let topics = service.handle.ask(first).await?;
    let topics_count = service.handle.ask(Command::TopicsCount).await?;
    let brokers = service.handle.ask(Command::Brokers).await?;
    let names = service.handle.ask(Command::NamesCount).await?;
    let events = service.event_counts.read();
    let store = service.handle.store_state();
    let snapshot = Snapshot {
        topics,
        topics_count,
        names,
        brokers,
        strangers: service.handle.strangers(),
        events,
        store,
    };
    let beside = Beside {
        pace: super::pace::Pace(service.handle.pace()),
        event_streams: service.event_streams.taken() as f64,
        counts: service.counts.clone(),
    };
    Ok(rendered(|| render(snapshot, beside)).await)
}

/// What the page tells beside topics and brokers.
struct Beside {
    pace: super::pace::Pace,
    event_streams: f64,
    counts: http::Counts,
}

fn render(snapshot: Snapshot, beside: Beside) -> Response {
    let mut registry = Registry::with_prefix("srtm_control");
    registry.register_collector(Box::new(beside.pace));
    registry.register_collector(Box::new(snapshot));
    let help = "Event streams that are open.";
    registry.register("event_streams", help, ConstGauge::new(beside.event_streams));
    registry.register_collector(Box::new(beside.counts));
    let mut page = String::new();
    // Writing into a String does not fail.
    let _ = text::encode(&mut page, &registry);
    ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response()
}

/// What the page shows.
#[derive(Debug)]
struct Snapshot {
    /// Those with series of their own.
    topics: Vec<TopicView>,
    topics_count: usize,
    /// How many have identifiers.
    names: usize,
    brokers: Vec<BrokerView>,
    /// Connections to the link that proved no key.
    strangers: u64,
    /// By kind.
    events: BTreeMap<String, u64>,
    store: StoreState,
}

type Labels = Vec<(&'static str, String)>;
type Series = (Labels, f64);

type OfBroker = fn(&BrokerView) -> f64;
type OfTopic = fn(&TopicView) -> Option<f64>;
type OfCarrier = fn(&TopicBrokerView) -> Option<f64>;

const BROKER_SERIES: [(&str, &str, OfBroker); 6] = [
    (
        "broker_mcap",
        "Messages per second that a broker carries under its promise.",
        |b| b.mcap,
    ),
    (
        "broker_load",
        "Messages per second placed on a broker.",
        |b| b.load,
    ),
    (
        "broker_measured_rate",
        "Messages per second that arrive at a broker.",
        |b| b.measured_rate,
    ),
    ("broker_publishers", "Publishers placed on a broker.", |b| {
        b.publishers as f64
    }),
    (
        "broker_unfinished_messages",
        "Messages that a broker holds, over all topics and channels.",
        |b| b.holds as f64,
    ),
    (
        "broker_report_age_seconds",
        "Time since a broker's last report.",
        |b| b.seconds_since_report,
    ),
];
const TOPIC_SERIES: [(&str, &str, OfTopic); 7] = [
    ("topic_publishers", "Publishers of a topic.", |t| {
        Some(t.publishers as f64)
    }),
    ("topic_unplaced", "Publishers without a broker.", |t| {
        Some(t.unplaced as f64)
    }),
    (
        "topic_rate",
        "Declared messages per second of a topic.",
        |t| Some(t.rate),
    ),
    ("topic_brokers", "Brokers that carry a topic.", |t| {
        Some(t.brokers.len() as f64)
    }),
    (
        "topic_cpu_share",
        "Part of its thread's time that a topic is entitled to.",
        |t| t.spec.cpu_share.map(kernel::Share::as_f64),
    ),
    ("topic_fitted", "1 while the promise is kept.", |t| {
        Some(f64::from(u8::from(t.state == "fitted")))
    }),
    (
        "topic_fit_windows",
        "Profiling windows that the fit has taken so far.",
        |t| t.fit_status.as_ref().map(|fit| f64::from(fit.windows)),
    ),
];
/// By topic and broker.
const CARRIER_SERIES: [(&str, &str, OfCarrier); 7] = [
    (
        "placed_publishers",
        "Publishers of a topic that belong on a broker.",
        |c| Some(c.publishers as f64),
    ),
    (
        "attached_publishers",
        "Those of them that are connected there.",
        |c| Some(c.attached as f64),
    ),
    (
        "placed_rate",
        "Declared messages per second of a topic that belong on a broker.",
        |c| Some(c.rate),
    ),
    (
        "measured_rate",
        "Messages per second of a topic that arrive at a broker.",
        |c| Some(c.measured_rate),
    ),
    (
        "share_rate",
        "Tokens per second of a topic's limit that a broker holds.",
        |c| c.share.map(|share| share.rate.get()),
    ),
    (
        "share_burst",
        "Burst of a topic's limit that a broker holds.",
        |c| c.share.map(|share| share.burst.get()),
    ),
    (
        "latency_seconds",
        "End-to-end latency at the promised percentile, by the last window.",
        |c| c.latency_us.map(|us| us / 1e6),
    ),
];

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let by_state = ["up", "unreached", "silent", "draining", "dead"].map(|state| {
            let brokers = self.brokers.iter();
            let count = brokers.filter(|broker| broker.state == state).count();
            (vec![("state", state.to_owned())], count as f64)
        });
        put(&mut encoder, "brokers", "Brokers by state.", by_state)?;
        for (name, help, value) in BROKER_SERIES {
            let brokers = self.brokers.iter();
            let series = brokers.map(|each| (vec![("broker", each.broker.clone())], value(each)));
            put(&mut encoder, name, help, series)?;
        }
        let help = "Connections to the link that proved no key";
        let strangers =
            encoder.encode_descriptor("link_strangers", help, None, MetricType::Counter)?;
        ConstCounter::new(self.strangers).encode(strangers)?;
        let known =
            encoder.encode_descriptor("topics", "Topics known.", None, MetricType::Gauge)?;
        ConstGauge::new(self.topics_count as f64).encode(known)?;
        let help = "Names that have identifiers.";
        let named = encoder.encode_descriptor("names", help, None, MetricType::Gauge)?;
        ConstGauge::new(self.names as f64).encode(named)?;
        self.encode_store(&mut encoder)?;
        for (name, help, value) in TOPIC_SERIES {
            let topics = self.topics.iter();
            let series =
                topics.filter_map(|each| Some((vec![("topic", each.topic.clone())], value(each)?)));
            put(&mut encoder, name, help, series)?;
        }
        for (name, help, value) in CARRIER_SERIES {
            put(&mut encoder, name, help, self.carriers(value))?;
        }
        let help = "What happened, by kind; `publisher-moved` counts orders to move";
        let mut family = encoder.encode_descriptor("events", help, None, MetricType::Counter)?;
        for (kind, count) in &self.events {
            let labels = vec![("kind", kind.clone())];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Snapshot {
    fn encode_store(&self, encoder: &mut DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let help = "1 while what is decided can be kept.";
        let is_writable = f64::from(u8::from(self.store.failure.is_none()));
        let writable =
            encoder.encode_descriptor("store_writable", help, None, MetricType::Gauge)?;
        ConstGauge::new(is_writable).encode(writable)?;
        let help = "Writes of the store that have failed";
        let name = "store_failed_writes";
        let failed = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(self.store.failures).encode(failed)
    }

    fn carriers(&self, value: OfCarrier) -> Vec<Series> {
        let mut series = Vec::new();
        for topic in &self.topics {
            for carrier in &topic.brokers {
                if let Some(value) = value(carrier) {
                    let labels = vec![
                        ("topic", topic.topic.clone()),
                        ("broker", carrier.broker.clone()),
                    ];
                    series.push((labels, value));
                }
            }
        }
        series
    }
}

fn put(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = Series>,
) -> Result<(), std::fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        let gauge = ConstGauge::new(value);
        gauge.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn topic() -> TopicView {
        let carrier = json!({"broker": "b1", "tcp_address": "h:1", "publishers": 3, "attached": 2, "rate": 10.0,
            "measured_rate": 9.0, "fixed_rate": 0.0, "share": {"rate": 700, "burst": 30}, "latency_us": 750.0});
        let view = json!({"topic": "t", "state": "fitted", "text": "", "publishers": 3, "unplaced": 0, "rate": 10.0,
            "brokers": [carrier], "cpu_share": 0.25});
        serde_json::from_value(view).expect("a view")
    }

    #[test]
    fn a_snapshot_reads_as_open_metrics() {
        let brokers = vec![BrokerView {
            broker: String::from("b1"),
            state: String::from("up"),
            mcap: 5.0,
            ..BrokerView::default()
        }];
        let mut registry = Registry::with_prefix("srtm_control");
        registry.register_collector(Box::new(Snapshot {
            topics: vec![topic()],
            topics_count: 1,
            names: 4,
            brokers,
            strangers: 3,
            events: BTreeMap::from([(String::from("publisher-moved"), 3)]),
            store: StoreState {
                failure: Some(String::from("full")),
                failures: 7,
            },
        }));
        let mut page = String::new();
        text::encode(&mut page, &registry).expect("a String");
        for line in [
            "srtm_control_brokers{state=\"up\"} 1.0",
            "srtm_control_brokers{state=\"dead\"} 0.0",
            "srtm_control_broker_mcap{broker=\"b1\"} 5.0",
            "srtm_control_topics 1.0",
            "srtm_control_names 4.0",
            "srtm_control_link_strangers_total 3",
            "srtm_control_topic_cpu_share{topic=\"t\"} 0.25",
            "srtm_control_topic_fitted{topic=\"t\"} 1.0",
            "srtm_control_share_rate{topic=\"t\",broker=\"b1\"} 700.0",
            "srtm_control_share_burst{topic=\"t\",broker=\"b1\"} 30.0",
            "srtm_control_latency_seconds{topic=\"t\",broker=\"b1\"} 0.00075",
            "srtm_control_attached_publishers{topic=\"t\",broker=\"b1\"} 2.0",
            "srtm_control_store_writable 0.0",
            "srtm_control_store_failed_writes_total 7",
            "srtm_control_events_total{kind=\"publisher-moved\"} 3",
        ] {
            assert!(
                page.lines().any(|each| each == line),
                "{line} is not in\n{page}"
            );
        }
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
