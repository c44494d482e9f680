//! One repeat of one point: the runs of all series, on the same arrivals.

use std::time::Duration;

use placement::BrokerIndex;
use workload::Spec;

use super::definition::{Brokers, Panel, Series};
use super::profile::Profile;
use super::row::{BrokerRow, Row};
use crate::experiment::seeds::seed_of;
use crate::experiment::{Experiment, ExperimentError, RunOptions};
use crate::{Fit, Measured, Scene, SimError, fit, measure, spread};

/// Measured seconds of a quick run, at most.
const QUICK_SECONDS: u64 = 5;

/// A place in the grid: a run per series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    x: f64,
    /// From 1.
    repeat: u32,
}

impl Experiment for Panel {
    type Cell = Cell;
    type Record = Row;

    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> (&str, u64) {
        (&self.text, self.seed)
    }

    fn cells(&self, options: &RunOptions) -> Vec<Cell> {
        let repeats = self.repeats(options);
        let at = |&x: &f64| (1..=repeats).map(move |repeat| Cell { x, repeat });
        // The largest x usually costs most.
        self.x.values.iter().rev().flat_map(at).collect()
    }

    fn runs_of_cell(&self) -> usize {
        self.series.len()
    }

    fn is_of(&self, cell: &Cell, row: &Row, _options: &RunOptions) -> bool {
        row.x == cell.x && row.repeat == cell.repeat
    }

    fn position(&self, row: &Row, options: &RunOptions) -> Option<usize> {
        let repeats = self.repeats(options);
        let x = self.x.values.iter().position(|&x| x == row.x)?;
        let mut series = self.series.iter();
        let series = series.position(|series| series.name == row.series)?;
        let is_of_it = row.experiment == self.name && (1..=repeats).contains(&row.repeat);
        let point = x * self.series.len() + series;
        is_of_it.then_some(point * repeats as usize + row.repeat as usize - 1)
    }

    fn run(
        &self,
        cell: &Cell,
        there: &[Row],
        options: &RunOptions,
    ) -> Result<Vec<Row>, ExperimentError> {
        run_cell(self, *cell, there, options)
    }
}

/// The runs of a cell that `finished` lacks, in the order of the series.
fn run_cell(
    experiment: &Panel,
    cell: Cell,
    finished: &[Row],
    options: &RunOptions,
) -> Result<Vec<Row>, ExperimentError> {
    let mut rows: Vec<Row> = finished.to_vec();
    // Series that have the publishers in common share it.
    let mut profile: Option<Profile> = None;
    for series in &experiment.series {
        if rows.iter().any(|row| row.series == series.name) {
            continue;
        }
        let brokers_as = match series.brokers {
            Brokers::As(position) => {
                let name = &experiment.series[position].name;
                let other = rows.iter().find(|row| &row.series == name);
                other.map(|row| row.k)
            }
            _ => None,
        };
        let spec = spec(experiment, series, cell, options)?;
        if profile
            .as_ref()
            .is_none_or(|shared| shared.publishers != spec.publishers)
        {
            profile = None;
        }
        let windows = u64::from(experiment.profile_windows);
        let profile = profile.get_or_insert_with(|| Profile::record(&spec, windows));
        let placed = place(&spec, profile, series.brokers, cell.x, brokers_as);
        let run = placed.map_err(|source| failed(experiment, series, cell, source))?;
        rows.push(Row {
            experiment: experiment.name.clone(),
            panel: experiment.panel.clone(),
            series: series.name.clone(),
            x: cell.x,
            repeat: cell.repeat,
            seed: spec.seed,
            quick: options.quick,
            ..row(&spec, &run)
        });
    }
    Ok(rows.split_off(finished.len()))
}

/// The run's spec.
fn spec(
    experiment: &Panel,
    series: &Series,
    cell: Cell,
    options: &RunOptions,
) -> Result<Spec, ExperimentError> {
    let base = options.seed.unwrap_or(experiment.seed);
    let seed = seed_of(base, &experiment.name, cell.x, cell.repeat);
    let mut spec = experiment.spec(cell.x, series, seed)?;
    if options.quick {
        let most = Duration::from_secs(QUICK_SECONDS);
        spec.duration = spec.duration.min(most);
        spec.topic.window = spec.topic.window.min(2 * most);
    }
    Ok(spec)
}

fn failed(experiment: &Panel, series: &Series, cell: Cell, source: SimError) -> ExperimentError {
    let (name, series) = (&experiment.name, &series.name);
    let run = format!("{name}, {series} at x = {}, repeat {}", cell.x, cell.repeat);
    ExperimentError::Run { run, source }
}

/// What came of a run.
struct Run {
    limit: Option<(limit::Rate, limit::Burst)>,
    fit: Option<Fit>,
    measured: Measured,
}

fn place(
    spec: &Spec,
    profile: &Profile,
    brokers: Brokers,
    x: f64,
    brokers_as: Option<usize>,
) -> Result<Run, SimError> {
    let mut spec = spec.clone();
    if spec.topic.rate.is_none() && spec.topic.burst.is_none() {
        spec.topic.rate = Some(profile.rate);
        spec.topic.burst = Some(profile.burst);
    }
    let scene = Scene::of_recording(&spec, profile.trace.clone())?;
    let all = spec.cluster.brokers as usize;
    let forced = match brokers {
        Brokers::Fit => None,
        Brokers::All => Some(all),
        Brokers::AtX => Some(x as usize),
        Brokers::As(_) => Some(brokers_as.unwrap_or(all)),
    };
    let (fit, measured) = match forced {
        Some(k) => (None, measure(&scene, &spread(&scene, k))?),
        None => {
            let fit = fit(&scene)?;
            let measured = if fit.met {
                measure(&scene, &fit.broker_of)?
            } else {
                best(&scene, all)?
            };
            (Some(fit), measured)
        }
    };
    Ok(Run {
        limit: scene.limit(),
        fit,
        measured,
    })
}

/// The number of brokers whose worst one is best, where no number keeps the promise.
fn best(scene: &Scene, brokers: usize) -> Result<Measured, SimError> {
    let mut best: Option<Measured> = None;
    let mut tried: Vec<Vec<Option<BrokerIndex>>> = Vec::new();
    for k in 1..=brokers {
        let broker_of = spread(scene, k);
        if tried.contains(&broker_of) {
            continue;
        }
        let measured = measure(scene, &broker_of)?;
        let is_better = best
            .as_ref()
            .is_none_or(|best| worst_p99_us(&measured) < worst_p99_us(best));
        if is_better {
            best = Some(measured);
        }
        tried.push(broker_of);
    }
    match best {
        Some(best) => Ok(best),
        None => measure(scene, &spread(scene, brokers)),
    }
}

/// That of the worst broker, no lower than that of all messages together.
fn worst_p99_us(measured: &Measured) -> f64 {
    measured.worst_p99_us().max(measured.all.p99_us)
}

/// The result without what the caller knows.
fn row(spec: &Spec, run: &Run) -> Row {
    let Run {
        limit,
        fit,
        measured,
    } = run;
    let brokers: Vec<BrokerRow> = measured
        .brokers
        .iter()
        .map(|broker| BrokerRow {
            publishers: broker.publishers,
            p99_us: broker
                .latency
                .as_ref()
                .map(|latency| rounded(latency.p99_us)),
        })
        .collect();
    let status = fit.as_ref().map(|fit| &fit.status);
    let slo_us = spec.topic.slo.as_secs_f64() * 1e6;
    let worst_p99_us = worst_p99_us(measured);
    Row {
        experiment: String::new(),
        panel: String::new(),
        series: String::new(),
        x: 0.0,
        repeat: 0,
        seed: 0,
        k: brokers.iter().filter(|b| b.publishers > 0).count(),
        met: worst_p99_us <= slo_us,
        fitted: fit.as_ref().map(|fit| fit.met),
        slo_us: rounded(slo_us),
        p50_us: rounded(measured.all.p50_us),
        p95_us: rounded(measured.all.p95_us),
        p99_us: rounded(measured.all.p99_us),
        worst_p99_us: rounded(worst_p99_us),
        rate: rounded(limit.map_or(0.0, |(rate, _)| rate.get())),
        burst: rounded(limit.map_or(0.0, |(_, burst)| burst.get())),
        windows: status.map_or(0, |status| status.windows),
        fit_seconds: rounded(status.map_or(0.0, |status| status.seconds)),
        rounds: status.map_or_else(Vec::new, |status| {
            status.iterations.iter().map(|i| i.rounds).collect()
        }),
        messages: measured.all.messages,
        delayed: measured.all.delayed,
        brokers,
        hash: format!("{:016x}", measured.hash),
        quick: false,
    }
}

/// To a thousandth: what is behind it is below a nanosecond.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
