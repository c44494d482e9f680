//! Brokers are killed under load, again and again.

use std::time::Duration;

use hdrhistogram::Histogram;
use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::watch::ShareWatch;
use super::{ClusterOptions, TOPIC, begin, busiest};
use crate::cluster::Cluster;
use crate::judged::{Judged, verdict};
use bench::BenchError;
use bench::cluster::Tally;
use bench::sys::{monotonic_ns, pause_for};

/// Publishers that are not heard of within this time count as lost.
const HEARD_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between a broker's return and the next kill.
const PAUSE: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    kills: u32,
    publishers_hit: u64,
    never_heard: u64,
    recovery_p50_ms: f64,
    recovery_p99_ms: f64,
    recovery_max_ms: f64,
    tally: Tally,
    resent: u64,
    share_looks: u64,
    share_violations: u64,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-kills";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = Self::KIND;
        vec![
            verdict(
                of,
                "all publishers are heard again",
                self.never_heard == 0,
                format!("{} of {} were not", self.never_heard, self.publishers_hit),
            ),
            verdict(
                of,
                "99 of 100 publishers are silent for at most 2 s",
                self.recovery_p99_ms <= 2000.0,
                format!("{} ms", self.recovery_p99_ms),
            ),
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
    let mut cluster = Cluster::start(options.setup("kills")?)?;
    let (api, limit) = (cluster.api(), options.limit()?);
    api.put_topic(TOPIC, &options.spec(Mode::Replay)?)?;
    let seconds = 60.0 + f64::from(options.rounds) * 30.0;
    let run = begin(&options.plan(&cluster, workload.clone(), seconds))?;
    let watch = ShareWatch::start(api.clone(), limit);
    pause_for(PAUSE);
    let mut recovery_us =
        Histogram::<u64>::new_with_bounds(1, 120_000_000, 3).expect("constant bounds are valid");
    let mut never_heard = 0;
    for _ in 0..options.rounds {
        let placed = run.fleet.brokers();
        let victim = busiest(&cluster, &placed);
        let address = cluster.brokers[victim].tcp.to_string();
        let publishers = (0u32..)
            .zip(&placed)
            .filter(|(_, broker)| broker.as_deref() == Some(&address));
        let hit: Vec<u32> = publishers.map(|(number, _)| number).collect();
        cluster.kill_broker(victim)?;
        let killed_ns = monotonic_ns();
        run.board.mark(killed_ns);
        run.wait(HEARD_TIMEOUT, || {
            hit.iter()
                .all(|&number| run.board.heard_ns(number).is_some())
        })?;
        for &number in &hit {
            match run.board.heard_ns(number) {
                Some(heard_ns) => {
                    recovery_us.saturating_record(heard_ns.saturating_sub(killed_ns) / 1000)
                }
                None => never_heard += 1,
            }
        }
        cluster.start_broker(victim)?;
        pause_for(PAUSE);
    }
    let traffic = run.fleet.traffic();
    let tally = run.end()?;
    let (share_looks, share_violations) = watch.end();
    let ms = |us: u64| us as f64 / 1000.0;
    let report = Report {
        kills: options.rounds,
        publishers_hit: recovery_us.len() + never_heard,
        never_heard,
        recovery_p50_ms: ms(recovery_us.value_at_quantile(0.5)),
        recovery_p99_ms: ms(recovery_us.value_at_quantile(0.99)),
        recovery_max_ms: ms(recovery_us.max()),
        tally,
        resent: traffic.resent,
        share_looks,
        share_violations,
    };
    println!("{report:#?}");
    options.judge(&workload, &report)
}
