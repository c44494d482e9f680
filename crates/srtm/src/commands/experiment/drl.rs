//! The experiments of DRL: limiters of one limit and TCP flows through them, in virtual time.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use serde::Serialize;
use sim::drl::experiment::{Experiment, Figure, Record, RunOptions, check, run, table};
use sim::experiment::Results;

use super::machine::Begun;
use super::{Flags, QUICK_REPEATS, print_verdicts, view};
use crate::error::Failure;

/// Names of its files and figures begin so.
pub(super) const PREFIX: &str = "drl-";

/// All of them.
const ALL: &str = "drl";

/// How much a run was.
#[derive(Serialize)]
struct Counted {
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
    figures(experiments)
        .map(|figure| figure.name.as_str())
        .collect()
}

/// Prints what there is.
pub(super) fn list(experiments: &[Experiment]) {
    for figure in figures(experiments) {
        println!("{:10} {} ({})", figure.name, figure.title, figure.paper);
    }
}

/// The figures of all experiments, each name once.
fn figures(experiments: &[Experiment]) -> impl Iterator<Item = &Figure> {
    let mut seen: Vec<&str> = Vec::new();
    let all = experiments
        .iter()
        .flat_map(|experiment| &experiment.figures);
    all.filter(move |figure| {
        let is_new = !seen.contains(&figure.name.as_str());
        seen.push(&figure.name);
        is_new
    })
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
        failed += print_verdicts(&verdicts);
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
    let begun = Begun::now();
    let progress = Progress::new(&experiment.kind, experiment.runs(&options));
    let records = run(experiment, &options, || progress.one_more())?;
    progress.end();
    let kind = &experiment.kind;
    let lines: String = records.iter().map(Record::line).collect();
    results.replace(&results.path(kind, flags.quick), &lines)?;
    let counted = Counted {
        simulated_seconds: records.iter().map(|record| record.workload.seconds).sum(),
    };
    let meta = begun.meta(kind, options.jobs, records.len(), counted);
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
