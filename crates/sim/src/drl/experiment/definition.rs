//! From TOML to an experiment; errors name the line.

use limit::sharing::Policy;
use serde::Deserialize;
use toml::{Spanned, Table};

use super::traffic::{Part, add_traffic};
use crate::drl::scenario::Scenario;
use crate::experiment::ExperimentError;
use crate::experiment::overrides::{Override, overridden};
use crate::experiment::seeds::seed_of;

/// Most repeats of a run.
const REPEATS_MAX: u32 = 1_000;

/// Most sites.
const SITES_MAX: u32 = 10_000;

/// A word that is no [`limit::sharing::Policy`]: one limiter for all traffic, which drops at random.
const CENTRAL_RANDOM_DROP: &str = "crd";

/// A file: scenarios that are run together, and the figures that are made of them.
#[derive(Clone, Debug)]
pub struct Study {
    /// The file's name without its ending, and that of its results: `drl-baseline`.
    pub kind: String,
    /// What shows it.
    pub figures: Vec<Figure>,
    /// Runs of each series, each with a seed of its own; series share them.
    pub repeats: u32,
    /// Seconds that count neither for rates nor for fairness.
    pub warmup_s: f64,
    /// What the seeds of runs are derived of.
    pub seed: u64,
    /// The curves.
    pub series: Vec<Series>,
    /// Length of the steps in which forwarded bytes are kept.
    pub(super) record_ms: f64,
    pub(super) stagger_ms: f64,
    pub(super) vary: Vec<Vary>,
    pub(super) traffic: Vec<Part>,
    scenario: Table,
    scenario_line: usize,
    file: String,
    /// The text of the file: records of another text do not go with these.
    pub(super) text: String,
}

/// A figure or table of the paper.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is called here: `drl-fig3`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it is in the paper.
    pub paper: String,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The policy as results have it: one of the limiters', or `crd` for one limiter that drops at random.
    pub policy: String,
    overrides: Vec<Override>,
}

/// A key of the scenario, and what it is set to in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Vary {
    pub(super) key: String,
    pub(super) values: Vec<f64>,
    line: usize,
}

/// What is varied, in one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place<'a> {
    pub(super) vary: Option<(&'a Vary, f64)>,
    pub(super) series: &'a Series,
    /// From 1.
    pub(super) round: u32,
}

/// What is to be simulated in one run.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) scenario: Scenario,
    /// Places with traffic of their own, whether a limiter is at each or one central one serves all.
    pub(super) sites: u32,
    /// By flow of the scenario.
    pub(super) part_of_flow: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Head,
    figure: Vec<Figure>,
    #[serde(default)]
    vary: Vec<Spanned<VaryPart>>,
    series: Vec<Spanned<SeriesPart>>,
    scenario: Spanned<Table>,
    traffic: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    repeats: Spanned<u32>,
    warmup_s: Spanned<f64>,
    #[serde(default = "seed")]
    seed: u64,
    #[serde(default = "stagger_ms")]
    stagger_ms: Spanned<f64>,
    #[serde(default = "record_ms")]
    record_ms: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VaryPart {
    key: String,
    values: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesPart {
    name: String,
    policy: String,
    #[serde(default)]
    set: Table,
}

impl Study {
    /// Reads a definition; `kind` is the file's name without its ending. Every scenario that it asks for is checked.
    ///
    /// # Errors
    /// [`ExperimentError::Definition`], which names the line.
    pub fn parse(kind: &str, text: &str) -> Result<Study, ExperimentError> {
        let file = format!("{kind}.toml");
        let refuse = |(line, text): (usize, String)| ExperimentError::Definition {
            file: file.clone(),
            line,
            text,
        };
        let experiment = read(kind, &file, text).map_err(refuse)?;
        for place in experiment.places(1, usize::MAX) {
            experiment.planned(&place, experiment.seed)?;
        }
        Ok(experiment)
    }

    /// What is varied, in its order: a key and a value, or nothing once.
    pub(super) fn varied(&self, values: usize) -> Vec<Option<(&Vary, f64)>> {
        let mut varied = Vec::new();
        for vary in &self.vary {
            let values = vary.values.iter().take(values);
            varied.extend(values.map(|&value| Some((vary, value))));
        }
        if varied.is_empty() {
            varied.push(None);
        }
        varied
    }

    /// What is run, the cheapest first: each varied value, and there each series in each round.
    pub(super) fn places(&self, rounds: u32, values: usize) -> Vec<Place<'_>> {
        let varied = self.varied(values);
        let mut places = Vec::with_capacity(varied.len() * self.series.len() * rounds as usize);
        for vary in varied {
            for series in &self.series {
                places.extend((1..=rounds).map(|round| Place {
                    vary,
                    series,
                    round,
                }));
            }
        }
        places
    }

    /// The scenario of a run. Its seed follows from `base`, the number of sites and the round: runs with the same number
    /// have the same flows.
    ///
    /// # Errors
    /// [`ExperimentError::Definition`] with the line of the override that makes no sense, or of the scenario.
    pub(super) fn planned(&self, place: &Place<'_>, base: u64) -> Result<Planned, ExperimentError> {
        let refuse = |line: Option<usize>, text: String| ExperimentError::Definition {
            file: self.file.clone(),
            line: line.unwrap_or(self.scenario_line),
            text: format!("{}: {text}", place.series.name),
        };
        let mut layers = Vec::new();
        if let Some((vary, value)) = place.vary {
            layers.push(Override {
                key: vary.key.clone(),
                value: number(value),
                line: vary.line,
            });
        }
        layers.extend(place.series.overrides.iter().cloned());
        let table = overridden(&self.scenario, &layers);
        let table = table.map_err(|(line, text)| refuse(line, text))?;
        let to_blame = |text: &str| {
            let blamed = layers.iter().rev().find(|layer| {
                let last = layer.key.rsplit('.').next();
                last.is_some_and(|word| text.contains(word))
            });
            blamed.map(|layer| layer.line)
        };
        let read: Result<Scenario, _> = table.try_into();
        let mut scenario = read.map_err(|error| {
            let text = error.message().to_owned();
            refuse(to_blame(&text), text)
        })?;
        let sites = scenario.limiters;
        if sites > SITES_MAX {
            let text = format!("limiters is {sites}: at most {SITES_MAX}");
            return Err(refuse(to_blame(&text), text));
        }
        scenario.seed = seed_of(base, &self.kind, f64::from(sites), place.round);
        if place.series.is_random_drop() {
            scenario.limiters = 1;
        }
        let stagger_s = self.stagger_ms / 1e3;
        let part_of_flow = add_traffic(&mut scenario, &self.traffic, sites, stagger_s);
        let checked = scenario.check();
        checked.map_err(|error| {
            let text = error.to_string();
            refuse(to_blame(&text), text)
        })?;
        Ok(Planned {
            scenario,
            sites,
            part_of_flow,
        })
    }
}

impl Series {
    /// Whether one limiter stands for all, and is not a token bucket.
    fn is_random_drop(&self) -> bool {
        self.policy == CENTRAL_RANDOM_DROP
    }
}

type Refusal = (usize, String);

fn read(kind: &str, file: &str, text: &str) -> Result<Study, Refusal> {
    let line = |at: usize| {
        let before = text.get(..at.min(text.len())).unwrap_or(text);
        before.matches('\n').count() + 1
    };
    let own: File = toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(1, |span| line(span.start));
        (at, error.message().to_owned())
    })?;
    let head = &own.experiment;
    let repeats = *head.repeats.get_ref();
    if !(1..=REPEATS_MAX).contains(&repeats) {
        let text = format!("repeats: 1 to {REPEATS_MAX}, not {repeats}");
        return Err((line(head.repeats.span().start), text));
    }
    for (name, number, least) in [
        ("warmup_s", &head.warmup_s, 0.0),
        ("stagger_ms", &head.stagger_ms, 0.0),
        ("record_ms", &head.record_ms, 10.0),
    ] {
        let value = *number.get_ref();
        if !(least..=3.6e6).contains(&value) {
            let text = format!("{name}: from {least} to an hour, not {value}");
            return Err((line(number.span().start), text));
        }
    }
    let mut vary = Vec::new();
    for part in &own.vary {
        let at = line(part.span().start);
        let VaryPart { key, values } = part.get_ref();
        if values.is_empty() || !values.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err((at, "values: at least one, ascending, none twice".to_owned()));
        }
        vary.push(Vary {
            key: key.clone(),
            values: values.clone(),
            line: at,
        });
    }
    if own.figure.is_empty() {
        return Err((1, "at least one [[figure]]".to_owned()));
    }
    Ok(Study {
        kind: kind.to_owned(),
        figures: own.figure,
        repeats,
        warmup_s: *head.warmup_s.get_ref(),
        seed: head.seed,
        series: all_series(&own.series, &line)?,
        record_ms: *head.record_ms.get_ref(),
        stagger_ms: *head.stagger_ms.get_ref(),
        vary,
        traffic: own.traffic,
        scenario_line: line(own.scenario.span().start),
        scenario: own.scenario.into_inner(),
        file: file.to_owned(),
        text: text.to_owned(),
    })
}

fn all_series(
    parts: &[Spanned<SeriesPart>],
    line: &impl Fn(usize) -> usize,
) -> Result<Vec<Series>, Refusal> {
    let mut series: Vec<Series> = Vec::new();
    for part in parts {
        let at = line(part.span().start);
        let SeriesPart { name, policy, set } = part.get_ref();
        if name.is_empty() || series.iter().any(|other| other.name == *name) {
            let text = format!("series {name:?}: a name that no other series has");
            return Err((at, text));
        }
        let word = match policy.as_str() {
            CENTRAL_RANDOM_DROP => "grd",
            word => word,
        };
        let known: Result<Policy, _> = word.parse();
        known.map_err(|error| (at, format!("{error}, or {CENTRAL_RANDOM_DROP}")))?;
        let policy_key = Override {
            key: "policy".to_owned(),
            value: word.into(),
            line: at,
        };
        let sets = set.iter().map(|(key, value)| Override {
            key: key.clone(),
            value: value.clone(),
            line: at,
        });
        series.push(Series {
            name: name.clone(),
            policy: policy.clone(),
            overrides: std::iter::once(policy_key).chain(sets).collect(),
        });
    }
    if series.is_empty() {
        return Err((1, "at least one [[series]]".to_owned()));
    }
    Ok(series)
}

/// A whole number stays one: keys that count take no other.
fn number(value: f64) -> toml::Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        toml::Value::Integer(value as i64)
    } else {
        toml::Value::Float(value)
    }
}

fn seed() -> u64 {
    1
}

fn stagger_ms() -> Spanned<f64> {
    Spanned::new(0..0, 20.0)
}

fn record_ms() -> Spanned<f64> {
    Spanned::new(0..0, 100.0)
}
