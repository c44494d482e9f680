//! The definition of an experiment: a base load, what is varied, and how publishers are placed.

use workload::Spec;

use crate::experiment::overrides::{Override, variation};
use crate::experiment::{ExperimentError, RunOptions};

/// A file: one experiment per panel.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The file's name without its ending: `fig7`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it is in the papers.
    pub paper: String,
    /// Its panels, in the order of the file.
    pub panels: Vec<Panel>,
}

/// One panel of a figure: a grid of x × repeats, with a run per series in each cell.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Name of the figure and the panel together: `fig7a`. Results are called so.
    pub name: String,
    /// Letter of the panel; empty where the figure has one.
    pub panel: String,
    /// What it shows.
    pub title: String,
    /// The x-axis.
    pub x: Axis,
    /// The curves; a series may refer to those before it.
    pub series: Vec<Series>,
    /// Runs of each point, each with a seed of its own.
    pub repeats: u32,
    /// Profiling windows that are recorded; the bucket is chosen by them where the load gives none, and all
    /// runs replay them.
    pub profile_windows: u32,
    /// Seed of the base load, of which those of the runs are derived.
    pub seed: u64,
    pub(super) file: String,
    pub(super) base: toml::Table,
    pub(super) panel_overrides: Vec<Override>,
    /// The text of the file: results of another text do not go with these.
    pub(super) text: String,
}

/// What is varied along the x-axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it is called.
    pub label: String,
    /// The key of the load that takes the value; `None` where it is the number of brokers that is forced.
    pub key: Option<String>,
    /// Unit appended to the value where the key is a duration; else empty.
    pub unit: String,
    /// The values, ascending.
    pub values: Vec<f64>,
    pub(super) line: usize,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// How its publishers are placed.
    pub brokers: Brokers,
    pub(super) overrides: Vec<Override>,
}

/// Over how many brokers publishers are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brokers {
    /// As many as the fit finds (steps 1 to 3). Where it cannot keep the promise, the number whose worst broker is
    /// best, as the paper reports it (SRTM-long, section 6, "Workload").
    Fit,
    /// All.
    All,
    /// As many as the x-axis says.
    AtX,
    /// As many as the series of this index took in the same repeat.
    As(usize),
}

impl Panel {
    /// The spec of a run.
    ///
    /// # Errors
    /// [`ExperimentError::Definition`] with the line of the override that makes no sense.
    pub fn spec(&self, x: f64, series: &Series, seed: u64) -> Result<Spec, ExperimentError> {
        let mut layers = Vec::new();
        layers.extend(self.panel_overrides.iter().cloned());
        if let Some(key) = &self.x.key {
            layers.push(Override {
                key: key.clone(),
                value: self.x.value(x),
                line: self.x.line,
            });
        }
        layers.extend(series.overrides.iter().cloned());
        let found = variation(&self.base, &layers);
        let mut spec = found.map_err(|(line, text)| ExperimentError::Definition {
            file: self.file.clone(),
            line: line.unwrap_or(self.x.line),
            text: format!("{}, {} at x = {x}: {text}", self.name, series.name),
        })?;
        spec.seed = seed;
        Ok(spec)
    }

    /// Runs of each point under these options.
    #[must_use]
    pub fn repeats(&self, options: &RunOptions) -> u32 {
        options.repeats.unwrap_or(self.repeats).max(1)
    }
}

impl Axis {
    /// A value as the key takes it.
    fn value(&self, x: f64) -> toml::Value {
        if !self.unit.is_empty() {
            toml::Value::String(format!("{x}{}", self.unit))
        } else if x.fract() == 0.0 && x.abs() < 1e15 {
            toml::Value::Integer(x as i64)
        } else {
            toml::Value::Float(x)
        }
    }
}
