//! `GET /metrics`: the control plane in numbers, for Prometheus.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use axum::response::Response;
use http::metrics::{Series, answer, counter, float, gauge, put, text_of};
use http::{Refusal, rendered};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Shared;
use crate::handle::{Command, StoreState};
use crate::view::{BrokerView, TopicBrokerView, TopicView};

/// Topics with series of their own; the others are left out and counted.
const TOPICS_MAX: usize = 200;

/// The page, in OpenMetrics.
#[cfg_attr(test, utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "application/openmetrics-text"))))]
pub(super) async fn metrics(State(service): Shared) -> Result<Response, Refusal> {
    let first = |reply| Command::Topics(None, TOPICS_MAX, reply);
    let topics = service.handle.ask(first).await?;
    let counts = service
        .handle
        .look(|core, _| Ok((core.topics_count(), core.names())));
    let (topics_count, names) = counts.await?;
    let brokers = service.handle.ask(Command::Brokers).await?;
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

/// The figures of the page beside topics and brokers.
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
    answer(text_of(&registry))
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

/// Of the whole.
const WHOLE: &[Series<Snapshot>] = &[
    counter(
        "link_strangers",
        "Connections to the link that proved no key",
        |s| float(s.strangers),
    ),
    gauge("topics", "Topics known.", |s| Some(s.topics_count as f64)),
    gauge("names", "Names that have identifiers.", |s| {
        Some(s.names as f64)
    }),
    gauge(
        "store_writable",
        "1 while what is decided can be kept.",
        |s| Some(f64::from(u8::from(s.store.failure.is_none()))),
    ),
    counter(
        "store_failed_writes",
        "Writes of the store that failed",
        |s| float(s.store.failures),
    ),
];
const BROKERS: Series<u64> = gauge("brokers", "Brokers by state.", |count| float(*count));
const EVENTS: Series<u64> = counter(
    "events",
    "What happened, by kind; `publisher-moved` counts orders to move",
    |count| float(*count),
);
const BROKER_SERIES: &[Series<BrokerView>] = &[
    gauge(
        "broker_mcap",
        "Messages per second that a broker carries under its promise.",
        |b| Some(b.mcap),
    ),
    gauge(
        "broker_load",
        "Messages per second placed on a broker.",
        |b| Some(b.load),
    ),
    gauge(
        "broker_measured_rate",
        "Messages per second that arrive at a broker.",
        |b| Some(b.measured_rate),
    ),
    gauge("broker_publishers", "Publishers placed on a broker.", |b| {
        Some(b.publishers as f64)
    }),
    gauge(
        "broker_unfinished_messages",
        "Messages that a broker holds, over all topics and channels.",
        |b| Some(b.holds as f64),
    ),
    gauge(
        "broker_report_age_seconds",
        "Time since a broker's last report.",
        |b| Some(b.seconds_since_report),
    ),
];
const TOPIC_SERIES: &[Series<TopicView>] = &[
    gauge("topic_publishers", "Publishers of a topic.", |t| {
        Some(t.publishers as f64)
    }),
    gauge("topic_unplaced", "Publishers without a broker.", |t| {
        Some(t.unplaced as f64)
    }),
    gauge(
        "topic_rate",
        "Declared messages per second of a topic.",
        |t| Some(t.rate),
    ),
    gauge("topic_brokers", "Brokers that carry a topic.", |t| {
        Some(t.brokers.len() as f64)
    }),
    gauge(
        "topic_cpu_share",
        "Part of its thread's time that a topic is entitled to.",
        |t| t.spec.contract.cpu_share.map(kernel::CpuShare::as_f64),
    ),
    gauge("topic_fitted", "1 while the promise is kept.", |t| {
        Some(f64::from(u8::from(t.state == "fitted")))
    }),
    gauge(
        "topic_fit_windows",
        "Profiling windows that the fit has taken so far.",
        |t| t.fit_status.as_ref().map(|fit| f64::from(fit.windows)),
    ),
];
/// By topic and broker.
const CARRIER_SERIES: &[Series<TopicBrokerView>] = &[
    gauge(
        "placed_publishers",
        "Publishers of a topic that belong on a broker.",
        |c| Some(c.publishers as f64),
    ),
    gauge(
        "attached_publishers",
        "Those of them that are connected there.",
        |c| Some(c.attached as f64),
    ),
    gauge(
        "placed_rate",
        "Declared messages per second of a topic that belong on a broker.",
        |c| Some(c.rate),
    ),
    gauge(
        "measured_rate",
        "Messages per second of a topic that arrive at a broker.",
        |c| Some(c.measured_rate),
    ),
    gauge(
        "share_rate",
        "Tokens per second of a topic's limit that a broker holds.",
        |c| c.share.map(|share| share.rate.get()),
    ),
    gauge(
        "share_burst",
        "Burst of a topic's limit that a broker holds.",
        |c| c.share.map(|share| share.burst.get()),
    ),
    gauge(
        "latency_seconds",
        "End-to-end latency at the promised percentile, by the last window.",
        |c| c.latency_us.map(|us| us / 1e6),
    ),
];

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let by_state = ["up", "unreached", "silent", "draining", "dead"].map(|state| {
            let brokers = self.brokers.iter();
            let count = brokers.filter(|broker| broker.state == state).count();
            (state, count as u64)
        });
        let by_state = by_state.iter();
        let by_state = by_state.map(|(state, count)| ([("state", *state)], count));
        put(&mut encoder, &BROKERS, by_state)?;
        for series in BROKER_SERIES {
            let brokers = self.brokers.iter();
            let brokers = brokers.map(|each| ([("broker", each.broker.as_str())], each));
            put(&mut encoder, series, brokers)?;
        }
        for series in WHOLE {
            put(&mut encoder, series, [([], self)])?;
        }
        for series in TOPIC_SERIES {
            let topics = self.topics.iter();
            let topics = topics.map(|each| ([("topic", each.topic.as_str())], each));
            put(&mut encoder, series, topics)?;
        }
        for series in CARRIER_SERIES {
            put(&mut encoder, series, self.carriers())?;
        }
        let events = self.events.iter();
        let events = events.map(|(kind, count)| ([("kind", kind.as_str())], count));
        put(&mut encoder, &EVENTS, events)
    }
}

impl Snapshot {
    fn carriers(&self) -> impl Iterator<Item = ([(&str, &str); 2], &TopicBrokerView)> {
        self.topics.iter().flat_map(|topic| {
            let name = topic.topic.as_str();
            let carriers = topic.brokers.iter();
            carriers.map(move |each| ([("topic", name), ("broker", each.broker.as_str())], each))
        })
    }
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
        let page = text_of(&registry);
        for line in [
            "srtm_control_brokers{state=\"up\"} 1.0",
            "srtm_control_brokers{state=\"dead\"} 0.0",
            "srtm_control_broker_mcap{broker=\"b1\"} 5.0",
            "srtm_control_topics 1.0",
            "srtm_control_names 4.0",
            "srtm_control_link_strangers_total 3.0",
            "srtm_control_topic_cpu_share{topic=\"t\"} 0.25",
            "srtm_control_topic_fitted{topic=\"t\"} 1.0",
            "srtm_control_share_rate{topic=\"t\",broker=\"b1\"} 700.0",
            "srtm_control_share_burst{topic=\"t\",broker=\"b1\"} 30.0",
            "srtm_control_latency_seconds{topic=\"t\",broker=\"b1\"} 0.00075",
            "srtm_control_attached_publishers{topic=\"t\",broker=\"b1\"} 2.0",
            "srtm_control_store_writable 0.0",
            "srtm_control_store_failed_writes_total 7.0",
            "srtm_control_events_total{kind=\"publisher-moved\"} 3.0",
        ] {
            assert!(
                page.lines().any(|each| each == line),
                "{line} is not in\n{page}"
            );
        }
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
