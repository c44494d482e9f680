//! All publishers are moved from broker to broker while they send.

use std::time::Duration;

use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::watch::ShareWatch;
use super::{ClusterOptions, TOPIC, begin, excess, releases};
use crate::cluster::Cluster;
use crate::judged::{Judged, delivered_once, verdict};
use api::Controller;
use bench::BenchError;
use bench::cluster::{Run, Tally};
use bench::sys::{monotonic_ns, pause_for};

/// A round's moves take no longer.
const MOVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds of traffic between two rounds.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    rounds: u32,
    tally: Tally,
    moves: u64,
    resent: u64,
    seconds_per_round: Vec<f64>,
    released: usize,
    window_excess_messages: f64,
    /// Whether conformance is judged at the release: then nothing may exceed the limit.
    #[serde(default)]
    is_strict: bool,
    share_looks: u64,
    share_violations: u64,
    latency_p50_us: u64,
    latency_p99_us: u64,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-moves";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = Self::KIND;
        let (tally, excess) = (self.tally, self.window_excess_messages);
        vec![
            delivered_once(of, tally.lost, tally.duplicated),
            verdict(
                of,
                "the sum of shares never exceeds the limit",
                self.share_violations == 0,
                format!("{} of {} samples", self.share_violations, self.share_looks),
            ),
            verdict(
                of,
                "judged by release, no window exceeds r·t + b",
                !self.is_strict || excess <= 1e-3,
                format!("by {excess} messages at most"),
            ),
        ]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let workload = options.workload(options.group());
    let mut setup = options.setup("moves")?;
    setup.broker_flags = vec![
        String::from("--release-log-messages"),
        String::from("4000000"),
    ];
    let cluster = Cluster::start(setup)?;
    let (api, limit) = (cluster.api(), options.limit()?);
    api.put_topic(TOPIC, &options.spec(Mode::Replay)?)?;
    let seconds = 60.0 + f64::from(options.rounds) * (MOVE_TIMEOUT + PAUSE).as_secs_f64();
    let run = begin(&options.plan(&cluster, workload.clone(), seconds))?;
    let all = u64::from(options.publishers);
    let watch = ShareWatch::start(api.clone(), limit);
    pause_for(PAUSE);
    let mut seconds_per_round = Vec::new();
    for round in 0..options.rounds {
        let moved_s = empty_the_fullest(&api, &run, all)?;
        let moved_s = moved_s.ok_or_else(|| {
            let text = format!("round {round}: not all publishers moved in {MOVE_TIMEOUT:?}");
            BenchError::protocol("a condition that must hold does not", text)
        })?;
        seconds_per_round.push(moved_s);
        pause_for(PAUSE);
    }
    let (traffic, latency) = (run.fleet.traffic(), run.board.take_latency().whole);
    let tally = run.end()?;
    let (share_looks, share_violations) = watch.end();
    let released = releases(&cluster)?;
    let report = Report {
        rounds: options.rounds,
        tally,
        moves: traffic.moves,
        resent: traffic.resent,
        seconds_per_round,
        released: released.len(),
        window_excess_messages: excess(&released, limit.rate, limit.burst),
        is_strict: limit.judged_by == limit::JudgedBy::Release,
        share_looks,
        share_violations,
        latency_p50_us: latency.value_at_quantile(0.5),
        latency_p99_us: latency.value_at_quantile(0.99),
    };
    println!("{report:#?}");
    options.judge(&workload, &report)
}

/// Drains the broker with the most publishers until all of them are elsewhere, and takes it back; how many seconds it
/// took, `None` if they did not all move.
fn empty_the_fullest(api: &Controller, run: &Run, all: u64) -> Result<Option<f64>, BenchError> {
    let view = api.topic(TOPIC)?;
    let fullest = view.brokers.iter().max_by_key(|broker| broker.attached);
    let from = fullest
        .map(|broker| broker.broker.clone())
        .unwrap_or_default();
    let began_ns = monotonic_ns();
    api.drain(&from)?;
    let is_moved = run.wait(MOVE_TIMEOUT, || {
        api.topic(TOPIC).is_ok_and(|view| {
            let total: usize = view.brokers.iter().map(|broker| broker.attached).sum();
            let mut there = view.brokers.iter().filter(|broker| broker.broker == from);
            there.all(|broker| broker.attached == 0) && total as u64 == all
        })
    })?;
    let seconds = (monotonic_ns() - began_ns) as f64 / 1e9;
    api.resume(&from)?;
    Ok(is_moved.then_some(seconds))
}
