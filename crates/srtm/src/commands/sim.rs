//! `srtm sim`: a load on a cluster in virtual time.

use clap::{ArgGroup, Args};
use placement::BrokerIndex;
use serde::Serialize;
use sim::{Fit, Measured, Percentiles, Scene, SimError, fit, parallel, simulate, spread};

use super::scenario::{self, Jobs, ScenarioFlags};
use crate::error::Failure;

const EXAMPLES: &str = "\
Examples:
  srtm sim W.toml
  srtm sim W.toml --brokers-used 3 --repeats 10
  srtm sim W.toml --trace arrivals.trace --seconds
  srtm sim W.toml --json

docs/workloads.md describes W.toml.";

/// Flags of `srtm sim`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("output").args(["json", "seconds"]))]
pub(crate) struct Flags {
    #[command(flatten)]
    scenario: ScenarioFlags,
    /// Seed; replaces the seed of the spec.
    #[arg(long)]
    seed: Option<u64>,
    /// Spreads publishers over this many brokers [default: the placement is fitted to the promise].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    brokers_used: Option<u16>,
    /// Independent runs, each with a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: u32,
    #[command(flatten)]
    jobs: Jobs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Prints p99 second by second.
    #[arg(long)]
    seconds: bool,
}

/// What comes out, as JSON.
#[derive(Serialize)]
struct Output {
    rate: Option<f64>,
    burst: Option<f64>,
    fit: Option<placement::FitStatus>,
    met: Option<bool>,
    missing: Option<f64>,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    measured: Measured,
}

/// Simulates and prints.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let mut spec = flags.scenario.spec()?;
    spec.seed = flags.seed.unwrap_or(spec.seed);
    let scene = flags.scenario.scene(&spec)?;
    let (fitted, broker_of) = place(&scene, flags)?;
    let repeats: Vec<u32> = (0..flags.repeats).collect();
    let bar = scenario::bar(u64::from(flags.repeats), "runs");
    let runs = parallel::map(
        flags.jobs.count(),
        &repeats,
        |&repeat| {
            let scene = scene.repeat(repeat)?;
            let measured = simulate(&scene, &broker_of)?;
            Ok(Run {
                seed: scene.spec().seed,
                measured,
            })
        },
        || bar.inc(1),
    );
    bar.finish_and_clear();
    let runs: Result<Vec<Run>, SimError> = runs.into_iter().collect();
    let limit = scene.limit();
    let output = Output {
        rate: limit.map(|(rate, _)| rate.get()),
        burst: limit.map(|(_, burst)| burst.get()),
        met: fitted.as_ref().map(|fitted| fitted.met),
        missing: fitted.as_ref().map(|fitted| fitted.missing),
        fit: fitted.map(|fitted| fitted.status),
        runs: runs?,
    };
    if flags.json {
        scenario::print_json(&output)?;
    } else {
        print(&output, flags.seconds);
    }
    Ok(())
}

type Placed = (Option<Fit>, Vec<Option<BrokerIndex>>);

fn place(scene: &Scene, flags: &Flags) -> Result<Placed, Failure> {
    match flags.brokers_used {
        Some(brokers) => Ok((None, spread(scene, usize::from(brokers)))),
        None => {
            let fitted = fit(scene)?;
            let broker_of = fitted.broker_of.clone();
            Ok((Some(fitted), broker_of))
        }
    }
}

fn print(output: &Output, with_seconds: bool) {
    match (output.rate, output.burst) {
        (Some(rate), Some(burst)) => println!("limit {rate:.0} msg/s, burst {burst:.0}"),
        _ => println!("no limit"),
    }
    if let Some(status) = &output.fit {
        let rounds: Vec<String> = status
            .iterations
            .iter()
            .map(|iteration| format!("{} with k = {}", iteration.rounds, iteration.k))
            .collect();
        println!(
            "placed after {} windows ({:.0} s): rounds {}; the promise {}",
            status.windows,
            status.seconds,
            rounds.join(", "),
            match (output.met, output.missing) {
                (Some(true), _) => String::from("is kept"),
                (_, Some(missing)) if missing > 0.0 =>
                    format!("is NOT kept: no broker has room for {missing:.0} msg/s"),
                _ => String::from("is NOT kept"),
            }
        );
    }
    for Run { seed, measured } in &output.runs {
        println!(
            "\nseed {seed}: {} sent, {} lost, {} waiting at the end, hash {:016x}",
            measured.sent, measured.lost, measured.waiting, measured.hash
        );
        println!(
            "{:<7} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}",
            "BROKER", "PUBLISHERS", "MESSAGES", "MEAN US", "P50 US", "P95 US", "P99 US", "WAITED"
        );
        let all = measured
            .brokers
            .iter()
            .map(|broker| broker.publishers)
            .sum();
        row("all", all, &measured.all);
        for (number, broker) in (1..).zip(&measured.brokers) {
            if let Some(latency) = &broker.latency {
                row(&format!("b{number}"), broker.publishers, latency);
            }
        }
        if with_seconds {
            println!("\n{:<7} {:>10} {:>10}", "SECOND", "MESSAGES", "P99 US");
            for (number, second) in (1..).zip(&measured.seconds) {
                let p99 = second
                    .p99_us
                    .map_or(String::from("-"), |p99| format!("{p99:.0}"));
                println!("{number:<7} {:>10} {p99:>10}", second.messages);
            }
        }
    }
}

fn row(name: &str, publishers: usize, latency: &Percentiles) {
    println!(
        "{name:<7} {publishers:>10} {:>10} {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>7.1}%",
        latency.messages,
        latency.mean_us,
        latency.p50_us,
        latency.p95_us,
        latency.p99_us,
        100.0 * latency.delayed as f64 / latency.messages.max(1) as f64
    );
}
