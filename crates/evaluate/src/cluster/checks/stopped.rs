//! A broker's process is stopped for ten seconds and continues.

use std::time::Duration;

use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::watch::ShareWatch;
use super::{ClusterOptions, TOPIC, begin, busiest, excess, releases};
use crate::cluster::Cluster;
use crate::judged::{Judged, verdict};
use bench::BenchError;
use bench::cluster::Tally;
use bench::sys::{Signal, pause_for};

/// How long it stands still.
const STOP: Duration = Duration::from_secs(10);
/// Traffic before and after.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    tally: Tally,
    resent: u64,
    released: usize,
    window_excess_messages: f64,
    /// So much it may be: conformance is judged on arrivals up to 20 ms old.
    allowed_messages: f64,
    share_looks: u64,
    share_violations: u64,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-stopped";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = Self::KIND;
        let (tally, excess) = (self.tally, self.window_excess_messages);
        vec![
            verdict(
                of,
                "a broker that stood still gets no extra tokens",
                excess <= self.allowed_messages,
                format!(
                    "{excess} messages more than r·t + b, {} allowed",
                    self.allowed_messages
                ),
            ),
            verdict(of, "nothing is lost", tally.lost == 0, format!("{tally:?}")),
            verdict(
                of,
                "the sum of shares never exceeds the limit",
                self.share_violations == 0,
                format!("{} of {} samples", self.share_violations, self.share_looks),
            ),
        ]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let workload = options.workload(options.group());
    let mut setup = options.setup("stopped")?;
    setup.broker_flags = vec![
        String::from("--release-log-messages"),
        String::from("4000000"),
    ];
    let cluster = Cluster::start(setup)?;
    let (api, limit) = (cluster.api(), options.limit()?);
    api.put_topic(TOPIC, &options.spec(Mode::Replay)?)?;
    let run = begin(&options.plan(&cluster, workload.clone(), 300.0))?;
    let watch = ShareWatch::start(api.clone(), limit);
    pause_for(PAUSE);
    let placed = run.fleet.brokers();
    let victim = busiest(&cluster, &placed);
    cluster.signal_broker(victim, Signal::Stop)?;
    pause_for(STOP);
    cluster.signal_broker(victim, Signal::Continue)?;
    pause_for(PAUSE * 3);
    let traffic = run.fleet.traffic();
    let tally = run.end()?;
    let (share_looks, share_violations) = watch.end();
    let released = releases(&cluster)?;
    let report = Report {
        tally,
        resent: traffic.resent,
        released: released.len(),
        window_excess_messages: excess(&released, limit.rate, limit.burst),
        allowed_messages: limit.rate.get() * 0.02 + 1.0,
        share_looks,
        share_violations,
    };
    println!("{report:#?}");
    options.judge(&workload, &report)
}
