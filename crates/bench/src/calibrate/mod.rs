//! `srtm calibrate`: how much a broker carries under a promise (mcap), and the cost of a message
//! (the service model).
//!
//! The Load Distributor's first step needs mcap, which depends on the SLO and comes from a
//! benchmark phase (SRTM-long, section 4.2); fitting by replay needs the service model. Both come
//! from the open-loop generator on this machine: [`model`] fits costs to the CPU time of light
//! loads, [`knee`] bisects the rate until p99 just meets the promise. The result is a
//! [`Calibration`], a [`mod@file`] in the broker's data folder.
//!
//! One topic, one subscriber, loopback. The cost of several topics or of a real network is not
//! included.

pub mod file;
pub mod knee;
pub mod least_squares;
pub mod model;
pub mod options;
mod progress;
pub mod subject;

use std::path::Path;

use ::model::{Calibration, Purpose, Run};

use crate::error::BenchError;
use crate::generator::Outcome;
use crate::report;
use crate::sys;
use crate::trial::Trial;
use crate::workload::Workload;

use self::model::Fitted;
use knee::{Knee, SearchOptions};
pub use options::CalibrateOptions;
use options::Effort;
use subject::Subject;

/// Descriptors of generator and broker that are not publishers.
const SPARE_DESCRIPTORS: u64 = 1024;
/// Publishers at most: one address of the loopback interface has no more free ports.
const MAX_PUBLISHERS: u64 = 25_000;
/// Where the search begins, as a part of [`model::saturation`].
const START_UTILISATION: f64 = 0.5;
/// The lowest rate that is tried, in messages per second.
const LEAST_RATE: f64 = 200.0;

/// Calibrates, prints, and keeps the result where the options say so; or prints what is kept. `program` is started
/// when the options name no broker, with its log in `work_dir`.
///
/// # Errors
/// When the options are wrong, the broker is missing or fails, no rate meets the promise, or the result cannot be kept.
pub fn calibrate(
    options: &CalibrateOptions,
    program: &Path,
    work_dir: &Path,
) -> Result<Calibration, BenchError> {
    if let (true, Some(folder)) = (options.show, &options.data_path) {
        return show(folder);
    }
    let calibration = measure(options, program, work_dir)?;
    print!("{}", progress::summary(&calibration));
    match &options.data_path {
        Some(folder) => println!("kept in {}", file::write(&calibration, folder)?.display()),
        None => {
            println!("not kept: name the broker's data folder with --data-path to keep the result")
        }
    }
    Ok(calibration)
}

fn show(folder: &Path) -> Result<Calibration, BenchError> {
    let missing = || BenchError::Options(format!("{} holds no calibration", folder.display()));
    let calibration = file::read(folder)?.ok_or_else(missing)?;
    print!("{}", progress::summary(&calibration));
    if let Some(warning) = calibration.stranger_on(&report::this_machine()) {
        println!("doubtful: {warning}");
    }
    Ok(calibration)
}

/// Raises the limit of open files as far as it goes; how many publishers that allows.
pub(crate) fn max_publishers() -> Result<u32, BenchError> {
    let open_files =
        sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    let spared = open_files.saturating_sub(SPARE_DESCRIPTORS);
    Ok(spared.clamp(1, MAX_PUBLISHERS) as u32)
}

/// Model first, since it tells the search where to begin.
fn measure(
    options: &CalibrateOptions,
    program: &Path,
    work_dir: &Path,
) -> Result<Calibration, BenchError> {
    let one_publisher = options.one_publisher()?;
    let max_publishers = max_publishers()?;
    sys::pin_to_core(options.generator_core).map_err(BenchError::io(format!(
        "run on core {}",
        options.generator_core
    )))?;
    let effort = options.effort();
    println!("{}", progress::plan(options, &effort));
    let mut subject = Subject::new(options, program, work_dir);
    let mut runs = Vec::new();
    let fitted = find_model(
        &mut subject,
        &one_publisher,
        &effort,
        options.threads,
        max_publishers,
        &mut runs,
    )?;
    print!("{}", progress::model(&runs, &fitted));
    let search = SearchOptions {
        slo_p99_us: options.slo_p99_us(),
        start: START_UTILISATION * model::saturation(&runs, &one_publisher, options.threads),
        least: LEAST_RATE.max(options.rate_per_publisher),
        most: f64::from(max_publishers) * options.rate_per_publisher,
        tolerance: f64::from(effort.tolerance_percent) / 100.0,
        max_runs: effort.max_runs,
    };
    let knee = find_knee(&mut subject, &one_publisher, &search, &mut runs)?;
    let mcap = knee.met.ok_or_else(|| no_rate(&knee, search.slo_p99_us))?;
    print!("{}", progress::knee(&knee, &search, mcap));
    let mut fit = fitted.fit;
    fit.replayed_p99_us = model::replayed_p99_us(&fitted.model, &at_rate(&one_publisher, mcap));
    Ok(Calibration {
        version: Calibration::VERSION,
        at_s: sys::realtime_ns() / 1_000_000_000,
        machine: report::this_machine(),
        slo_p99_us: search.slo_p99_us,
        mcap,
        missed: knee.missed.filter(|_| !knee.is_generator_limited),
        model: fitted.model,
        fit,
        runs,
    })
}

/// Runs the model's loads, all of them once and then again, so that a disturbance does not meet one load alone.
fn find_model(
    subject: &mut Subject,
    one_publisher: &Workload,
    effort: &Effort,
    servers: u32,
    max_publishers: u32,
    runs: &mut Vec<Run>,
) -> Result<Fitted, BenchError> {
    let base = Workload {
        warmup_ms: effort.model_warmup_ms,
        measure_ms: effort.model_measure_ms,
        ..one_publisher.clone()
    };
    for round in 1..=effort.model_rounds {
        for load in model::LOADS {
            let (run, _) =
                subject.run(&load.within(max_publishers).workload(&base), Purpose::Model)?;
            println!("{}", progress::model_run(round, &run));
            runs.push(run);
        }
    }
    model::fit(runs, &base, servers)
}

/// Bisects the rate; more publishers make a higher one.
fn find_knee(
    subject: &mut Subject,
    one_publisher: &Workload,
    search: &SearchOptions,
    runs: &mut Vec<Run>,
) -> Result<Knee, BenchError> {
    let mut number = 0;
    knee::search(search, |rate| {
        let (run, outcome) = subject.run(&at_rate(one_publisher, rate), Purpose::Mcap)?;
        let trial = trial(rate, &outcome, search.slo_p99_us);
        number += 1;
        println!("{}", progress::trial(number, search, &run, &trial));
        runs.push(run);
        Ok(trial)
    })
}

/// Publishers like `one`, as many as make `rate`, and their own rate rounded to make it exactly.
pub(crate) fn at_rate(one: &Workload, rate: f64) -> Workload {
    let publishers = (rate / one.rate_per_publisher).round().max(1.0);
    Workload {
        publishers: publishers as u32,
        ..one.clone()
    }
    .at_rate(rate)
}

fn trial(rate: f64, outcome: &Outcome, slo_p99_us: f64) -> Trial {
    let (latency_us, lateness_us) = (outcome.latency.p99_us, outcome.lateness.p99_us);
    Trial::of(rate, outcome, latency_us, lateness_us, slo_p99_us)
}

fn no_rate(knee: &Knee, slo_p99_us: f64) -> BenchError {
    let least = knee.trials.iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
    let tried = least.map_or_else(String::new, |trial| {
        format!(
            ": at {:.0} msg/s p99 was {:.0} us",
            trial.rate, trial.latency_us
        )
    });
    let blame = if knee.is_generator_limited {
        "; the generator was late itself, so something else keeps this machine busy"
    } else {
        ""
    };
    BenchError::Broker {
        name: "srtm".to_owned(),
        text: format!("no rate meets p99 <= {slo_p99_us:.0} us{tried}{blame}"),
    }
}

#[cfg(test)]
mod tests;
