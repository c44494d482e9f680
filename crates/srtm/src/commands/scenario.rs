//! What the commands in virtual time share: reading a spec and a trace, threads, progress, JSON.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::thread;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use sim::Scene;
use workload::Spec;

use crate::error::Failure;

/// Threads of a command.
#[derive(Args, Debug)]
pub(super) struct Jobs {
    /// Runs at the same time; without it as many as there are cores.
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

/// Reads and checks a spec; errors name file and line.
pub(super) fn read_spec(path: &Path) -> Result<Spec, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::io(format!("read {}", path.display())))?;
    Spec::parse(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// The scene of a spec, with the arrivals of a trace if there is one.
pub(super) fn scene(spec: &Spec, trace: Option<&Path>) -> Result<Scene, Failure> {
    let Some(path) = trace else {
        return Ok(Scene::new(spec)?);
    };
    let file = File::open(path).map_err(Failure::io(format!("open {}", path.display())))?;
    let recording = workload::trace::read_all(BufReader::new(file))
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(Scene::of_recording(spec, recording)?)
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
