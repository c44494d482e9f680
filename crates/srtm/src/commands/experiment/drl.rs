//! The experiments of DRL: limiters of one limit and TCP flows through them, in virtual time.

use std::io::{self, IsTerminal};

use indicatif::ProgressBar;
use serde::Serialize;
use sim::drl::experiment::{Figure, Record, Study, check, table};
use sim::experiment::{Progress, Results};

use super::{Flags, print_verdicts, view};
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
pub(super) fn choose<'a>(experiments: &'a [Study], names: Option<&[String]>) -> Vec<&'a Study> {
    let is_chosen = |experiment: &&Study| {
        names.is_none_or(|names| names.iter().any(|name| has_name(experiment, name)))
    };
    experiments.iter().filter(is_chosen).collect()
}

/// Whether an experiment, or a figure of one, is called so.
pub(super) fn is_known(experiments: &[Study], name: &str) -> bool {
    experiments
        .iter()
        .any(|experiment| has_name(experiment, name))
}

/// What can be asked for.
pub(super) fn names(experiments: &[Study]) -> Vec<&str> {
    figures(experiments)
        .map(|figure| figure.name.as_str())
        .collect()
}

/// Prints what there is.
pub(super) fn list(experiments: &[Study]) {
    for figure in figures(experiments) {
        println!("{:10} {} ({})", figure.name, figure.title, figure.paper);
    }
}

/// The figures of all experiments, each name once.
fn figures(experiments: &[Study]) -> impl Iterator<Item = &Figure> {
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
    experiments: &[&Study],
    results: &Results,
    flags: &Flags,
) -> Result<usize, Failure> {
    let mut failed = 0;
    for experiment in experiments {
        for figure in &experiment.figures {
            println!("{}: {} ({})", figure.name, figure.title, figure.paper);
        }
        let mut shown = Shown::new(&experiment.kind);
        let counted = |records: &[Record], _finished_before| Counted {
            simulated_seconds: records.iter().map(|record| record.workload.seconds).sum(),
        };
        let records = super::records(*experiment, results, flags, counted, |progress| {
            shown.show(&progress);
        })?;
        drop(shown);
        println!("\n{}", table(experiment, &records));
        let verdicts = check(&experiment.kind, &records);
        failed += print_verdicts(&verdicts);
    }
    Ok(failed)
}

fn has_name(experiment: &Study, name: &str) -> bool {
    let mut figures = experiment.figures.iter();
    name == ALL || name == experiment.kind || figures.any(|figure| figure.name == name)
}

/// A bar on a terminal, elsewhere a line per tenth of the runs.
struct Shown<'a> {
    kind: &'a str,
    runs: usize,
    done: usize,
    bar: Option<ProgressBar>,
}

impl<'a> Shown<'a> {
    fn new(kind: &'a str) -> Self {
        Shown {
            kind,
            runs: 1,
            done: 0,
            bar: io::stderr().is_terminal().then(|| view::bar(kind)),
        }
    }

    fn show(&mut self, progress: &Progress<'_, Record>) {
        match progress {
            Progress::Begins { runs, finished } => {
                (self.runs, self.done) = (*runs, *finished);
                if let Some(bar) = &self.bar {
                    bar.set_length(*runs as u64);
                    // What was finished before says nothing about the time that is left.
                    bar.set_position(*finished as u64);
                    bar.reset_eta();
                }
            }
            Progress::Done(records) => records.iter().for_each(|_| self.one_more()),
        }
    }

    fn one_more(&mut self) {
        self.done += 1;
        match &self.bar {
            Some(bar) => bar.inc(1),
            None if self.done * 10 / self.runs > (self.done - 1) * 10 / self.runs => {
                eprintln!("{}: {} of {} runs", self.kind, self.done, self.runs);
            }
            None => {}
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
