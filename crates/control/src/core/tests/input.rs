//! Absurd values are refused with a text and change nothing.

use std::time::Duration;

use link::{BrokerReport, Hello, Identity, ToController, TopicReport, WindowReport};

use placement::Policy;

use super::cluster::{Cluster, HOST, TOPIC, promise};
use crate::ControlError;
use crate::core::Refusal;
use crate::view::{PublisherSpec, Slo, TopicSpec};

fn publisher(id: &str, rate: f64, batch: u32) -> PublisherSpec {
    PublisherSpec {
        id: id.to_owned(),
        rate,
        batch,
        group: None,
    }
}

#[test]
fn declarations_are_checked() {
    let mut cluster = Cluster::new(1);
    cluster.workload(10, 1, promise(1000.0, 50.0, 1000.0));
    let before = cluster.core.topic_view(TOPIC).expect("declared");
    let slo = |percentile, latency_us| TopicSpec {
        slo: Some(Slo {
            percentile,
            latency_us,
        }),
        ..TopicSpec::default()
    };
    for spec in [
        slo(0.0, 1.0),
        slo(100.0, 1.0),
        slo(f64::NAN, 1.0),
        slo(99.0, 0.0),
        slo(99.0, -1.0),
        slo(99.0, 1e308),
        slo(99.0, f64::NAN),
    ] {
        let error = cluster
            .core
            .put_topic(TOPIC, spec.clone(), cluster.now)
            .expect_err("absurd");
        assert!(
            matches!(&error, ControlError::Invalid(text) if text.contains("slo.")),
            "{spec:?}: {error}"
        );
    }
    for (specs, expected) in [
        (vec![publisher("a", 0.0, 1)], "rate 0"),
        (vec![publisher("a", -1.0, 1)], "rate -1"),
        (vec![publisher("a", f64::NAN, 1)], "rate NaN"),
        (vec![publisher("a", 1e308, 1)], "rate 1"),
        (vec![publisher("a", 1.0, 0)], "batch 0"),
        (vec![publisher("a b", 1.0, 1)], "printable"),
        (vec![publisher("", 1.0, 1)], "printable"),
        (
            vec![publisher("a", 1.0, 1), publisher("a", 1.0, 1)],
            "twice",
        ),
    ] {
        let error = cluster
            .core
            .put_publishers(TOPIC, specs, cluster.now)
            .expect_err(expected);
        assert!(
            error.to_string().contains(expected),
            "{error} lacks {expected:?}"
        );
    }
    assert!(matches!(
        cluster
            .core
            .put_topic("no/slash", TopicSpec::default(), cluster.now),
        Err(ControlError::Invalid(_))
    ));
    assert!(matches!(
        cluster.core.topic_view("nobody"),
        Err(ControlError::NotFound(_))
    ));
    assert!(matches!(
        cluster.core.ask_place(TOPIC, "nobody", None, cluster.now),
        Err(ControlError::NotFound(_))
    ));
    assert_eq!(cluster.core.topic_view(TOPIC).expect("declared"), before);
}

#[test]
fn hellos_are_checked() {
    let mut cluster = Cluster::new(1);
    let good = Hello {
        broker: String::from("b9"),
        identity: Identity([9; 16]),
        life: 7,
        tcp_address: String::from("10.0.0.9:4150"),
        http_address: None,
        gossip_address: None,
        mcap: None,
        model: None,
    };
    for (hello, expected) in [
        (
            Hello {
                broker: String::from("a b"),
                ..good.clone()
            },
            "broker name",
        ),
        (
            Hello {
                tcp_address: String::from("nowhere"),
                ..good.clone()
            },
            "host:port",
        ),
        (
            Hello {
                mcap: Some(f64::NAN),
                ..good.clone()
            },
            "mcap",
        ),
        (
            Hello {
                mcap: Some(-5.0),
                ..good.clone()
            },
            "mcap",
        ),
        (
            Hello {
                broker: String::from("b1"),
                ..good.clone()
            },
            "belongs to another broker",
        ),
    ] {
        let refused = cluster.core.hello((99, HOST), &hello, cluster.now);
        let Refusal { reason, passes } = refused.expect_err(expected);
        assert!(reason.contains(expected), "{reason} lacks {expected:?}");
        assert!(!passes, "{reason}");
    }
    assert!(cluster.core.hello((100, HOST), &good, cluster.now).is_ok());
}

fn absurd_reports() -> [TopicReport; 6] {
    let topic = |report: TopicReport| TopicReport {
        topic: TOPIC.to_owned(),
        ..report
    };
    [
        topic(TopicReport {
            messages: u64::MAX,
            ..TopicReport::default()
        }),
        topic(TopicReport {
            mean_rate: f64::NAN,
            ..TopicReport::default()
        }),
        topic(TopicReport {
            mean_rate: -1.0,
            ..TopicReport::default()
        }),
        topic(TopicReport {
            max_backlog: 1e308,
            ..TopicReport::default()
        }),
        topic(TopicReport {
            messages: 1,
            fixed_messages: 2,
            ..TopicReport::default()
        }),
        TopicReport {
            topic: String::from("../x"),
            ..TopicReport::default()
        },
    ]
}

#[test]
fn forged_reports_are_not_believed() {
    let mut cluster = Cluster::new(2);
    cluster.workload(10, 1, promise(1000.0, 50.0, 1e6));
    cluster.connect_sensors();
    cluster.run(std::time::Duration::from_secs(3));
    let before = cluster.core.topic_view(TOPIC).expect("declared");
    for (number, report) in (1000..).zip(absurd_reports()) {
        cluster.events.clear();
        let report = BrokerReport {
            number,
            seconds: 1.0,
            topics: vec![report],
            ..BrokerReport::default()
        };
        cluster
            .core
            .heard(1, ToController::Report(report), cluster.now);
        cluster.carry_out();
        assert!(
            cluster
                .events
                .iter()
                .any(|(kind, text)| *kind == "problem" && text.contains("not believed")),
            "{:?}",
            cluster.events
        );
    }
    for window in [f64::NAN, -1.0, 1e300] {
        let report = WindowReport {
            latency_us: Some(window),
            topic: TOPIC.to_owned(),
            ..WindowReport::default()
        };
        cluster
            .core
            .heard(1, ToController::Window(report), cluster.now);
    }
    let stale = BrokerReport {
        number: 1,
        seconds: f64::NAN,
        ..BrokerReport::default()
    };
    cluster
        .core
        .heard(1, ToController::Report(stale), cluster.now);
    cluster.carry_out();
    let after = cluster.core.topic_view(TOPIC).expect("declared");
    assert_eq!((after.state, after.spec), (before.state, before.spec));
    cluster.check_shares();
}

/// What absurd brokers say of their traffic: rate and backlog. The first three are believed, because they could be true of some broker.
const CLAIMS: [(f64, f64); 7] = [
    (1e9, 0.0),
    (1e9, 1e12),
    (50.0, 1e12),
    (1e300, 1.0),
    (-1.0, 1.0),
    (f64::NAN, 1.0),
    (f64::INFINITY, f64::INFINITY),
];

#[test]
fn an_absurd_broker_harms_itself_only() {
    for claims in CLAIMS {
        let mut cluster = Cluster::new(3);
        let spec = TopicSpec {
            policy: Policy::Lb,
            slo: None,
            ..promise(3000.0, 300.0, 1e6)
        };
        cluster.workload(150, 1, spec);
        cluster.run_until(Duration::from_secs(60), |cluster| cluster.carriers() == 3);
        cluster.run(Duration::from_secs(30));
        cluster.brokers[0].claims = Some(claims);
        // The law of shares is checked at every step.
        cluster.run(Duration::from_secs(60));
        for broker in &cluster.brokers[1..] {
            let sends = broker.attached.len() as f64 * 10.0;
            let share = broker.holder.in_force(cluster.now).expect("a share");
            assert!(
                sends > 0.0 && share.rate.get() >= sends,
                "{share} for {sends}/s beside {claims:?}"
            );
        }
    }
}
