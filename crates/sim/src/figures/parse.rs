//! From TOML to a figure; errors name the line.
//!
//! A file is a spec of the workload language with four more kinds of tables: `[experiment]`, `[x]`,
//! `[[series]]` and `[[panel]]`. The two parts are parsed apart, each with the lines of the other
//! left empty, so that line numbers in errors are those of the file.

use serde::Deserialize;
use toml::{Spanned, Table};
use workload::Spec;

use super::definition::{Axis, Brokers, Figure, Panel, Series};
use crate::experiment::ExperimentError;
use crate::experiment::overrides::{Override, one_line};

/// Tables that are not the workload's.
const OWN_TABLES: [&str; 4] = ["experiment", "x", "series", "panel"];

/// Most repeats of a point.
const REPEATS_MAX: u32 = 1_000;

/// Most profiling windows that a bucket is chosen by.
const PROFILE_WINDOWS_MAX: u32 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnPart {
    experiment: Spanned<Head>,
    x: Spanned<AxisPart>,
    series: Vec<Spanned<SeriesPart>>,
    #[serde(default)]
    panel: Vec<Spanned<PanelPart>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    paper: String,
    repeats: Spanned<u32>,
    profile_windows: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisPart {
    label: String,
    key: Spanned<String>,
    #[serde(default)]
    unit: String,
    values: Spanned<Vec<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesPart {
    name: Spanned<String>,
    brokers: Spanned<String>,
    #[serde(default)]
    set: Option<Spanned<Table>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelPart {
    name: Spanned<String>,
    title: String,
    #[serde(default)]
    set: Option<Spanned<Table>>,
}

impl Figure {
    /// Reads a figure; `name` is the file's without its ending. Every run's spec is checked too.
    ///
    /// # Errors
    /// [`ExperimentError::Definition`], which names the line.
    pub fn parse(name: &str, text: &str) -> Result<Figure, ExperimentError> {
        let file = format!("{name}.toml");
        let found = read(name, &file, text);
        let figure = found.map_err(|(line, text)| ExperimentError::Definition {
            file: file.clone(),
            line,
            text,
        })?;
        for experiment in &figure.panels {
            for &x in &experiment.x.values {
                for series in &experiment.series {
                    experiment.spec(x, series, experiment.seed)?;
                }
            }
        }
        Ok(figure)
    }
}

type Refusal = (usize, String);

fn read(name: &str, file: &str, text: &str) -> Result<Figure, Refusal> {
    let (own_text, workload) = parts(text);
    let own: OwnPart = toml::from_str(&own_text).map_err(|error| refusal(&own_text, &error))?;
    let base: Table = toml::from_str(&workload).map_err(|error| refusal(&workload, &error))?;
    let spec = Spec::parse(&workload).map_err(|error| spec_refusal(&error.to_string()))?;
    let line = |at: usize| line_of(&own_text, at);
    let x = axis(&own.x, &line, spec.cluster.brokers)?;
    let series = all_series(&own.series, &x, &line)?;
    let head = own.experiment.get_ref();
    let within = |name: &str, number: &Spanned<u32>, most: u32| {
        let value = *number.get_ref();
        let said = || format!("{name}: 1 to {most}, not {value}");
        let is_within = (1..=most).contains(&value);
        is_within
            .then_some(value)
            .ok_or_else(|| (line(number.span().start), said()))
    };
    let repeats = within("repeats", &head.repeats, REPEATS_MAX)?;
    let profile_windows = within(
        "profile_windows",
        &head.profile_windows,
        PROFILE_WINDOWS_MAX,
    )?;
    let experiment = |panel: String, title: String, panel_overrides: Vec<Override>| Panel {
        name: format!("{name}{panel}"),
        panel,
        title,
        x: x.clone(),
        series: series.clone(),
        repeats,
        profile_windows,
        seed: spec.seed,
        file: file.to_owned(),
        base: base.clone(),
        panel_overrides,
        text: text.to_owned(),
    };
    let mut panels: Vec<Panel> = Vec::new();
    for part in &own.panel {
        let panel = part.get_ref();
        let letter = panel.name.get_ref().clone();
        let is_plain = !letter.is_empty() && letter.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_plain || panels.iter().any(|other| other.panel == letter) {
            let said = format!("panel {letter:?}: letters and digits, each panel another");
            return Err((line(panel.name.span().start), said));
        }
        let overrides = overrides(panel.set.as_ref(), &line);
        panels.push(experiment(letter, panel.title.clone(), overrides));
    }
    if panels.is_empty() {
        panels.push(experiment(String::new(), head.title.clone(), Vec::new()));
    }
    Ok(Figure {
        name: name.to_owned(),
        title: head.title.clone(),
        paper: head.paper.clone(),
        panels,
    })
}

fn axis(
    part: &Spanned<AxisPart>,
    line: &impl Fn(usize) -> usize,
    brokers: u32,
) -> Result<Axis, Refusal> {
    let axis = part.get_ref();
    let values = axis.values.get_ref();
    let at_values = line(axis.values.span().start);
    let ascends = values.windows(2).all(|pair| pair[0] < pair[1]);
    if values.is_empty() || !ascends || values.iter().any(|x| !x.is_finite() || *x < 0.0) {
        let said = "values: at least one, not negative, ascending, none twice";
        return Err((at_values, said.into()));
    }
    let is_number_of_brokers = axis.key.get_ref() == "k";
    let most = f64::from(brokers);
    if is_number_of_brokers
        && values
            .iter()
            .any(|&k| k < 1.0 || k > most || k.fract() != 0.0)
    {
        let said = format!("values: k is a number of brokers, 1 to {brokers}");
        return Err((at_values, said));
    }
    Ok(Axis {
        label: axis.label.clone(),
        key: (!is_number_of_brokers).then(|| axis.key.get_ref().clone()),
        unit: axis.unit.clone(),
        values: values.clone(),
        line: line(axis.key.span().start),
    })
}

fn all_series(
    parts: &[Spanned<SeriesPart>],
    x: &Axis,
    line: &impl Fn(usize) -> usize,
) -> Result<Vec<Series>, Refusal> {
    let mut series: Vec<Series> = Vec::new();
    for part in parts {
        let part = part.get_ref();
        let name = part.name.get_ref().clone();
        if name.is_empty() || series.iter().any(|other| other.name == name) {
            let said = format!("series {name:?}: a name that no other series has");
            return Err((line(part.name.span().start), said));
        }
        let word = part.brokers.get_ref();
        let brokers = brokers(word, x, &series)
            .ok_or_else(|| (line(part.brokers.span().start), brokers_advice(word)))?;
        let overrides = overrides(part.set.as_ref(), line);
        series.push(Series {
            name,
            brokers,
            overrides,
        });
    }
    if series.is_empty() {
        return Err((x.line, "at least one [[series]]".into()));
    }
    Ok(series)
}

fn brokers(word: &str, x: &Axis, before: &[Series]) -> Option<Brokers> {
    match word {
        "fit" => Some(Brokers::Fit),
        "all" => Some(Brokers::All),
        "x" => x.key.is_none().then_some(Brokers::AtX),
        _ => {
            let name = word.strip_prefix("as ")?;
            let position = before.iter().position(|series| series.name == name)?;
            Some(Brokers::As(position))
        }
    }
}

fn brokers_advice(word: &str) -> String {
    format!(
        "brokers = {word:?}: one of \"fit\", \"all\", \"x\" (with x.key = \"k\"), \"as NAME\" (of a series before)"
    )
}

fn overrides(set: Option<&Spanned<Table>>, line: &impl Fn(usize) -> usize) -> Vec<Override> {
    let Some(set) = set else {
        return Vec::new();
    };
    let line = line(set.span().start);
    let change = |(key, value): (&String, &toml::Value)| Override {
        key: key.clone(),
        value: value.clone(),
        line,
    };
    set.get_ref().iter().map(change).collect()
}

/// The text twice: once with the own tables alone, once with the workload alone.
fn parts(text: &str) -> (String, String) {
    let (mut own, mut workload) = (String::new(), String::new());
    let mut is_own = false;
    for line in text.lines() {
        if let Some(name) = header(line) {
            is_own = OWN_TABLES.contains(&name);
        }
        let part = if is_own { &mut own } else { &mut workload };
        part.push_str(line);
        own.push('\n');
        workload.push('\n');
    }
    (own, workload)
}

/// The first name in a table's header.
fn header(line: &str) -> Option<&str> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let inner = match inner.strip_prefix('[') {
        Some(doubled) => doubled.strip_suffix(']')?,
        None => inner,
    };
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte);
    inner.bytes().all(is_bare).then_some(())?;
    inner.split('.').next().map(str::trim)
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn refusal(text: &str, error: &toml::de::Error) -> Refusal {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    (line, error.message().to_owned())
}

/// A spec's error with its line, if it names one.
fn spec_refusal(error: &str) -> Refusal {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse::<usize>().ok()
    };
    let line = error
        .find("line ")
        .and_then(|at| digits(&error[at + "line ".len()..]));
    (line.unwrap_or(1), one_line(error))
}
