//! Works off a grid on several threads; the results do not depend on who was first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::cell::{Cell, run_cell};
use super::definition::Experiment;
use super::error::ExperimentError;
use super::results::Results;
use super::row::Row;
use super::seeds::fingerprint;

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Seed instead of the definition's.
    pub seed: Option<u64>,
    /// Repeats instead of the definition's.
    pub repeats: Option<u32>,
    /// Threads, at least 1.
    pub jobs: usize,
    /// Discards what an interrupted run left.
    pub fresh: bool,
    /// At most 5 s measured and 10 s of profiling per window; the rows say so.
    pub quick: bool,
}

/// What happens while an experiment runs.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// It begins with so many runs to do, some of them finished already.
    Begins {
        /// Runs in all.
        runs: usize,
        /// Runs that an interrupted run has left.
        finished: usize,
    },
    /// Runs that are done.
    Done(&'a [Row]),
}

/// Runs an experiment to its end, or from where it was interrupted, and returns its rows sorted by x, series and
/// repeat, as they are in the file.
///
/// # Errors
/// The first [`ExperimentError`]; what was finished until then stays in the part and is not run again.
pub fn run_experiment(
    experiment: &Experiment,
    results: &Results,
    options: &RunOptions,
    mut watch: impl FnMut(Progress<'_>),
) -> Result<Vec<Row>, ExperimentError> {
    let repeats = options.repeats.unwrap_or(experiment.repeats).max(1);
    let seed = options.seed.unwrap_or(experiment.seed);
    let belongs_to = fingerprint(&experiment.text, seed, options.quick);
    let name = &experiment.name;
    let (mut part, mut rows) = results.part(name, options.quick, &belongs_to, options.fresh)?;
    rows.retain(|row| position(experiment, row, repeats).is_some());
    watch(Progress::Begins {
        runs: experiment.runs(repeats),
        finished: rows.len(),
    });
    let work = work(experiment, repeats, &rows);
    run_all(experiment, options, &work, |done| {
        part.append(&done)?;
        watch(Progress::Done(&done));
        rows.extend(done);
        Ok(())
    })?;
    rows.sort_by_key(|row| position(experiment, row, repeats));
    results.finish(name, options.quick, &rows)?;
    Ok(rows)
}

/// A cell with the rows that it has already.
type Work = (Cell, Vec<Row>);

/// The cells that lack rows. The largest x, which usually costs most, comes first: so threads end together.
fn work(experiment: &Experiment, repeats: u32, rows: &[Row]) -> Vec<Work> {
    let mut finished: HashMap<(u64, u32), Vec<Row>> = HashMap::new();
    for row in rows {
        let of_cell = finished.entry((row.x.to_bits(), row.repeat)).or_default();
        of_cell.push(row.clone());
    }
    let mut work = Vec::new();
    for &x in experiment.x.values.iter().rev() {
        for repeat in 1..=repeats {
            let there = finished.remove(&(x.to_bits(), repeat)).unwrap_or_default();
            if there.len() < experiment.series.len() {
                work.push((Cell { x, repeat }, there));
            }
        }
    }
    work
}

/// Hands the rows of every cell to `keep`, on the caller's thread.
fn run_all(
    experiment: &Experiment,
    options: &RunOptions,
    work: &[Work],
    mut keep: impl FnMut(Vec<Row>) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let jobs = options.jobs.clamp(1, work.len().max(1));
    thread::scope(|scope| {
        let (done, all_done) = mpsc::sync_channel(jobs);
        for _ in 0..jobs {
            let (done, next, is_over) = (done.clone(), &next, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Some((cell, there)) = work.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    if done
                        .send(run_cell(experiment, *cell, there, options))
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(done);
        let kept = all_done.iter().try_for_each(|rows| keep(rows?));
        is_over.store(true, Ordering::Relaxed);
        // Threads that are about to send find nobody any more instead of waiting.
        drop(all_done);
        kept
    })
}

/// Where a row stands in the file; `None` for one that is not of this grid.
fn position(experiment: &Experiment, row: &Row, repeats: u32) -> Option<(usize, usize, u32)> {
    let x = experiment.x.values.iter().position(|&x| x == row.x)?;
    let series = experiment.series.iter();
    let series = series
        .clone()
        .position(|series| series.name == row.series)?;
    let is_of_it = row.experiment == experiment.name && (1..=repeats).contains(&row.repeat);
    is_of_it.then_some((x, series, row.repeat))
}
