//! The checks: an intervention on a cluster under load, and the conditions that must hold.

mod agree;
mod channels;
mod controller_killed;
mod fit;
mod kills;
mod moves;
mod neighbour_promise;
mod overload;
mod restart;
mod seconds;
mod sharing;
mod shift;
mod stopped;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::view::{Contract, Slo, TopicSpec};
use clap::{Args, ValueEnum};
use limit::oracle;
use limit::{Burst, JudgedBy, Limit, Rate};
use placement::{Mode, Policy};
use serde::Serialize;

use super::processes::{Broker, Cluster, Setup, empty_folder};
use crate::judged::{Judge, Judged, judge, unmet};
use bench::BenchError;
use bench::cluster::{Plan, Run};
use bench::report::Results;
use bench::stamp::{STAMP_BYTES, Stamp};
use bench::sys::{self, monotonic_ns};
use bench::workload::{Arrivals, Workload};

/// Topic of all checks.
pub(super) const TOPIC: &str = "telemetry";

/// Options of `srtm-evaluate cluster`.
#[derive(Debug, Clone, Args)]
pub struct ClusterOptions {
    /// Check to run.
    #[arg(value_enum)]
    pub check: Check,
    /// The srtm program.
    #[arg(long, default_value = "target/release/srtm", value_name = "FILE")]
    pub srtm: PathBuf,
    /// Brokers.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub brokers: usize,
    /// Publishers.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub publishers: u32,
    /// Messages per second of each.
    #[arg(long, default_value_t = 10.0, value_name = "MSG/S")]
    pub rate_per_publisher: f64,
    /// Messages sent at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub batch_messages: u32,
    /// Publishers that send at the same instant; several for `fit`.
    #[arg(long, default_values_t = [1], value_delimiter = ',', value_name = "N,…")]
    pub group_publishers: Vec<u32>,
    /// Limit: messages per second.
    #[arg(long, default_value_t = 11_000.0, value_name = "MSG/S")]
    pub rate: f64,
    /// Limit: messages that may pass at once.
    #[arg(long, default_value_t = 1000.0, value_name = "MSG")]
    pub burst: f64,
    /// Instant by which conformance is judged: arrival or release.
    #[arg(long, default_value = "arrival", value_name = "INSTANT")]
    pub judged_by: JudgedBy,
    /// Promise for the 99th percentile.
    #[arg(long, value_name = "US")]
    pub slo_us: Option<f64>,
    /// How publishers are distributed, for `fit`; one or several of srtm, max-min, conc, lb.
    #[arg(long, value_delimiter = ',', default_value = "srtm")]
    pub policies: Vec<Policy>,
    /// How the fit is found, for `fit`: replay, measure or both.
    #[arg(long, value_delimiter = ',', default_value = "replay")]
    pub modes: Vec<Mode>,
    /// Emulated service time per message of each broker, such as 40us.
    #[arg(long, value_name = "DURATION")]
    pub service_time: Option<String>,
    /// Length of a profiling window in seconds.
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    pub window_s: f64,
    /// Number of rounds.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub rounds: u32,
    /// Seed of the schedule.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder for stores and logs of the clusters.
    #[arg(long, default_value = "/tmp", value_name = "FOLDER")]
    pub work_dir: PathBuf,
    /// File that results are appended to.
    #[arg(
        long,
        default_value = "bench/results/cluster.jsonl",
        value_name = "FILE"
    )]
    pub results: PathBuf,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Publishers are moved back and forth: nothing lost, nothing twice, the limit kept.
    Moves,
    /// Brokers are killed: how soon are their publishers heard again?
    Kills,
    /// A broker stands still for ten seconds: it must get no extra tokens.
    Stopped,
    /// The controller is killed and started again: data flows on.
    ControllerKilled,
    /// Traffic shifts between brokers, with the TB Adaptor and without.
    Shift,
    /// Ways of sharing a limit over brokers: greedy publishers, and traffic that shifts over six brokers.
    Sharing,
    /// The simulator beside live brokers of known service time, in several configurations.
    Agree,
    /// A topic under a tight limit over 1 to 6 brokers, live and simulated: what splitting costs.
    Penalty,
    /// A topic is fitted to its promise, for several sizes of groups: the paper's table I.
    Fit,
    /// A topic's channels wherever its publishers are: drained brokers, second brokers, absent consumers that return by
    /// lookup. Brings its own load.
    Channels,
    /// What passes a limit after brokers and controller were killed and started again, and at brokers that have just joined.
    /// Brings its own load.
    Restart,
    /// Publishers send twice as fast as their broker serves: how soon is the promise kept again? Brings its own load.
    Overload,
    /// A topic comes with bursts beside one with a tighter promise: is that one kept? Brings its own load.
    NeighbourPromise,
}

/// How the records of checks are judged, by their kind.
pub const JUDGES: [(&str, Judge); 10] = [
    (moves::Report::KIND, judge::<moves::Report>),
    (kills::Report::KIND, judge::<kills::Report>),
    (stopped::Report::KIND, judge::<stopped::Report>),
    (
        controller_killed::Report::KIND,
        judge::<controller_killed::Report>,
    ),
    (shift::Report::KIND, judge::<shift::Report>),
    (sharing::Parts::KIND, judge::<sharing::Parts>),
    (channels::Report::KIND, judge::<channels::Report>),
    (restart::Report::KIND, judge::<restart::Report>),
    (overload::Report::KIND, judge::<overload::Report>),
    (
        neighbour_promise::Report::KIND,
        judge::<neighbour_promise::Report>,
    ),
];

/// Does it, prints and keeps what came out.
///
/// # Errors
/// Where the cluster cannot be run, or where something that must hold does not.
pub fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    match options.check {
        Check::Moves => moves::check(options),
        Check::Kills => kills::check(options),
        Check::Stopped => stopped::check(options),
        Check::ControllerKilled => controller_killed::check(options),
        Check::Shift => shift::check(options),
        Check::Sharing => sharing::check(options),
        Check::Agree => agree::check(options),
        Check::Penalty => agree::check_penalty(options),
        Check::Fit => fit::check(options),
        Check::Channels => channels::check(options),
        Check::Restart => restart::check(options),
        Check::Overload => overload::check(options),
        Check::NeighbourPromise => neighbour_promise::check(options),
    }
}

impl ClusterOptions {
    pub(super) fn workload(&self, group_publishers: u32) -> Workload {
        Workload {
            publishers: self.publishers,
            rate_per_publisher: self.rate_per_publisher,
            arrivals: Arrivals::Periodic,
            batch_messages: self.batch_messages,
            mpub: self.batch_messages > 1,
            group_publishers,
            seed: self.seed,
            ..Workload::default()
        }
    }

    pub(super) fn group(&self) -> u32 {
        self.group_publishers.first().copied().unwrap_or(1)
    }

    pub(super) fn plan(&self, cluster: &Cluster, workload: Workload, seconds: f64) -> Plan {
        let messages = workload.offered_per_second() * seconds * 1.2 + 10_000.0;
        Plan {
            controller: cluster.address(),
            topic: TOPIC.to_owned(),
            declared_rate: workload.rate_per_publisher,
            workload,
            tells_groups: true,
            messages_max: messages as usize,
        }
    }

    pub(super) fn setup(&self, name: &str) -> Result<Setup, BenchError> {
        let window = format!("{}ms", (self.window_s * 1000.0) as u64);
        Ok(Setup {
            program: self.srtm.clone(),
            brokers: self.brokers,
            service_time: self.service_time.clone(),
            controller_flags: vec![String::from("--profile-window"), window],
            broker_flags: Vec::new(),
            brokers_keep: false,
            has_controller: true,
            folder: empty_folder(&self.work_dir, name)?,
        })
    }

    pub(super) fn limit(&self) -> Result<Limit, BenchError> {
        let invalid = |error: limit::InvalidLimit| BenchError::Options(error.to_string());
        let limit = Limit::messages(self.rate, self.burst).map_err(invalid)?;
        Ok(Limit {
            judged_by: self.judged_by,
            ..limit
        })
    }

    pub(super) fn spec(&self, fit: Mode) -> Result<TopicSpec, BenchError> {
        Ok(TopicSpec {
            contract: Contract::of_limit(self.limit()?),
            slo: self.slo_us.map(|latency_us| Slo {
                percentile: 99.0,
                latency_us,
            }),
            fit,
            ..TopicSpec::default()
        })
    }

    pub(super) fn keep(
        &self,
        kind: &str,
        workload: &Workload,
        result: &impl Serialize,
    ) -> Result<(), BenchError> {
        Results::new(Some(&self.results)).append(kind, "srtm", 1, workload, result)
    }

    /// Keeps a result; an error where something that must hold of it does not.
    pub(super) fn judge<R: Judged>(
        &self,
        workload: &Workload,
        result: &R,
    ) -> Result<(), BenchError> {
        self.keep(R::KIND, workload, result)?;
        all_hold(unmet(result))
    }

    /// Keeps the result of a check that brings its own load.
    pub(super) fn keep_own(&self, kind: &str, result: &impl Serialize) -> Result<(), BenchError> {
        Results::new(Some(&self.results)).append(kind, "srtm", 1, &"its own", result)
    }

    /// Two brokers under a controller.
    pub(super) fn two_brokers(&self, name: &str) -> Result<Setup, BenchError> {
        Ok(Setup {
            brokers: 2,
            ..self.setup(name)?
        })
    }
}

/// A message that says which it is.
pub(super) fn stamped(sequence: u64) -> Vec<u8> {
    let mut body = vec![b'x'; STAMP_BYTES];
    let stamp = Stamp {
        run: 0,
        publisher: 0,
        sequence,
        scheduled_ns: monotonic_ns(),
    };
    stamp.write_to(&mut body);
    body
}

/// Release instants of all brokers, in order; the brokers' logs are emptied by it.
pub(super) fn releases(cluster: &Cluster) -> Result<Vec<clock::Instant>, BenchError> {
    let mut all = Vec::new();
    for broker in &cluster.brokers {
        all.extend(releases_of(broker)?);
    }
    all.sort_unstable();
    Ok(all)
}

/// Release instants of one broker; its log is emptied by it.
pub(super) fn releases_of(broker: &Broker) -> Result<Vec<clock::Instant>, BenchError> {
    broker.port().releases(TOPIC)
}

/// By how many messages the worst window of releases exceeded r·t + b.
pub(super) fn excess(releases: &[clock::Instant], rate: Rate, burst: Burst) -> f64 {
    oracle::window_excess(releases, rate, burst)
}

/// The broker that most publishers are connected to.
pub(super) fn busiest(cluster: &Cluster, placed: &[Option<String>]) -> usize {
    let count = |number: &usize| {
        let address = cluster.brokers[*number].tcp.to_string();
        let here = placed.iter().flatten().filter(|broker| **broker == address);
        here.count()
    };
    (0..cluster.brokers.len()).max_by_key(count).unwrap_or(0)
}

/// Fails with what does not hold, if anything.
fn all_hold(failures: Vec<String>) -> Result<(), BenchError> {
    must(failures.is_empty(), || failures.join("; "))
}

/// Fails with `text` unless `holds`.
pub(super) fn must(holds: bool, text: impl FnOnce() -> String) -> Result<(), BenchError> {
    if holds {
        return Ok(());
    }
    Err(BenchError::protocol(
        "a condition that must hold does not",
        text(),
    ))
}

/// Starts the publishers and subscribers of `plan` and waits until they send.
///
/// # Errors
/// Where they cannot be started or do not all connect within [`CONNECT`].
pub(super) fn begin(plan: &Plan) -> Result<Run, BenchError> {
    let run = Run::start(plan)?;
    let connected = run.wait(CONNECT, || run.fleet.has_begun.load(Ordering::Relaxed))?;
    must(connected, || {
        format!("publishers not connected within {} s", CONNECT.as_secs())
    })?;
    Ok(run)
}

/// Longest time in which publishers connect.
const CONNECT: Duration = Duration::from_secs(60);
