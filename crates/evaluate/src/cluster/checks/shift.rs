//! Traffic shifts from the publishers of one broker to those of another, with the TB Adaptor and without.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use placement::Mode;
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::{ClusterOptions, TOPIC, begin};
use crate::cluster::Cluster;
use crate::judged::{Judged, verdict};
use bench::BenchError;
use bench::sys::pause_for;

/// Seconds of traffic before and after the shift.
const SECONDS: usize = 30;
/// History of traffic that shares follow.
const ADAPT_WINDOW: Duration = Duration::from_secs(5);
/// Part of their batches that publishers send at the quiet broker.
const QUIET: f64 = 0.2;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    adaptor: String,
    /// 99th percentile of end-to-end latency, second by second; the shift is in the middle.
    p99_ms_per_second: Vec<f64>,
    /// Seconds after the shift until the latency stays below twice that before it.
    recovered_after_s: Option<usize>,
}

impl Judged for Report {
    const KIND: &'static str = "cluster-shift";

    fn verdicts(&self) -> Vec<Verdict> {
        let of = format!("{}, adaptor {}", Self::KIND, self.adaptor);
        let figures = match self.recovered_after_s {
            Some(seconds) => format!("after {seconds} s"),
            None => "it never did".to_owned(),
        };
        let recovers = self.recovered_after_s.is_some();
        vec![if self.adaptor == "on" {
            verdict(&of, "latency recovers after the shift", recovers, figures)
        } else {
            verdict(
                &of,
                "latency does not recover by itself",
                !recovers,
                figures,
            )
        }]
    }
}

pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    for adaptor in ["on", "off"] {
        let report = measure(options, adaptor)?;
        println!("{report:#?}");
        options.judge(&options.workload(options.group()), &report)?;
    }
    Ok(())
}

fn measure(options: &ClusterOptions, adaptor: &'static str) -> Result<Report, BenchError> {
    let mut setup = options.setup(&format!("shift-{adaptor}"))?;
    setup.brokers = 2;
    // Brokers that hold just over half of the topic each, so that it takes both.
    let mcap = format!(
        "{}",
        f64::from(options.publishers) * options.rate_per_publisher * 0.6
    );
    let window = format!("{}s", ADAPT_WINDOW.as_secs());
    let flags = [
        "--adaptor",
        adaptor,
        "--adapt-window",
        &window,
        "--mcap",
        &mcap,
    ];
    setup.controller_flags.extend(flags.map(String::from));
    let cluster = Cluster::start(setup)?;
    let api = cluster.api();
    // A promise that always holds: with one, capacities count.
    let mut spec = options.spec(Mode::Measure)?;
    spec.slo = Some(api::view::Slo {
        percentile: 99.0,
        latency_us: 3e9,
    });
    api.put_topic(TOPIC, &spec)?;
    let run = begin(&options.plan(&cluster, options.workload(options.group()), 300.0))?;
    let quiet = |number: usize| {
        let address = cluster.brokers[number].tcp.to_string();
        let thinning = HashMap::from([(address, QUIET)]);
        *run.fleet
            .thinning
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = thinning;
    };
    quiet(1);
    // What gathered while publishers were placed leaves the history.
    pause_for(ADAPT_WINDOW * 5);
    run.board.take_latency();
    let mut p99_ms_per_second = Vec::new();
    for second in 0..2 * SECONDS {
        if second == SECONDS {
            quiet(0);
        }
        pause_for(Duration::from_secs(1));
        p99_ms_per_second
            .push(run.board.take_latency().whole.value_at_quantile(0.99) as f64 / 1000.0);
    }
    run.end()?;
    let (before, after) = p99_ms_per_second.split_at(SECONDS);
    let mut sorted = before.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Where it was bad before, being as bad is no recovery.
    let calm_ms = (sorted[SECONDS / 2] * 2.0).clamp(20.0, 50.0);
    let last_bad = after.iter().rposition(|&ms| ms > calm_ms);
    let recovered_after_s = match last_bad {
        None => Some(0),
        Some(last) if last + 5 < SECONDS => Some(last + 1),
        Some(_) => None,
    };
    Ok(Report {
        adaptor: adaptor.to_owned(),
        p99_ms_per_second,
        recovered_after_s,
    })
}
