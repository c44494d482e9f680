//! Traffic that moves from broker to broker under one limit, once for each way of sharing.
//!
//! All brokers have the same number of publishers; what these send changes every [`PHASE`]. For a
//! while all together ask for 80 % of the limit, which one bucket would let pass at once; then for
//! 120 %.

use std::collections::HashMap;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use api::view::{Contract, TopicSpec};
use clock::Instant;
use hdrhistogram::Histogram;
use limit::{OnExceed, SharePolicy};
use placement::{Mode, Policy as Placement};
use serde::Serialize;

use super::{ClusterOptions, TOPIC, Way, limit, total};
use crate::cluster::checks::{begin, excess, releases};
use crate::cluster::{Cluster, Setup};
use bench::BenchError;
use bench::cluster::{Plan, Run};
use bench::sys::{monotonic_ns, pause_for};
use bench::workload::{Arrivals, Workload};

/// Brokers.
const BROKERS: usize = 6;
/// Publishers at each.
const PUBLISHERS: u32 = 10;
/// What one broker's publishers send at most, as a part of the limit.
const MOST: f64 = 0.5;
/// How long traffic stays as it is.
const PHASE: Duration = Duration::from_secs(10);
/// Time with even traffic before anything is measured.
const SETTLE: Duration = Duration::from_secs(15);
/// The end of a phase, when whoever follows traffic has followed it.
const LATE: Duration = Duration::from_secs(3);

/// Parts of [`MOST`] that each broker's publishers send; the sum times `MOST` is what is asked for.
const SHIFTS: [[f64; BROKERS]; 3] = [
    [0.8, 0.4, 0.1, 0.1, 0.1, 0.1],
    [0.1, 0.1, 0.1, 0.8, 0.4, 0.1],
    [0.1, 0.8, 0.1, 0.1, 0.1, 0.4],
];
/// Likewise, 80 % of the limit, evenly.
const EVEN: [f64; BROKERS] = [0.8 / 3.0; BROKERS];
/// Likewise, 120 %.
const TOO_MUCH: [f64; BROKERS] = [0.2, 0.8, 0.8, 0.2, 0.2, 0.2];

const LEASES: Way = Way {
    name: "fixed",
    policy: SharePolicy::Lease,
    adaptor: false,
    on_exceed: OnExceed::Delay,
};

/// What is compared.
pub(super) const WAYS: [Way; 9] = [
    LEASES,
    Way {
        name: "TB Adaptor",
        adaptor: true,
        ..LEASES
    },
    Way {
        name: "gtb",
        policy: SharePolicy::Gtb,
        ..LEASES
    },
    Way {
        name: "fps",
        policy: SharePolicy::Fps,
        ..LEASES
    },
    Way {
        name: "fixed",
        on_exceed: OnExceed::Drop,
        ..LEASES
    },
    Way {
        name: "TB Adaptor",
        adaptor: true,
        on_exceed: OnExceed::Drop,
        ..LEASES
    },
    Way {
        name: "gtb",
        policy: SharePolicy::Gtb,
        on_exceed: OnExceed::Drop,
        ..LEASES
    },
    Way {
        name: "grd",
        policy: SharePolicy::Grd,
        on_exceed: OnExceed::Drop,
        ..LEASES
    },
    Way {
        name: "fps",
        policy: SharePolicy::Fps,
        on_exceed: OnExceed::Drop,
        ..LEASES
    },
];

/// How one way of sharing came out.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    way: Way,
    /// Latency from the scheduled send to the subscriber while 80 % of the limit was asked for and shifted, ms.
    p50_ms: f64,
    p99_ms: f64,
    /// The same in the last 3 s of each phase, when shares had time to follow.
    late_p99_ms: f64,
    /// Passed of what was asked for in that time.
    passed_of_offered: f64,
    /// Passed in the second half of the time in which 120 % of the limit was asked for, of r·t.
    passed_of_limit: f64,
    /// Messages by which the worst window of releases of all brokers exceeded r·t + b: while traffic shifted, and while it
    /// was too much.
    excess_shifting: f64,
    excess_too_much: f64,
    /// Bytes per second of all brokers: gossip with headers, link to the controller without.
    gossip_bytes_per_s: f64,
    link_bytes_per_s: f64,
}

impl Row {
    pub(super) fn head() -> String {
        format!(
            "{:<11} {:<6} {:>8} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "SHARING",
            "EXCESS",
            "P50 MS",
            "P99 MS",
            "LATE P99",
            "PASSED",
            "OF LIMIT",
            "ABOVE, 80",
            "ABOVE, 120",
            "GOSSIP B/S",
            "LINK B/S"
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<11} {:<6} {:>8.2} {:>9.1} {:>9.1} {:>8.3} {:>8.3} {:>9.1} {:>9.1} {:>10.0} {:>9.0}",
            self.way.name,
            self.way.on_exceed,
            self.p50_ms,
            self.p99_ms,
            self.late_p99_ms,
            self.passed_of_offered,
            self.passed_of_limit,
            self.excess_shifting,
            self.excess_too_much,
            self.gossip_bytes_per_s,
            self.link_bytes_per_s
        )
    }
}

/// Publishers that would send three times the limit if they all sent all of it.
pub(super) fn workload(options: &ClusterOptions) -> Workload {
    Workload {
        publishers: BROKERS as u32 * PUBLISHERS,
        rate_per_publisher: options.rate * MOST / f64::from(PUBLISHERS),
        arrivals: Arrivals::Poisson,
        seed: options.seed,
        ..Workload::default()
    }
}

pub(super) fn measure(options: &ClusterOptions, way: Way) -> Result<Row, BenchError> {
    let workload = workload(options);
    let (limit, name) = (
        limit(options, way)?,
        format!("sharing-{}-{}", way.name, way.on_exceed),
    );
    let cluster = Cluster::start(setup(options, way, &name.replace(' ', "-"))?)?;
    let spec = TopicSpec {
        contract: Contract::of_limit(limit),
        // Evenly over all brokers, whether they are needed or not.
        policy: Placement::Lb,
        ..options.spec(Mode::Measure)?
    };
    cluster.api().put_topic(TOPIC, &spec)?;
    let phases = SHIFTS.len() as f64 + 2.0;
    let seconds = (SETTLE.as_secs_f64() + phases * PHASE.as_secs_f64()) * 2.0;
    let run = begin(&Plan {
        tells_groups: false,
        ..options.plan(&cluster, workload, seconds)
    })?;
    send(&run, &cluster, EVEN);
    pause_for(SETTLE);
    // Emptied; what follows is measured.
    releases(&cluster)?;
    let mut all = run.board.take_latency().whole;
    all.reset();
    let mut late = all.clone();
    let began = Mark::now(&run, &cluster);
    for parts in SHIFTS {
        send(&run, &cluster, parts);
        pause_for(PHASE - LATE);
        add(&mut all, &run.board.take_latency().whole);
        pause_for(LATE);
        let end = run.board.take_latency().whole;
        add(&mut late, &end);
        add(&mut all, &end);
    }
    let shifted = Mark::now(&run, &cluster);
    let while_shifting = releases(&cluster)?;
    send(&run, &cluster, TOO_MUCH);
    pause_for(PHASE);
    let half_ns = monotonic_ns();
    pause_for(PHASE);
    let end_ns = monotonic_ns();
    let while_too_much = releases(&cluster)?;
    run.abandon()?;
    let settled = within(&while_too_much, half_ns, end_ns);
    let (seconds, half_s) = (
        shifted.seconds_since(&began),
        (end_ns - half_ns) as f64 / 1e9,
    );
    let ms =
        |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Row {
        way,
        p50_ms: ms(&all, 0.5),
        p99_ms: ms(&all, 0.99),
        late_p99_ms: ms(&late, 0.99),
        passed_of_offered: while_shifting.len() as f64 / (shifted.offered - began.offered) as f64,
        passed_of_limit: settled as f64 / (limit.rate.get() * half_s),
        excess_shifting: excess(&while_shifting, limit.rate, limit.burst),
        excess_too_much: excess(&while_too_much, limit.rate, limit.burst),
        gossip_bytes_per_s: (shifted.gossip_bytes - began.gossip_bytes) / seconds,
        link_bytes_per_s: (shifted.link_bytes - began.link_bytes) / seconds,
    })
}

fn setup(options: &ClusterOptions, way: Way, name: &str) -> Result<Setup, BenchError> {
    let mut setup = Setup {
        brokers: BROKERS,
        ..options.setup(name)?
    };
    let adaptor = if way.adaptor { "on" } else { "off" };
    setup
        .controller_flags
        .extend(["--adaptor", adaptor].map(String::from));
    let flags = ["--release-log-messages", "4000000"];
    setup.broker_flags.extend(flags.map(String::from));
    Ok(setup)
}

/// Lets the publishers at each broker send that part of all that they could.
fn send(run: &Run, cluster: &Cluster, parts: [f64; BROKERS]) {
    let addresses = cluster.brokers.iter().map(|broker| broker.tcp.to_string());
    let thinning: HashMap<String, f64> = addresses.zip(parts).collect();
    *run.fleet
        .thinning
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = thinning;
}

fn add(sum: &mut Histogram<u64>, part: &Histogram<u64>) {
    sum.add(part).expect("both have the bounds of the board's");
}

/// Releases within a span of time.
fn within(releases: &[Instant], from_ns: u64, to_ns: u64) -> usize {
    let (from, to) = (Instant::from_nanos(from_ns), Instant::from_nanos(to_ns));
    releases.iter().filter(|at| (from..to).contains(at)).count()
}

/// What had been sent and said at some instant.
struct Mark {
    at_ns: u64,
    offered: u64,
    gossip_bytes: f64,
    link_bytes: f64,
}

impl Mark {
    fn now(run: &Run, cluster: &Cluster) -> Mark {
        Mark {
            at_ns: monotonic_ns(),
            offered: run.board.traffic().0,
            gossip_bytes: total(cluster, "srtm_gossip_sent_bytes_total"),
            link_bytes: total(cluster, "srtm_link_bytes_total"),
        }
    }

    fn seconds_since(&self, earlier: &Mark) -> f64 {
        (self.at_ns - earlier.at_ns) as f64 / 1e9
    }
}
