//! `srtm plan`: the fewest brokers for a promise, before they are bought.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use sim::plan::{PlanOptions, WhatIf, picture, plan};

use super::scenario::{self, Jobs, ScenarioFlags};
use crate::duration::GoDuration;
use crate::error::Failure;

const EXAMPLES: &str = "\
Examples:
  srtm plan W.toml --slo-p99 1ms
  srtm plan W.toml --slo-p99 1ms --what-if '+1 broker' --what-if 'kill b3' --what-if 'rate x2'
  srtm plan W.toml --slo-p99 5ms --trace arrivals.trace --json
  srtm plan W.toml --slo-p99 1ms --picture plan.svg

docs/workloads.md describes W.toml; docs/plan.md describes what is computed.";

/// Flags of `srtm plan`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    scenario: ScenarioFlags,
    /// Promise: 99 % of the messages take at most this long. Replaces the promise of the spec.
    #[arg(long, value_name = "DURATION")]
    slo_p99: Option<GoDuration>,
    /// Change to compute the effect of: "+N brokers", "kill bN", "rate xF". May be repeated.
    #[arg(long, value_name = "CHANGE")]
    what_if: Vec<WhatIf>,
    /// Independent runs of each configuration, for the confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    #[command(flatten)]
    jobs: Jobs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// File to draw latency by number of brokers into (SVG).
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Plans and prints.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let mut spec = flags.scenario.spec()?;
    if let Some(GoDuration(slo)) = flags.slo_p99 {
        spec.topic.slo = slo;
        spec.topic.percentile = 99.0;
    }
    let scene = flags.scenario.scene(&spec)?;
    let options = PlanOptions {
        repeats: flags.repeats,
        jobs: flags.jobs.count(),
        what_ifs: flags.what_if.clone(),
    };
    let bar = scenario::counter("simulated runs");
    let planned = plan(&scene, &options, || bar.inc(1));
    bar.finish_and_clear();
    let planned = planned?;
    if let Some(file) = &flags.picture {
        let svg = picture(&planned)?;
        fs::write(file, svg).map_err(Failure::io(format!("write {}", file.display())))?;
    }
    if flags.json {
        scenario::print_json(&planned)?;
    } else {
        print!("{planned}");
    }
    Ok(())
}
