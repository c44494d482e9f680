//! The controller is killed, stays away, and comes back.

use std::time::Duration;

use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::{ClusterOptions, TOPIC, begin};
use crate::cluster::Cluster;
use crate::judged::{Judged, delivered_once, verdict};
use bench::BenchError;
use bench::cluster::Tally;
use bench::sys::pause_for;

/// How long it stays away: shorter than a lease.
const AWAY: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    tally: Tally,
    received_before: u64,
    received_while_away: u64,
    received_after: u64,
    moves_after: u64,
    placement_kept: bool,
    shares_after: Vec<f64>,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-controller-killed";

    fn verdicts(&self) -> Vec<Verdict> {
        let (of, tally) = (Self::KIND, self.tally);
        let (before, away) = (self.received_before, self.received_while_away);
        vec![
            delivered_once(of, tally.lost, tally.duplicated),
            verdict(
                of,
                "no publisher is moved",
                self.placement_kept && self.moves_after == 0,
                format!("{} moves", self.moves_after),
            ),
            verdict(
                of,
                "data flows on without the controller",
                away * 2 > before / 2,
                format!("{away} messages came meanwhile, {before} before"),
            ),
        ]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let workload = options.workload(options.group());
    let mut cluster = Cluster::start(options.setup("controller-killed")?)?;
    let api = cluster.api();
    api.put_topic(TOPIC, &options.spec(Mode::Replay)?)?;
    let run = begin(&options.plan(&cluster, workload.clone(), 300.0))?;
    pause_for(Duration::from_secs(5));
    let received_in = |span: Duration| {
        let before = run.board.traffic().1;
        pause_for(span);
        run.board.traffic().1 - before
    };
    let received_before = received_in(AWAY);
    let (placed, moves) = (run.fleet.brokers(), run.fleet.traffic().moves);
    cluster.kill_controller()?;
    let received_while_away = received_in(AWAY);
    cluster.start_controller()?;
    pause_for(Duration::from_secs(10));
    let received_after = received_in(AWAY);
    let view = api.topic(TOPIC)?;
    let shares_after = view
        .brokers
        .iter()
        .filter_map(|broker| broker.share)
        .map(|share| share.rate.get())
        .collect();
    let report_moves = run.fleet.traffic().moves - moves;
    let placement_kept = run.fleet.brokers() == placed;
    let tally = run.end()?;
    let report = Report {
        tally,
        received_before,
        received_while_away,
        received_after,
        moves_after: report_moves,
        placement_kept,
        shares_after,
    };
    println!("{report:#?}");
    options.judge(&workload, &report)
}
