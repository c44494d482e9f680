//! A topic is one topic: its channels get every message, whichever broker it was published to, also
//! while their consumers are away and the broker at which they waited has left, and lookup says
//! where their waiting messages are.

use std::net::SocketAddr;
use std::time::Duration;

use api::view::TopicSpec;
use client::{PlacedOptions, PlacedPublisher, Publisher, PublisherOptions};
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::{ClusterOptions, TOPIC, all_hold, must, stamped};
use crate::cluster::consumer::serve;
use crate::cluster::processes::until;
use crate::cluster::{Broker, Cluster, Consumer};
use crate::judged::{Judged, unmet, verdict};
use api::Controller;
use bench::BenchError;
use bench::sys::{monotonic_ns, pause_for};

/// Messages before a drain, and after it.
const HALF: u64 = 200;
/// Messages to the second broker of a topic without a contract.
const SECOND: u64 = 100;
/// Messages that wait at an idle topic.
const WAITING: u64 = 1000;
/// How long a topic is idle before its consumer comes: lookup must know it still.
const IDLE: Duration = Duration::from_secs(15);
/// A topic that nobody has heard of before.
const NEW: &str = "new";
/// Everything has come after so long, or never will.
const COME: Duration = Duration::from_secs(20);
/// A publisher is elsewhere after so long, or never will be.
const MOVED: Duration = Duration::from_secs(30);
/// The controller knows of a channel after so long, or never will.
const KNOWN: Duration = Duration::from_secs(5);
/// A new topic must be listed within this time; nsqd's are after some milliseconds.
const LISTED_MS: f64 = 200.0;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    case: String,
    sent: u64,
    c_got: u64,
    c_repeated: u64,
    d_got: u64,
    d_repeated: u64,
    /// From the first message's acceptance until lookup names a broker, where that was looked at.
    listed_after_ms: Option<f64>,
    /// From the order to drain a broker until it held nothing, where one was drained and ended then.
    empty_after_ms: Option<f64>,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-channels";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = format!("{}, {}", Self::KIND, self.case);
        let (sent, c_got, d_got) = (self.sent, self.c_got, self.d_got);
        let got = format!("of {sent} c got {c_got}, d got {d_got}");
        let mut verdicts = vec![verdict(
            &of,
            "both channels get every message",
            (c_got, d_got) == (sent, sent),
            got,
        )];
        if let Some(ms) = self.listed_after_ms {
            verdicts.push(verdict(
                &of,
                "lookup names a new topic's broker within 200 ms",
                ms <= LISTED_MS,
                format!("{ms:.1} ms"),
            ));
        }
        verdicts
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let mut failures = Vec::new();
    for case in [drained, second_broker, idle] {
        let report = case(options)?;
        println!("{report:#?}");
        options.keep_own(Report::KIND, &report)?;
        failures.extend(unmet(&report));
    }
    all_hold(failures)
}

/// The publisher's broker is drained between two halves, with d's consumer away, and is killed as soon as it says that it holds nothing.
fn drained(options: &ClusterOptions) -> Result<Report, BenchError> {
    let mut cluster = Cluster::start(options.two_brokers("channels-drained")?)?;
    let api = cluster.api();
    let spec = TopicSpec::of_limit(limit::Limit::messages(10_000.0, 1000.0).map_err(invalid)?);
    api.put_topic(TOPIC, &spec)?;
    let publisher = PlacedPublisher::start(PlacedOptions {
        patience: Some(COME),
        ..PlacedOptions::new(cluster.address(), TOPIC, "s1")
    })
    .map_err(client)?;
    let home = || {
        let view = api.topic(TOPIC).ok()?;
        let at = view
            .brokers
            .into_iter()
            .find(|broker| broker.attached > 0)?;
        Some(at.broker)
    };
    until(MOVED, || home().is_some());
    let first = home().ok_or_else(|| BenchError::protocol("cluster", "s1 has no broker"))?;
    let at = |name: &str| cluster.brokers.iter().find(|broker| broker.name == name);
    let broker = at(&first).ok_or_else(|| BenchError::protocol("cluster", "no such broker"))?;
    make_channels(broker, &api)?;
    let mut c = Consumer::new(cluster.lookup(), TOPIC, "c");
    serve(&mut [&mut c], COME, |all| all[0].brokers() > 0);
    let publish = |from: u64, to: u64| -> Result<(), BenchError> {
        for sequence in from..to {
            publisher.publish(&stamped(sequence)).map_err(client)?;
        }
        publisher.flush().map_err(client)
    };
    publish(0, HALF)?;
    // What it reports from then on is of after these messages.
    serve(&mut [&mut c], KNOWN, |_| holds(&api, &first) >= Some(HALF));
    let drained_ns = monotonic_ns();
    api.drain(&first)?;
    let moved = || home().is_some_and(|now| now != first);
    must(until(MOVED, moved), || {
        format!("s1 did not leave {first}, which is draining")
    })?;
    publish(HALF, 2 * HALF)?;
    serve(&mut [&mut c], COME, |_| holds(&api, &first) == Some(0));
    must(holds(&api, &first) == Some(0), || {
        format!("{first} holds messages {COME:?} after its drain began")
    })?;
    let empty_after_ms = Some((monotonic_ns() - drained_ns) as f64 / 1e6);
    let number = cluster
        .brokers
        .iter()
        .position(|broker| broker.name == first);
    cluster.kill_broker(number.unwrap_or_default())?;
    let mut d = Consumer::new(cluster.lookup(), TOPIC, "d");
    Ok(Report {
        empty_after_ms,
        ..count("drained", 2 * HALF, &mut c, &mut d)
    })
}

/// Messages at a broker that are not finished, by what it reported last.
fn holds(api: &Controller, broker: &str) -> Option<u64> {
    let brokers = api.brokers().ok()?;
    let view = brokers.into_iter().find(|view| view.broker == broker)?;
    Some(view.holds)
}

/// Channels are made at one broker; a topic without a contract is published to at the other.
fn second_broker(options: &ClusterOptions) -> Result<Report, BenchError> {
    let cluster = Cluster::start(options.two_brokers("channels-second")?)?;
    make_channels(&cluster.brokers[0], &cluster.api())?;
    publish_at(cluster.brokers[1].tcp, TOPIC, SECOND)?;
    let mut c = Consumer::new(cluster.lookup(), TOPIC, "c");
    let mut d = Consumer::new(cluster.lookup(), TOPIC, "d");
    Ok(count("second broker", SECOND, &mut c, &mut d))
}

/// Messages wait in channels that nobody reads, with no traffic for a while.
fn idle(options: &ClusterOptions) -> Result<Report, BenchError> {
    let cluster = Cluster::start(options.two_brokers("channels-idle")?)?;
    let looker = Consumer::new(cluster.lookup(), NEW, "c");
    publish_at(cluster.brokers[0].tcp, NEW, 1)?;
    let accepted_ns = monotonic_ns();
    until(COME, || !looker.look().is_empty());
    let listed_after_ms = Some((monotonic_ns() - accepted_ns) as f64 / 1e6);
    make_channels(&cluster.brokers[0], &cluster.api())?;
    publish_at(cluster.brokers[0].tcp, TOPIC, WAITING)?;
    pause_for(IDLE);
    let mut c = Consumer::new(cluster.lookup(), TOPIC, "c");
    let mut d = Consumer::new(cluster.lookup(), TOPIC, "d");
    Ok(Report {
        listed_after_ms,
        ..count("idle", WAITING, &mut c, &mut d)
    })
}

/// Lets both consumers take what there is, and waits a little for what comes twice.
fn count(case: &'static str, sent: u64, c: &mut Consumer, d: &mut Consumer) -> Report {
    serve(&mut [c, d], COME, |all| {
        all.iter().all(|consumer| consumer.got() >= sent)
    });
    serve(&mut [c, d], Duration::from_millis(500), |_| false);
    Report {
        case: case.to_owned(),
        sent,
        c_got: c.got(),
        c_repeated: c.repeated(),
        d_got: d.got(),
        d_repeated: d.repeated(),
        listed_after_ms: None,
        empty_after_ms: None,
    }
}

/// Channels c and d at one broker, without consumers. The controller learns of them at once, but not before the broker answers:
/// what is published elsewhere within those milliseconds comes before the channel, as with nsqd.
fn make_channels(broker: &Broker, api: &Controller) -> Result<(), BenchError> {
    let port = broker.port();
    port.create_topic(TOPIC)?;
    for channel in ["c", "d"] {
        port.create_channel(TOPIC, channel)?;
    }
    let known = || {
        api.channels(TOPIC)
            .is_ok_and(|view| view.channels.len() == 2)
    };
    must(until(KNOWN, known), || {
        format!("the controller does not know the channels of {TOPIC} after {KNOWN:?}")
    })
}

/// Messages from a stock publisher that knows one broker.
fn publish_at(broker: SocketAddr, topic: &str, messages: u64) -> Result<(), BenchError> {
    let mut publisher = Publisher::connect(broker, PublisherOptions::default()).map_err(client)?;
    for sequence in 0..messages {
        publisher
            .publish(topic, &stamped(sequence))
            .map_err(client)?;
    }
    publisher.flush().map_err(client)
}

fn client(error: client::ClientError) -> BenchError {
    BenchError::protocol("publisher", error.to_string())
}

fn invalid(error: limit::InvalidLimit) -> BenchError {
    BenchError::Options(error.to_string())
}
