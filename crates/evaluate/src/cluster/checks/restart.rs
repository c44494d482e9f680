//! A limit holds over restarts: a broker that was killed and started again, or has just joined,
//! never passes more than (r, b) allows, from the first message on.
//!
//! The controller is stopped meanwhile, so that the broker meets its publishers before it has heard
//! anything: otherwise the check would be a race that a quick controller wins.

use std::time::Duration;

use api::view::TopicSpec;
use client::{ClientError, Publisher, PublisherOptions};
use limit::{Limit, OnExceed};
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::{ClusterOptions, TOPIC, all_hold, stamped};
use crate::cluster::consumer::serve;
use crate::cluster::{Cluster, Consumer, Setup};
use crate::judged::{Judged, unmet, verdict};
use bench::BenchError;
use bench::sys::{Signal, monotonic_ns, pause_for};

/// The limit.
const RATE: f64 = 10.0;
/// Its burst.
const BURST: f64 = 5.0;
/// Messages sent at once.
const FLOOD: u64 = 500;
/// Traffic that lets brokers get their shares, before anything is killed.
const CALM: Duration = Duration::from_secs(3);
/// The controller stands still for so long after the flood has begun.
const STILL: Duration = Duration::from_secs(2);
/// A broker that does not know its contract yet may let publishers wait for so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// What passes is counted for so long: the standstill and some seconds in which what waited goes on.
const COUNTED: Duration = Duration::from_secs(6);
/// Messages pass again within this time.
const BACK: Duration = Duration::from_secs(30);
/// Time between two messages of a trickle: less than the limit's rate.
const TRICKLE: Duration = Duration::from_millis(150);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    case: String,
    sent: u64,
    passed: u64,
    /// From the first message until the last one that passed came.
    seconds: f64,
    /// b + r·t over these seconds.
    allowed: f64,
    /// Why the publisher ended before all were answered, if it did.
    trouble: Option<String>,
    /// After so long three messages have passed again, of the flood or of a trickle behind it; `None`: they did not.
    passes_again_s: Option<f64>,
}

/// What is done between declaring a limit and the flood; the number of the broker that is flooded.
type Deed = fn(&mut Cluster) -> Result<usize, BenchError>;

impl Judged for Report {
    const KIND: &'static str = "cluster-restart";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = format!("{}, {}", Self::KIND, self.case);
        let (passed, allowed) = (self.passed, self.allowed);
        let again = self.passes_again_s.map_or_else(
            || "nothing passed".to_owned(),
            |s| format!("after {s:.1} s"),
        );
        vec![
            verdict(
                &of,
                "no more than b + r·t passes",
                passed as f64 <= allowed,
                format!("{passed} passed, {allowed:.1} allowed"),
            ),
            verdict(
                &of,
                "messages pass again within 30 s",
                self.passes_again_s.is_some(),
                again,
            ),
        ]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let kept = |setup: Setup| Setup {
        brokers_keep: true,
        ..setup
    };
    let alone = |setup: Setup| Setup {
        brokers: 1,
        brokers_keep: true,
        has_controller: false,
        ..setup
    };
    let forgetful = options.two_brokers("restart-forgetful")?;
    let with_data = kept(options.two_brokers("restart-data")?);
    let joined = options.two_brokers("restart-joined")?;
    let put = options.two_brokers("restart-put")?;
    let all = kept(options.two_brokers("restart-all")?);
    let solo = alone(options.setup("restart-alone")?);
    let cases: [(&'static str, Setup, bool, Deed); 6] = [
        ("killed, without a data folder", forgetful, true, restart),
        ("killed, with a data folder", with_data, true, restart),
        ("just joined", joined, true, join),
        ("killed right after the PUT", put, false, restart),
        (
            "controller and brokers killed right after the PUT",
            all,
            false,
            restart_all,
        ),
        (
            "on its own, killed right after the PUT",
            solo,
            false,
            restart,
        ),
    ];
    let mut failures = Vec::new();
    for (case, setup, is_calm_first, deed) in cases {
        let report = flood_after(case, setup, is_calm_first, deed)?;
        println!("{report:#?}");
        options.keep_own(Report::KIND, &report)?;
        failures.extend(unmet(&report));
    }
    all_hold(failures)
}

fn restart(cluster: &mut Cluster) -> Result<usize, BenchError> {
    cluster.kill_broker(0)?;
    cluster.signal_controller(Signal::Stop)?;
    cluster.start_broker(0)?;
    Ok(0)
}

fn join(cluster: &mut Cluster) -> Result<usize, BenchError> {
    cluster.signal_controller(Signal::Stop)?;
    cluster.add_broker()
}

fn restart_all(cluster: &mut Cluster) -> Result<usize, BenchError> {
    cluster.kill_controller()?;
    for number in 0..cluster.brokers.len() {
        cluster.kill_broker(number)?;
    }
    cluster.start_controller()?;
    cluster.signal_controller(Signal::Stop)?;
    for number in 0..cluster.brokers.len() {
        cluster.start_broker(number)?;
    }
    Ok(0)
}

fn flood_after(
    case: &'static str,
    setup: Setup,
    is_calm_first: bool,
    deed: Deed,
) -> Result<Report, BenchError> {
    let has_controller = setup.has_controller;
    let mut cluster = Cluster::start(setup)?;
    let mut limit =
        Limit::messages(RATE, BURST).map_err(|error| BenchError::Options(error.to_string()))?;
    limit.on_exceed = OnExceed::Drop;
    let spec = TopicSpec::of_limit(limit);
    if has_controller {
        cluster.api().put_topic(TOPIC, &spec)?;
    } else {
        cluster.brokers[0].port().set_limit(TOPIC, &limit)?;
    }
    if is_calm_first {
        trickle(&cluster, 0, CALM, |_| false)?;
    }
    let number = deed(&mut cluster)?;
    let mut report = std::thread::scope(|scope| {
        let wakes = scope.spawn(|| {
            pause_for(STILL);
            cluster.signal_controller(Signal::Continue)
        });
        let report = flood(case, &cluster, number);
        let woken = wakes.join();
        woken.unwrap_or_else(|_| Err(BenchError::protocol("controller", "was not woken")))?;
        report
    })?;
    report.passes_again_s = passes_again(&cluster, number)?;
    Ok(report)
}

/// Sends everything at once and counts what passes.
fn flood(case: &'static str, cluster: &Cluster, number: usize) -> Result<Report, BenchError> {
    let broker = cluster.brokers[number].tcp;
    let mut consumer = Consumer::at(broker, TOPIC, "bench")?;
    let options = PublisherOptions {
        timeout: PATIENCE,
        window_messages: FLOOD as usize,
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(broker, options).map_err(client)?;
    let began_ns = monotonic_ns();
    let sent = (0..FLOOD).try_for_each(|sequence| publisher.publish(TOPIC, &stamped(sequence)));
    let trouble = sent.and_then(|()| publisher.flush()).err();
    serve(&mut [&mut consumer], COUNTED, |_| false);
    let last_ns = consumer.latest_ns().max(began_ns);
    let seconds = (last_ns - began_ns) as f64 / 1e9;
    Ok(Report {
        case: case.to_owned(),
        sent: FLOOD,
        passed: consumer.got_of(0..FLOOD),
        seconds,
        allowed: BURST + RATE * seconds,
        trouble: trouble.map(|error| error.to_string()),
        passes_again_s: None,
    })
}

/// How long it takes until three messages have passed.
fn passes_again(cluster: &Cluster, number: usize) -> Result<Option<f64>, BenchError> {
    let began_ns = monotonic_ns();
    let is_back = trickle(cluster, number, BACK, |consumer| consumer.got() >= 3)?;
    Ok(is_back.then(|| (monotonic_ns() - began_ns) as f64 / 1e9))
}

/// Sends below the limit until `is_done`, at most so long; whether it came true.
fn trickle(
    cluster: &Cluster,
    number: usize,
    at_most: Duration,
    mut is_done: impl FnMut(&Consumer) -> bool,
) -> Result<bool, BenchError> {
    let broker = cluster.brokers[number].tcp;
    let mut consumer = Consumer::at(broker, TOPIC, "bench")?;
    let options = PublisherOptions {
        timeout: PATIENCE,
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(broker, options).map_err(client)?;
    let end_ns = monotonic_ns() + at_most.as_nanos() as u64;
    // Not those of the flood, which may still come.
    for sequence in FLOOD.. {
        publisher
            .publish(TOPIC, &stamped(sequence))
            .map_err(client)?;
        publisher.flush().map_err(client)?;
        pause_for(TRICKLE);
        consumer.poll();
        if is_done(&consumer) {
            return Ok(true);
        }
        if monotonic_ns() >= end_ns {
            break;
        }
    }
    Ok(false)
}

fn client(error: ClientError) -> BenchError {
    BenchError::protocol("publisher", error.to_string())
}
