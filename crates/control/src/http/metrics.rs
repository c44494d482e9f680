//! `GET /metrics`: the control plane in numbers, for Prometheus.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Shared;
use super::answer::Failure;
use crate::handle::Command;
use crate::view::{BrokerView, TopicBrokerView, TopicView};

/// Topics with series of their own; the others are left out and counted.
const TOPICS_MAX: usize = 200;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(service): Shared) -> Result<impl IntoResponse, Failure> {
    let topics = service.handle.ask(Command::Topics).await?;
    let brokers = service.handle.ask(Command::Brokers).await?;
    let mut registry = Registry::with_prefix("srtm_control");
    registry.register_collector(Box::new(Snapshot { topics, brokers }));
    let mut page = String::new();
    // Writing into a String does not fail.
    let _ = text::encode(&mut page, &registry);
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], page))
}

/// What the page shows.
#[derive(Debug)]
struct Snapshot {
    topics: Vec<TopicView>,
    brokers: Vec<BrokerView>,
}

type Labels = Vec<(&'static str, String)>;
type Series = (Labels, f64);

type OfBroker = fn(&BrokerView) -> f64;
type OfTopic = fn(&TopicView) -> f64;
type OfCarrier = fn(&TopicBrokerView) -> Option<f64>;

const BROKER_SERIES: [(&str, &str, OfBroker); 4] = [
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
];
const TOPIC_SERIES: [(&str, &str, OfTopic); 3] = [
    ("topic_publishers", "Publishers of a topic.", |t| {
        t.publishers as f64
    }),
    ("topic_unplaced", "Publishers without a broker.", |t| {
        t.unplaced as f64
    }),
    ("topic_fitted", "1 while the promise is kept.", |t| {
        f64::from(u8::from(t.state == "fitted"))
    }),
];
const CARRIER_SERIES: [(&str, &str, OfCarrier); 3] = [
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
        let by_state = ["up", "silent", "draining", "dead"].map(|state| {
            let of_state = |broker: &&BrokerView| broker.state == state;
            let count = self.brokers.iter().filter(of_state).count();
            (vec![("state", state.to_owned())], count as f64)
        });
        put(&mut encoder, "brokers", "Brokers by state.", by_state)?;
        let known =
            encoder.encode_descriptor("topics", "Topics known.", None, MetricType::Gauge)?;
        ConstGauge::new(self.topics.len() as f64).encode(known)?;
        for (name, help, value) in BROKER_SERIES {
            let label = |broker: &BrokerView| vec![("broker", broker.broker.clone())];
            let series = self
                .brokers
                .iter()
                .map(|broker| (label(broker), value(broker)));
            put(&mut encoder, name, help, series)?;
        }
        for (name, help, value) in TOPIC_SERIES {
            let label = |topic: &TopicView| vec![("topic", topic.topic.clone())];
            let topics = self.topics.iter().take(TOPICS_MAX);
            put(
                &mut encoder,
                name,
                help,
                topics.map(|topic| (label(topic), value(topic))),
            )?;
        }
        for (name, help, value) in CARRIER_SERIES {
            put(&mut encoder, name, help, self.carriers(value))?;
        }
        Ok(())
    }
}

impl Snapshot {
    fn carriers(&self, value: OfCarrier) -> Vec<Series> {
        let mut series = Vec::new();
        for topic in self.topics.iter().take(TOPICS_MAX) {
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
    use super::*;

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
            topics: Vec::new(),
            brokers,
        }));
        let mut page = String::new();
        text::encode(&mut page, &registry).expect("a String");
        for line in [
            "srtm_control_brokers{state=\"up\"} 1.0",
            "srtm_control_brokers{state=\"dead\"} 0.0",
            "srtm_control_broker_mcap{broker=\"b1\"} 5.0",
            "srtm_control_topics 0.0",
        ] {
            assert!(
                page.lines().any(|each| each == line),
                "{line} is not in\n{page}"
            );
        }
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
