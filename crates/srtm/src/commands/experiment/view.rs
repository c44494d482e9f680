//! Progress: a bar on a terminal, elsewhere a line per finished point.

use std::collections::HashMap;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};
use sim::experiment::Progress;
use sim::figures::{Panel, Row, Summary};

/// How far an experiment is.
pub(super) struct View<'a> {
    experiment: &'a Panel,
    repeats: u32,
    bar: Option<ProgressBar>,
    /// Rows by x, of points that lack some.
    unfinished: HashMap<u64, Vec<Row>>,
}

impl<'a> View<'a> {
    pub(super) fn new(experiment: &'a Panel, repeats: Option<u32>) -> Self {
        View {
            experiment,
            repeats: repeats.unwrap_or(experiment.repeats),
            bar: io::stderr().is_terminal().then(|| bar(&experiment.name)),
            unfinished: HashMap::new(),
        }
    }

    pub(super) fn show(&mut self, progress: Progress<'_, Row>) {
        match progress {
            Progress::Begins { runs, finished } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(runs as u64);
                    // What was finished before says nothing about the time that is left.
                    bar.set_position(finished as u64);
                    bar.reset_eta();
                } else if finished > 0 {
                    eprintln!(
                        "{}: {finished} of {runs} runs were finished before",
                        self.experiment.name
                    );
                }
            }
            Progress::Done(rows) => match &self.bar {
                Some(bar) => bar.inc(rows.len() as u64),
                None => rows.iter().for_each(|row| self.line(row)),
            },
        }
    }

    /// Prints a point once all of its rows are there; points that were begun before print nothing.
    fn line(&mut self, row: &Row) {
        let rows = self.unfinished.entry(row.x.to_bits()).or_default();
        rows.push(row.clone());
        if rows.len() < self.experiment.series.len() * self.repeats as usize {
            return;
        }
        let summary = Summary::of(rows);
        let said: Vec<String> = summary
            .points
            .iter()
            .map(|point| {
                let p99_ms = point.worst_p99_us.mean / 1e3;
                format!("{} {p99_ms:.2} ms on {:.1}", point.series, point.k.mean)
            })
            .collect();
        let (name, label) = (&self.experiment.name, &self.experiment.x.label);
        eprintln!("{name}, {label} {}: {}", row.x, said.join(", "));
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

pub(super) fn bar(name: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style =
        ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {elapsed} (left {eta})");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.with_prefix(name.to_owned())
}
