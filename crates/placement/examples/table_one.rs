//! Table 1 of SRTM-long (load distribution latency) in virtual time, by measuring and by replay.
//!
//! ```text
//! cargo run --release -p placement --example table_one [SERVICE_US [BURST [SEED]]]
//! ```
//!
//! The paper's topic: 1,000 publishers of 10 messages/s in batches of 10, groups of 5 to 30, SLO p99 1 ms,
//! windows of 60 s, six empty brokers. Each needs SERVICE_US (12) per message on one server; the fit is told
//! 15 % less. Windows report up to 2 % of noise. The limit is r = 1.1 × the mean rate and BURST (4) times the
//! burst that a single bucket needs to delay nothing. "best us" is the least worst p99 that an even
//! distribution over any number of brokers has, and with how many. Speed of the replay itself is printed last.

#![allow(clippy::print_stdout, reason = "it prints a table")]

#[path = "../tests/virtual_cluster/mod.rs"]
mod virtual_cluster;

use placement::{FitStatus, Mode, Policy, ReplayProblem, Replayer, Step, fit_by_replay};
use virtual_cluster::{AMPLE_BURST, Sending, VirtualCluster, service};

/// Seconds per group size in the paper's table.
const PAPER: [(u32, u32); 6] = [
    (5, 64),
    (10, 189),
    (15, 558),
    (20, 745),
    (25, 871),
    (30, 1058),
];

/// What a table is about.
#[derive(Clone, Copy)]
struct Scene {
    service_us: f64,
    burst: f64,
    seed: u64,
}

fn main() {
    let argument = |at: usize| std::env::args().nth(at).and_then(|text| text.parse().ok());
    let scene = Scene {
        service_us: argument(1).unwrap_or(12.0),
        burst: argument(2).unwrap_or(AMPLE_BURST),
        seed: argument(3).unwrap_or(1.0) as u64,
    };
    for sending in [Sending::Periodic, Sending::Poisson] {
        for mode in Mode::ALL {
            println!("\n{sending:?} groups, by {mode}");
            println!(
                "{:>5}  {:<44} {:>7} {:>7} {:>7} {:>8} {:>9} {:>8}",
                "group",
                "rounds (k)",
                "windows",
                "seconds",
                "paper s",
                "p99 us",
                "predicted",
                "best us"
            );
            for (group_size, paper_s) in PAPER {
                row(group_size, paper_s, sending, mode, scene);
            }
        }
    }
    speed();
}

fn row(group_size: u32, paper_s: u32, sending: Sending, mode: Mode, scene: Scene) {
    let mut cluster = VirtualCluster::new(group_size, sending, 60, scene.seed);
    cluster.truth.fill(service(scene.service_us));
    cluster.told.fill(service(scene.service_us / 1.15));
    cluster.limit = Some(cluster.undelaying_limit(scene.burst));
    let (mut fitting, step) = cluster.begin(mode);
    let end = cluster.drive(&mut fitting, step);
    let status = fitting.status();
    let (best_us, best_k) = cluster.best_possible(Policy::Srtm);
    let last = status.iterations.last().expect("one iteration at least");
    let worst = |latencies: Vec<f64>| match latencies.into_iter().reduce(f64::max) {
        Some(latency) => format!("{latency:.0}"),
        None => String::from("-"),
    };
    println!(
        "{group_size:>5}  {:<44} {:>7} {:>7.0} {paper_s:>7} {:>8} {:>9} {best_us:>6.0}/{best_k} {}",
        rounds(status),
        status.windows,
        status.seconds,
        worst(
            last.brokers
                .iter()
                .filter_map(|broker| broker.p99_us)
                .collect()
        ),
        worst(
            last.brokers
                .iter()
                .filter_map(|broker| broker.predicted_p99_us)
                .collect()
        ),
        match end {
            Step::OutOfBrokers { missing, .. } =>
                format!("out of brokers, {missing:.0} msg/s missing"),
            _ if status.fallbacks > 0 => String::from("fell back"),
            _ => String::new(),
        },
    );
}

fn rounds(status: &FitStatus) -> String {
    let iterations = status.iterations.iter();
    let cells: Vec<String> = iterations
        .map(|iteration| format!("{} ({})", iteration.rounds, iteration.k))
        .collect();
    cells.join(", ")
}

#[allow(clippy::disallowed_methods, reason = "it measures the replay's speed")]
fn speed() {
    let cluster = VirtualCluster::new(30, Sending::Poisson, 60, 1);
    let trace = cluster.arrivals(0);
    let mut replayer = Replayer::default();
    for (name, limit) in [("with a bucket", cluster.limit), ("without", None)] {
        let seconds = (0..5).map(|_| {
            let begin = std::time::Instant::now();
            replayer
                .run(&trace, |_| true, limit, &service(18.0), 0.0)
                .percentile_us(99.0);
            begin.elapsed().as_secs_f64()
        });
        let best = seconds.fold(f64::INFINITY, f64::min);
        let messages = replayer
            .run(&trace, |_| true, limit, &service(18.0), 0.0)
            .messages();
        println!(
            "replay {name}: {:.1} million messages/s",
            messages as f64 / best / 1e6
        );
    }
    let config = cluster.config(Mode::Replay);
    let begin = std::time::Instant::now();
    let fit = fit_by_replay(&ReplayProblem {
        trace: &trace,
        publishers: &cluster.publishers,
        brokers: &cluster.brokers,
        models: &cluster.truth,
        backgrounds: &[],
        limit: config.limit,
        slo_us: config.slo_us,
        percentile: config.percentile,
        policy: config.policy,
        margin: 0.05,
    });
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "fit by replay of 60 s with all repairs up to k = {}: {seconds:.2} s",
        fit.k
    );
}
