//! Works off the cells of an experiment on several threads; results do not depend on which finishes
//! first.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ExperimentError;
use super::results::Results;
use super::seeds::fingerprint;

/// An experiment. Its runs are made in cells: what one thread does at a time.
pub trait Experiment: Sync {
    /// A cell.
    type Cell: Sync;
    /// What is kept of a run: a line of JSON without anything that depends on the machine or the hour.
    type Record: Clone + Send + Sync + Serialize + DeserializeOwned;

    /// What its results are called.
    fn name(&self) -> &str;

    /// The text of its definition and the definition's seed: records of others do not go with these.
    fn definition(&self) -> (&str, u64);

    /// Its cells. Those that cost most come first: so threads end together.
    fn cells(&self, options: &RunOptions) -> Vec<Self::Cell>;

    /// Runs of each cell.
    fn runs_of_cell(&self) -> usize;

    /// Whether a record is of this cell.
    fn is_of(&self, cell: &Self::Cell, record: &Self::Record, options: &RunOptions) -> bool;

    /// Where a record stands in the file; `None` for one that these options do not ask for.
    fn position(&self, record: &Self::Record, options: &RunOptions) -> Option<usize>;

    /// The runs of a cell that `there` lacks.
    ///
    /// # Errors
    /// [`ExperimentError`] of the first run that failed.
    fn run(
        &self,
        cell: &Self::Cell,
        there: &[Self::Record],
        options: &RunOptions,
    ) -> Result<Vec<Self::Record>, ExperimentError>;
}

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
    /// A cheaper variant of the same: fewer or shorter runs, which are kept apart.
    pub quick: bool,
}

/// What happens while an experiment runs.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a, R> {
    /// It begins with so many runs to do, some of them finished already.
    Begins {
        /// Runs in all.
        runs: usize,
        /// Runs that an interrupted run has left.
        finished: usize,
    },
    /// Runs that are done.
    Done(&'a [R]),
}

/// Runs an experiment to its end, or from where it was interrupted, and returns its records as they are in the file.
///
/// # Errors
/// The first [`ExperimentError`]; what was finished until then stays in the part and is not run again.
pub fn run_experiment<E: Experiment>(
    experiment: &E,
    results: &Results,
    options: &RunOptions,
    mut watch: impl FnMut(Progress<'_, E::Record>),
) -> Result<Vec<E::Record>, ExperimentError> {
    let (text, seed) = experiment.definition();
    let belongs_to = fingerprint(text, options.seed.unwrap_or(seed), options.quick);
    let name = experiment.name();
    let (mut part, mut records) = results.part(name, options.quick, &belongs_to, options.fresh)?;
    records.retain(|record| experiment.position(record, options).is_some());
    let cells = experiment.cells(options);
    watch(Progress::Begins {
        runs: cells.len() * experiment.runs_of_cell(),
        finished: records.len(),
    });
    let work = work(experiment, cells, &records, options);
    run_all(experiment, options, &work, |done| {
        part.append(&done)?;
        watch(Progress::Done(&done));
        records.extend(done);
        Ok(())
    })?;
    records.sort_by_key(|record| experiment.position(record, options));
    results.finish(name, options.quick, &records)?;
    Ok(records)
}

/// A cell with the records that it has already.
type Work<E> = (<E as Experiment>::Cell, Vec<<E as Experiment>::Record>);

/// The cells that lack records.
fn work<E: Experiment>(
    experiment: &E,
    cells: Vec<E::Cell>,
    records: &[E::Record],
    options: &RunOptions,
) -> Vec<Work<E>> {
    let with_records = cells.into_iter().map(|cell| {
        let of_cell = |record: &&E::Record| experiment.is_of(&cell, record, options);
        let there = records.iter().filter(of_cell).cloned().collect();
        (cell, there)
    });
    with_records
        .filter(|(_, there): &Work<E>| there.len() < experiment.runs_of_cell())
        .collect()
}

/// Hands the records of every cell to `keep`, on the caller's thread.
fn run_all<E: Experiment>(
    experiment: &E,
    options: &RunOptions,
    work: &[Work<E>],
    mut keep: impl FnMut(Vec<E::Record>) -> Result<(), ExperimentError>,
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
                    if done.send(experiment.run(cell, there, options)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let kept = all_done.iter().try_for_each(|records| keep(records?));
        is_over.store(true, Ordering::Relaxed);
        // Threads that are about to send find nobody any more instead of waiting.
        drop(all_done);
        kept
    })
}
