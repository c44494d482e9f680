//! The experiments of DRL: limiters of one limit and TCP flows through them, in virtual time.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use serde::Serialize;
use sim::drl::experiment::{Experiment, Record, RunOptions, check, run, table};
use sim::experiment::Results;

use super::{Flags, QUICK_REPEATS, machine, print_verdict, view};
use crate::error::Failure;
use crate::time;

/// Names of its files and figures begin so.
pub(super) const PREFIX: &str = "drl-";

/// All of them.
const ALL: &str = "drl";

/// What results do not say because another machine or another day would say it differently.
#[derive(Serialize)]
struct Meta<'a> {
    experiment: &'a str,
    version: &'static str,
    begun_unix_seconds: u64,
    wall_seconds: f64,
    jobs: usize,
    cores: usize,
    processor: Option<String>,
    runs: usize,
    simulated_seconds: f64,
}

/// The experiments that `names` ask for, by themselves or by a figure of theirs, each once; all of them for `None`.
pub(super) fn choose<'a>(
    experiments: &'a [Experiment],
    names: Option<&[String]>,
) -> Vec<&'a Experiment> {
    let is_chosen = |experiment: &&Experiment| {
        names.is_none_or(|names| names.iter().any(|name| has_name(experiment, name)))
    };
    experiments.iter().filter(is_chosen).collect()
}

/// Whether an experiment, or a figure of one, is called so.
pub(super) fn is_known(experiments: &[Experiment], name: &str) -> bool {
    experiments
        .iter()
        .any(|experiment| has_name(experiment, name))
}

/// What can be asked for.
pub(super) fn names(experiments: &[Experiment]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let figures = experiments
        .iter()
        .flat_map(|experiment| &experiment.figures);
    for figure in figures {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    names
}

/// Prints what there is.
pub(super) fn list(experiments: &[Experiment]) {
    let mut shown: Vec<&str> = Vec::new();
    let figures = experiments
        .iter()
        .flat_map(|experiment| &experiment.figures);
    for figure in figures {
        if !shown.contains(&figure.name.as_str()) {
            println!("{:10} {} ({})", figure.name, figure.title, figure.paper);
            shown.push(&figure.name);
        }
    }
}

/// Runs them, prints and keeps what came of them; how many of the paper's findings did not appear.
pub(super) fn run_all(
    experiments: &[&Experiment],
    results: &Results,
    flags: &Flags,
) -> Result<usize, Failure> {
    let mut failed = 0;
    for experiment in experiments {
        for figure in &experiment.figures {
            println!("{}: {} ({})", figure.name, figure.title, figure.paper);
        }
        let records = run_one(experiment, results, flags)?;
        println!("\n{}", table(experiment, &records));
        let verdicts = check(&experiment.kind, &records);
        verdicts.iter().for_each(print_verdict);
        failed += verdicts.iter().filter(|verdict| !verdict.holds).count();
    }
    Ok(failed)
}

fn has_name(experiment: &Experiment, name: &str) -> bool {
    let mut figures = experiment.figures.iter();
    name == ALL || name == experiment.kind || figures.any(|figure| figure.name == name)
}

fn run_one(
    experiment: &Experiment,
    results: &Results,
    flags: &Flags,
) -> Result<Vec<Record>, Failure> {
    let options = RunOptions {
        seed: flags.seed,
        repeats: flags.repeats.or(flags.quick.then_some(QUICK_REPEATS)),
        jobs: flags.jobs(),
        quick: flags.quick,
    };
    let (begun, begun_at) = (time::now(), time::unix_time());
    let progress = Progress::new(&experiment.kind, experiment.runs(&options));
    let records = run(experiment, &options, || progress.one_more())?;
    progress.end();
    let kind = &experiment.kind;
    let lines: String = records.iter().map(Record::line).collect();
    results.replace(&results.path(kind, flags.quick), &lines)?;
    let meta = Meta {
        experiment: kind,
        version: env!("CARGO_PKG_VERSION"),
        begun_unix_seconds: begun_at.as_secs(),
        wall_seconds: time::now().saturating_duration_since(begun).as_secs_f64(),
        jobs: options.jobs,
        cores: super::cores(),
        processor: machine::processor(),
        runs: records.len(),
        simulated_seconds: records.iter().map(|record| record.workload.seconds).sum(),
    };
    // Only maps with keys that are no strings fail, and there are none.
    let meta = serde_json::to_string_pretty(&meta).unwrap_or_default() + "\n";
    results.replace(&results.meta_path(kind, flags.quick), &meta)?;
    Ok(records)
}

/// A bar on a terminal, elsewhere a line per tenth of the runs.
struct Progress<'a> {
    kind: &'a str,
    runs: usize,
    done: AtomicUsize,
    bar: Option<ProgressBar>,
}

impl<'a> Progress<'a> {
    fn new(kind: &'a str, runs: usize) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = view::bar(kind);
            bar.set_length(runs as u64);
            bar
        });
        Progress {
            kind,
            runs,
            done: AtomicUsize::new(0),
            bar,
        }
    }

    fn one_more(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.bar {
            Some(bar) => bar.inc(1),
            None if done * 10 / self.runs > (done - 1) * 10 / self.runs => {
                eprintln!("{}: {done} of {} runs", self.kind, self.runs);
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
