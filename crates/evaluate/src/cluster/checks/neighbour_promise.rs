//! A topic that sends in bursts comes beside one with a tighter promise, while there is room
//! elsewhere: the earlier promise must be kept, and the newcomer must be fitted or told which
//! neighbour decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::view::{Contract, Slo, TopicSpec, TopicView};
use client::{Publisher, PublisherOptions};
use limit::Limit;
use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::seconds::{Second, each_p99_ms, p99_ms, unfair};
use super::{ClusterOptions, all_hold, begin, busiest, must, stamped};
use crate::cluster::{Cluster, Consumer};
use crate::judged::{Judged, unmet, verdict};
use api::Controller;
use bench::BenchError;
use bench::cluster::{Plan, Run};
use bench::sys::{monotonic_ns, pause_for};
use bench::workload::{Arrivals, Workload};

/// A broker of 1,000 messages per second.
const SERVICE_TIME: &str = "1ms";
/// Length of a profiling window.
const WINDOW_S: f64 = 5.0;
/// The topic that is there first: groups of five, so about 5 ms.
const QUIET: &str = "quiet";
const QUIET_PROMISE_MS: f64 = 25.0;
/// What loads the other broker, from connections that nobody can move.
const BALLAST: &str = "ballast";
const BALLAST_PER_SECOND: u64 = 400;
/// The newcomer: bursts of 50.
const LOUD: &str = "loud";
const LOUD_PROMISE_MS: f64 = 500.0;
/// Seconds watched before the newcomer and after it.
const BEFORE: usize = 10;
const AFTER: usize = 60;
/// Of the seconds after it, the last, over which the promises must be kept and said to be.
const SETTLED: usize = 30;
/// A fit ends within this time.
const FITTED: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    quiet_p99_ms_before: Vec<f64>,
    quiet_p99_ms_after: Vec<f64>,
    /// Seconds of these in which the machine held up the sender itself: if they are many, the check
    /// judges the machine.
    unfair_seconds: usize,
    /// Seconds in which the first topic's promise was broken.
    quiet_broken_s: usize,
    /// Its 99th percentile over the last seconds.
    quiet_settled_p99_ms: f64,
    /// Looks in the last seconds at which it was called anything but fitted.
    quiet_unfitted_looks: usize,
    quiet_state: String,
    quiet_text: String,
    loud_p99_ms: Vec<f64>,
    loud_state: String,
    loud_text: String,
    /// Whether what is said of the newcomer names the neighbour.
    loud_names_quiet: bool,
    /// Looks in the last seconds at which the newcomer was called fitted while the first topic was called anything else.
    contradictions: usize,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-neighbour-promise";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = Self::KIND;
        let (unfitted, contradictions) = (self.quiet_unfitted_looks, self.contradictions);
        let looks = |count: usize| format!("{count} of the last {SETTLED} s");
        vec![
            verdict(
                of,
                "the first topic's promise is kept once everything has settled",
                self.quiet_settled_p99_ms <= QUIET_PROMISE_MS,
                format!(
                    "{:.1} ms, promised {QUIET_PROMISE_MS} ms",
                    self.quiet_settled_p99_ms
                ),
            ),
            verdict(
                of,
                "the first topic is called fitted in most seconds",
                unfitted * 2 <= SETTLED,
                format!("{}, not in {}", self.quiet_state, looks(unfitted)),
            ),
            verdict(
                of,
                "the newcomer is fitted, or its answer names the first topic",
                self.loud_state == "fitted" || self.loud_names_quiet,
                self.loud_state.clone(),
            ),
            verdict(
                of,
                "the newcomer is not called fitted while the first topic is not",
                contradictions * 2 <= SETTLED,
                looks(contradictions),
            ),
        ]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let report = measure(options)?;
    println!("{report:#?}");
    options.keep_own(Report::KIND, &report)?;
    all_hold(unmet(&report))
}

fn measure(options: &ClusterOptions) -> Result<Report, BenchError> {
    let options = &ClusterOptions {
        window_s: WINDOW_S,
        service_time: Some(SERVICE_TIME.to_owned()),
        ..options.clone()
    };
    let cluster = Cluster::start(options.two_brokers("neighbour-promise")?)?;
    let api = cluster.api();
    api.put_topic(QUIET, &promise(QUIET_PROMISE_MS)?)?;
    let quiet = begin(&plan(options, &cluster, QUIET, (20, 5.0, 5)))?;
    wait_fitted(&api, &quiet, QUIET)?;
    let home = busiest(&cluster, &quiet.fleet.brokers());
    let ballast = Ballast::start(&cluster, 1 - home)?;
    Second::now(&quiet);
    let before: Vec<Second> = (0..BEFORE).map(|_| second(&quiet)).collect();
    api.put_topic(LOUD, &promise(LOUD_PROMISE_MS)?)?;
    let loud = begin(&plan(options, &cluster, LOUD, (50, 2.0, 50)))?;
    let (mut of_quiet, mut of_loud) = (Vec::new(), Vec::new());
    let (mut contradictions, mut quiet_unfitted_looks) = (0, 0);
    for number in 0..AFTER {
        of_quiet.push(second(&quiet));
        of_loud.push(Second::now(&loud));
        let is_fitted = |topic| api.topic(topic).map(|view| view.state == "fitted");
        let (is_loud_fitted, is_quiet_fitted) = (is_fitted(LOUD)?, is_fitted(QUIET)?);
        if number >= AFTER - SETTLED && !is_quiet_fitted {
            quiet_unfitted_looks += 1;
            contradictions += usize::from(is_loud_fitted);
        }
    }
    let (quiet_view, loud_view) = (api.topic(QUIET)?, api.topic(LOUD)?);
    ballast.end();
    loud.abandon()?;
    quiet.abandon()?;
    let is_broken = |second: &&Second| second.p99_ms() > QUIET_PROMISE_MS;
    Ok(Report {
        quiet_p99_ms_before: each_p99_ms(&before),
        quiet_p99_ms_after: each_p99_ms(&of_quiet),
        unfair_seconds: unfair(&of_quiet),
        quiet_broken_s: of_quiet.iter().filter(is_broken).count(),
        quiet_settled_p99_ms: p99_ms(&of_quiet[AFTER - SETTLED..]),
        quiet_unfitted_looks,
        quiet_state: quiet_view.state,
        quiet_text: quiet_view.text,
        loud_p99_ms: each_p99_ms(&of_loud),
        loud_names_quiet: names(&loud_view, QUIET),
        loud_state: loud_view.state,
        loud_text: loud_view.text,
        contradictions,
    })
}

/// Publishers, messages per second of each, and how many send at the same instant.
type Load = (u32, f64, u32);

fn plan(options: &ClusterOptions, cluster: &Cluster, topic: &str, load: Load) -> Plan {
    let (publishers, rate_per_publisher, group_publishers) = load;
    let workload = Workload {
        publishers,
        rate_per_publisher,
        group_publishers,
        arrivals: Arrivals::Periodic,
        seed: options.seed,
        ..Workload::default()
    };
    Plan {
        topic: topic.to_owned(),
        ..options.plan(cluster, workload, 300.0)
    }
}

fn promise(latency_ms: f64) -> Result<TopicSpec, BenchError> {
    let limit =
        Limit::messages(2000.0, 500.0).map_err(|error| BenchError::Options(error.to_string()))?;
    Ok(TopicSpec {
        contract: Contract::of_limit(limit),
        slo: Some(Slo {
            percentile: 99.0,
            latency_us: latency_ms * 1000.0,
        }),
        fit: Mode::Replay,
        ..TopicSpec::default()
    })
}

fn wait_fitted(api: &Controller, run: &Run, topic: &str) -> Result<(), BenchError> {
    let fitted = run.wait(FITTED, || {
        api.topic(topic).is_ok_and(|view| view.state == "fitted")
    })?;
    must(fitted, || {
        format!("{topic} alone was not fitted within {FITTED:?}")
    })
}

/// The next second.
fn second(run: &Run) -> Second {
    Second::of(run, 1, || {})
}

/// Whether anything that is said of a topic names another one.
fn names(view: &TopicView, other: &str) -> bool {
    serde_json::to_string(view).is_ok_and(|text| text.contains(other))
}

/// Load at one broker that nobody can move: a stock publisher and a consumer.
struct Ballast {
    is_over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Ballast {
    fn start(cluster: &Cluster, number: usize) -> Result<Ballast, BenchError> {
        let broker = cluster.brokers[number].tcp;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut consumer = Consumer::at(broker, BALLAST, "bench")?;
        let mut publisher = Publisher::connect(broker, PublisherOptions::default())
            .map_err(|error| BenchError::protocol(BALLAST, error.to_string()))?;
        let over = Arc::clone(&is_over);
        let takes = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                consumer.poll();
                pause_for(Duration::from_millis(1));
            }
        });
        let over = Arc::clone(&is_over);
        let sends = std::thread::spawn(move || {
            let began_ns = monotonic_ns();
            for sequence in 0.. {
                let due_ns = began_ns + sequence * 1_000_000_000 / BALLAST_PER_SECOND;
                pause_for(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
                // A broker that has gone ends the check elsewhere.
                let sent = publisher.publish(BALLAST, &stamped(sequence));
                if over.load(Ordering::Relaxed) || sent.is_err() {
                    break;
                }
            }
        });
        Ok(Ballast {
            is_over,
            threads: vec![takes, sends],
        })
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // What it panicked with is on the terminal already.
            let _ = thread.join();
        }
    }
}
