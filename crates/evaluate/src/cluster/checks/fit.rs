//! A topic is fitted to its promise, live, for several sizes of groups (SRTM-long, table 1), beside
//! a simulation with the same capacities.

use std::time::Duration;

use api::view::{TopicSpec, TopicView};
use clock::DurationText;
use hdrhistogram::Histogram;
use model::ServiceModel;
use placement::{
    Arrival, BrokerState, GroupIndex, Mode, Policy, Publisher, PublisherIndex, ReplayProblem,
    Trace, fit_by_replay,
};
use serde::Serialize;

use super::{ClusterOptions, TOPIC, begin};
use crate::cluster::Cluster;
use bench::BenchError;
use bench::sys::{monotonic_ns, pause_for};
use bench::workload::Workload;

/// Windows that one fit may take at most.
const WINDOWS_MAX: f64 = 40.0;
/// Fixed latency of a broker on this kind of machine, as the simulation has it.
const BASE_NS: f64 = 150_000.0;

/// One row of the table.
#[derive(Debug, Serialize)]
struct Row {
    group: u32,
    policy: Policy,
    mode: Mode,
    state: String,
    brokers: usize,
    windows: u32,
    rounds: Vec<u32>,
    window_seconds: f64,
    seconds: f64,
    /// The brokers' end-to-end p99 in the last window, worst of all.
    reported_p99_us: f64,
    #[serde(flatten)]
    afterwards: Afterwards,
    simulated_met: bool,
    simulated_brokers: usize,
    simulated_p99_us: f64,
}

/// A window of the watch afterwards, from both sides, at the 99th percentile. The promise is on `service_p99_us`, and
/// `watched_p99_us` is how the brokers see it; the rest of `true_p99_us` is the machine that plays publishers and subscribers.
#[derive(Debug, Serialize)]
struct Afterwards {
    /// What the brokers report, the worst of all.
    watched_p99_us: f64,
    /// From the schedule to the subscribing program.
    true_p99_us: u64,
    /// Due, and not yet given to the publisher's connection.
    late_p99_us: u64,
    /// From there to the subscriber's kernel.
    service_p99_us: u64,
    /// In the subscriber's kernel, and not yet read.
    unread_p99_us: u64,
}

/// Between the end of a fit and the first window of the watch: the controller lets traffic settle for 3 s.
const SETTLE: Duration = Duration::from_secs(3);
/// A window that has ended is known at the controller after so long.
const TOLD: Duration = Duration::from_secs(1);

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    println!(
        "{:>5} {:>8} {:>8} {:>14} {:>7} {:>7} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}  SIMULATED",
        "GROUP",
        "POLICY",
        "MODE",
        "STATE",
        "BROKERS",
        "WINDOWS",
        "WINDOW S",
        "SECONDS",
        "P99 US",
        "THEN US",
        "TRUE US",
        "LATE US",
        "SERVICE",
        "UNREAD US"
    );
    for (&mode, &policy) in options
        .modes
        .iter()
        .flat_map(|mode| options.policies.iter().map(move |policy| (mode, policy)))
    {
        for &group in &options.group_publishers {
            let row = fit(options, (mode, policy), group)?;
            println!(
                "{:>5} {:>8} {:>8} {:>14} {:>7} {:>7} {:>9.0} {:>8.1} {:>8.0} {:>8.0} {:>8} {:>8} {:>8} {:>9}  {} with {} at {:.0} us; rounds {:?}",
                row.group,
                row.policy,
                row.mode,
                row.state,
                row.brokers,
                row.windows,
                row.window_seconds,
                row.seconds,
                row.reported_p99_us,
                row.afterwards.watched_p99_us,
                row.afterwards.true_p99_us,
                row.afterwards.late_p99_us,
                row.afterwards.service_p99_us,
                row.afterwards.unread_p99_us,
                if row.simulated_met { "met" } else { "not met" },
                row.simulated_brokers,
                row.simulated_p99_us,
                row.rounds,
            );
            options.keep("cluster-fit", &options.workload(group), &row)?;
        }
    }
    Ok(())
}

fn fit(
    options: &ClusterOptions,
    (mode, policy): (Mode, Policy),
    group: u32,
) -> Result<Row, BenchError> {
    let slo_us = options
        .slo_us
        .ok_or_else(|| BenchError::Options(String::from("fit needs --slo-us")))?;
    let workload = options.workload(group);
    let cluster = Cluster::start(options.setup(&format!("fit-{policy}-{mode}-{group}"))?)?;
    let api = cluster.api();
    let spec = TopicSpec {
        policy,
        ..options.spec(mode)?
    };
    api.put_topic(TOPIC, &spec)?;
    let at_most = WINDOWS_MAX * (options.window_s + 5.0);
    let run = begin(&options.plan(&cluster, workload.clone(), at_most + 60.0))?;
    let began_ns = monotonic_ns();
    let mut view = api.topic(TOPIC)?;
    run.wait(Duration::from_secs_f64(at_most), || {
        if let Ok(now) = api.topic(TOPIC) {
            view = now;
        }
        ["fitted", "out-of-brokers"].contains(&view.state.as_str())
    })?;
    let seconds = (monotonic_ns() - began_ns) as f64 / 1e9;
    let reported_p99_us = worst_p99_us(&view);
    pause_for(SETTLE);
    run.board.take_latency();
    pause_for(Duration::from_secs_f64(options.window_s));
    let latency = run.board.take_latency();
    pause_for(TOLD);
    let watched = api.topic(TOPIC)?;
    run.end()?;
    let p99_us = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.99);
    let afterwards = Afterwards {
        watched_p99_us: worst_p99_us(&watched),
        true_p99_us: p99_us(&latency.whole),
        late_p99_us: p99_us(&latency.late),
        service_p99_us: p99_us(&latency.service),
        unread_p99_us: p99_us(&latency.unread),
    };
    let (simulated_met, simulated_brokers, simulated_p99_us) =
        simulate(options, &workload, slo_us, &spec);
    let status = view.fit_status.clone().unwrap_or_default();
    Ok(Row {
        group,
        policy,
        mode,
        brokers: view
            .brokers
            .iter()
            .filter(|broker| broker.publishers > 0)
            .count(),
        state: view.state,
        windows: status.windows,
        rounds: status
            .iterations
            .iter()
            .map(|iteration| iteration.rounds)
            .collect(),
        window_seconds: status.seconds,
        seconds,
        reported_p99_us,
        afterwards,
        simulated_met,
        simulated_brokers,
        simulated_p99_us,
    })
}

/// The latency that the brokers reported last, the worst of all.
fn worst_p99_us(view: &TopicView) -> f64 {
    let reported = view.brokers.iter().filter_map(|broker| broker.latency_us);
    reported.fold(0.0, f64::max)
}

/// What brokers of the same service time could do with the same arrivals.
fn simulate(
    options: &ClusterOptions,
    workload: &Workload,
    slo_us: f64,
    spec: &TopicSpec,
) -> (bool, usize, f64) {
    let service_ns = options
        .service_time
        .as_deref()
        .and_then(|text| text.parse::<DurationText>().ok())
        .map_or(0.0, |service| service.0.as_nanos() as f64);
    let model = ServiceModel {
        per_message_ns: service_ns,
        per_batch_ns: 0.0,
        per_active_connection_ns: 0.0,
        base_ns: BASE_NS,
        servers: 1,
    };
    let span_ns = (options.window_s * 1e9) as u64;
    let sends = workload.schedule();
    let arrivals: Vec<Arrival> = sends
        .take_while(|send| send.at_ns < span_ns)
        .map(|send| Arrival {
            at_ns: send.at_ns,
            publisher: PublisherIndex(send.publisher),
            messages: send.messages,
        })
        .collect();
    let trace = Trace {
        arrivals,
        begin_ns: 0,
        end_ns: span_ns,
    };
    let Ok(rate) = limit::Rate::new(workload.rate_per_publisher) else {
        return (false, 0, 0.0);
    };
    let publishers: Vec<Publisher> = (0..workload.publishers)
        .map(|number| Publisher {
            rate,
            batch_messages: workload.batch_messages,
            group: Some(GroupIndex(number / workload.group_publishers)),
        })
        .collect();
    let brokers = vec![
        BrokerState {
            mcap: 0.9e9 / service_ns.max(1.0),
            load: 0.0,
            is_available: true
        };
        options.brokers
    ];
    let fit = fit_by_replay(&ReplayProblem {
        trace: &trace,
        publishers: &publishers,
        brokers: &brokers,
        models: &vec![model; options.brokers],
        backgrounds: &vec![0.0; options.brokers],
        limit: spec.contract.limit.map(|limit| (limit.rate, limit.burst)),
        slo_us,
        percentile: 99.0,
        policy: spec.policy,
        margin: 0.0,
        neighbours: &[],
    });
    let worst = fit.predicted.iter().flatten().copied().fold(0.0, f64::max);
    (fit.met, fit.k, worst)
}
