//! Publishers begin to send more than their broker serves, while another one is idle: how soon is
//! the promise kept again, and how often does a publisher move?

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use api::view::{Contract, Slo, TopicSpec};
use limit::Limit;
use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::seconds::{Second, each_p99_ms, p99_ms, unfair};
use super::{ClusterOptions, TOPIC, all_hold, begin, busiest};
use crate::cluster::{Cluster, Setup};
use crate::judged::{Judged, delivered_once, unmet, verdict};
use bench::BenchError;
use bench::cluster::{Plan, Run};
use bench::sys::monotonic_ns;
use bench::workload::{Arrivals, Workload};

/// A broker of 1,000 messages per second.
const SERVICE_TIME: &str = "1ms";
/// Publishers.
const PUBLISHERS: u32 = 60;
/// What each sends, and says that it sends.
const CALM_RATE: f64 = 10.0;
/// What each sends later.
const LOUD_RATE: f64 = 22.0;
/// The promise for the 99th percentile.
const PROMISE_MS: f64 = 40.0;
/// How long is looked on after the change.
const WATCHED: usize = 60;
/// Seconds over which the promise must be kept to count as kept again; over all that follow, too.
const KEPT: usize = 5;
/// No publisher moves more often than once in this many seconds.
const MOVE_SPACING_S: f64 = 10.0;
/// How often in a second the places of publishers are observed.
const LOOKS: u32 = 20;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    window_s: f64,
    /// State of the topic before the change.
    state_before: String,
    /// 99th percentile of end-to-end latency, second by second, before the change.
    p99_ms_before: Vec<f64>,
    /// And after it.
    p99_ms_after: Vec<f64>,
    /// Seconds of these in which the machine held up the sender itself: if they are many, the check
    /// judges the machine.
    unfair_seconds: usize,
    /// Seconds after the change from which the promise was kept; `None`: it was not.
    kept_again_after_s: Option<usize>,
    allowed_s: usize,
    moves: u64,
    most_moves_of_one: usize,
    /// Shortest time between two moves of one publisher.
    closest_moves_s: Option<f64>,
    lost: u64,
    duplicated: u64,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-overload";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = format!("{}, windows of {} s", Self::KIND, self.window_s);
        let kept = self.kept_again_after_s;
        let after = kept.map_or_else(
            || format!("not within {WATCHED} s"),
            |s| format!("after {s} s, {} s allowed", self.allowed_s),
        );
        let closest = self.closest_moves_s;
        let between = closest.map_or_else(
            || "nobody was moved twice".to_owned(),
            |seconds| format!("{seconds:.1} s between two moves of a publisher"),
        );
        vec![
            verdict(
                &of,
                "the promise is kept again in time",
                kept.is_some_and(|seconds| seconds <= self.allowed_s),
                after,
            ),
            verdict(
                &of,
                "nobody is moved twice within 10 s",
                closest.is_none_or(|seconds| seconds >= MOVE_SPACING_S),
                between,
            ),
            delivered_once(&of, self.lost, self.duplicated),
        ]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let mut failures = Vec::new();
    for (window_s, allowed_s) in [(5.0, 15), (60.0, 20)] {
        let report = measure(options, window_s, allowed_s)?;
        println!("{report:#?}");
        options.keep_own(Report::KIND, &report)?;
        failures.extend(unmet(&report));
    }
    all_hold(failures)
}

fn measure(
    options: &ClusterOptions,
    window_s: f64,
    allowed_s: usize,
) -> Result<Report, BenchError> {
    let options = &ClusterOptions {
        window_s,
        service_time: Some(SERVICE_TIME.to_owned()),
        ..options.clone()
    };
    let setup: Setup = options.two_brokers(&format!("overload-{window_s}"))?;
    let cluster = Cluster::start(setup)?;
    let api = cluster.api();
    let spec = TopicSpec {
        contract: Contract::of_limit(
            Limit::messages(5000.0, 500.0)
                .map_err(|error| BenchError::Options(error.to_string()))?,
        ),
        slo: Some(Slo {
            percentile: 99.0,
            latency_us: PROMISE_MS * 1000.0,
        }),
        fit: Mode::Replay,
        ..TopicSpec::default()
    };
    api.put_topic(TOPIC, &spec)?;
    let run = begin(&plan(options, &cluster, window_s))?;
    slow_down(&run, &cluster, CALM_RATE / LOUD_RATE);
    let fitted = Duration::from_secs_f64(window_s * 3.0 + 30.0);
    run.wait(fitted, || {
        api.topic(TOPIC).is_ok_and(|view| view.state == "fitted")
    })?;
    let state_before = api.topic(TOPIC)?.state;
    let placed = run.fleet.brokers();
    let home = busiest(&cluster, &placed);
    println!(
        "{state_before} before the change, most publishers at {}",
        cluster.brokers[home].name
    );
    let mut watch = MoveWatch::new(placed);
    Second::now(&run);
    let before = watch.seconds(&run, KEPT);
    let moves_before = run.fleet.traffic().moves;
    watch.moves.clear();
    slow_down(&run, &cluster, 1.0);
    let after = watch.seconds(&run, WATCHED);
    let moves = run.fleet.traffic().moves - moves_before;
    let tally = run.end()?;
    Ok(Report {
        window_s,
        state_before,
        p99_ms_before: each_p99_ms(&before),
        p99_ms_after: each_p99_ms(&after),
        unfair_seconds: unfair(&after),
        kept_again_after_s: kept_again(&after),
        allowed_s,
        moves,
        most_moves_of_one: watch.moves.values().map(Vec::len).max().unwrap_or(0),
        closest_moves_s: watch.closest_s(),
        lost: tally.lost,
        duplicated: tally.duplicated,
    })
}

/// Publishers that declare the calm rate and are scheduled for the loud one.
fn plan(options: &ClusterOptions, cluster: &Cluster, window_s: f64) -> Plan {
    let workload = Workload {
        publishers: PUBLISHERS,
        rate_per_publisher: LOUD_RATE,
        arrivals: Arrivals::Periodic,
        seed: options.seed,
        ..Workload::default()
    };
    let seconds = window_s * 3.0 + 60.0 + (WATCHED + KEPT) as f64;
    Plan {
        declared_rate: CALM_RATE,
        tells_groups: false,
        ..options.plan(cluster, workload, seconds)
    }
}

/// Lets publishers, wherever they are, send this part of what is scheduled.
fn slow_down(run: &Run, cluster: &Cluster, part: f64) {
    let brokers = cluster.brokers.iter();
    let thinning: HashMap<String, f64> = brokers
        .map(|broker| (broker.tcp.to_string(), part))
        .collect();
    *run.fleet
        .thinning
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = thinning;
}

/// The second from which the promise is kept over [`KEPT`] seconds, and over all that were watched.
fn kept_again(seconds: &[Second]) -> Option<usize> {
    let is_kept = |seconds| p99_ms(seconds) <= PROMISE_MS;
    (0..=seconds.len() - KEPT)
        .find(|&from| is_kept(&seconds[from..from + KEPT]) && is_kept(&seconds[from..]))
}

/// Who moves when.
struct MoveWatch {
    placed: Vec<Option<String>>,
    moves: HashMap<usize, Vec<u64>>,
}

impl MoveWatch {
    fn new(placed: Vec<Option<String>>) -> MoveWatch {
        MoveWatch {
            placed,
            moves: HashMap::new(),
        }
    }

    /// Watches for this many seconds.
    fn seconds(&mut self, run: &Run, seconds: usize) -> Vec<Second> {
        (0..seconds)
            .map(|_| Second::of(run, LOOKS, || self.look(run)))
            .collect()
    }

    fn look(&mut self, run: &Run) {
        let now_ns = monotonic_ns();
        let brokers = run.fleet.brokers();
        for (publisher, (was, is)) in self.placed.iter_mut().zip(brokers).enumerate() {
            // One that is on its way has no broker for a moment.
            if is.is_some() && *was != is {
                *was = is;
                self.moves.entry(publisher).or_default().push(now_ns);
            }
        }
    }

    fn closest_s(&self) -> Option<f64> {
        let gaps = self
            .moves
            .values()
            .flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0]));
        gaps.min().map(|ns| ns as f64 / 1e9)
    }
}
