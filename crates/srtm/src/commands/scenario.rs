//! What the commands in virtual time share: reading a spec and a trace, threads, progress, JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ::bench::calibrate::file;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use sim::Scene;
use workload::Spec;

use crate::error::Failure;
use crate::trace_file;

/// What is simulated.
#[derive(Args, Debug)]
pub(super) struct ScenarioFlags {
    /// Spec of the load, the topic and the cluster.
    #[arg(value_name = "W.toml")]
    spec: PathBuf,
    /// Trace whose arrivals, repeated, replace those of the spec's publishers.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Folder with the result of `srtm calibrate --data-path`. Its costs replace those in
    /// `[cluster]`.
    #[arg(long, value_name = "DIR")]
    calibration: Option<PathBuf>,
}

/// Threads of a command.
#[derive(Args, Debug)]
pub(super) struct Jobs {
    /// Runs at the same time [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl Jobs {
    /// How many.
    pub(super) fn count(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or(cores, usize::from)
    }
}

impl ScenarioFlags {
    /// Reads and checks the spec; errors name file and line.
    pub(super) fn spec(&self) -> Result<Spec, Failure> {
        let shown = self.spec.display();
        let text = fs::read_to_string(&self.spec).map_err(Failure::io(format!("read {shown}")))?;
        let mut spec =
            Spec::parse(&text).map_err(|error| Failure::Usage(format!("{shown}: {error}")))?;
        if let Some(folder) = &self.calibration {
            calibrate(&mut spec, folder)?;
        }
        Ok(spec)
    }

    /// The scene of `spec`, with the arrivals of the trace if there is one.
    pub(super) fn scene(&self, spec: &Spec) -> Result<Scene, Failure> {
        let Some(path) = &self.trace else {
            return Ok(Scene::new(spec)?);
        };
        Ok(Scene::of_recording(spec, trace_file::read(path)?)?)
    }
}

/// Takes a broker's costs from its calibration, and its mcap if that was found under a promise as strict.
fn calibrate(spec: &mut Spec, folder: &Path) -> Result<(), Failure> {
    let missing = || {
        let path = file::path(folder);
        let text = format!(
            "{}: there is no calibration; make one with srtm calibrate",
            path.display()
        );
        Failure::Usage(text)
    };
    let calibration = file::read(folder)?.ok_or_else(missing)?;
    let model = calibration.model;
    let span = |nanos: f64| Duration::from_nanos(nanos.round() as u64);
    spec.cluster.cores = model.servers;
    spec.cluster.per_message = span(model.per_message_ns);
    spec.cluster.per_batch = span(model.per_batch_ns);
    spec.cluster.per_active_connection = span(model.per_active_connection_ns);
    spec.cluster.base = span(model.base_ns);
    let is_as_strict = calibration.slo_p99_us <= spec.topic.slo.as_secs_f64() * 1e6;
    spec.cluster.mcap = is_as_strict.then_some(calibration.mcap);
    Ok(())
}

/// A progress bar; hidden where standard error is no terminal.
pub(super) fn bar(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {eta} left");
    // The template is a constant; without it the library's own is fine.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// Counts what is done where nobody knows how much there will be.
pub(super) fn counter(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {pos} {msg} in {elapsed}");
    // As above.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// Prints a value as JSON for people and programs.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Usage(format!("this cannot be written as JSON: {error}")))?;
    println!("{text}");
    Ok(())
}
