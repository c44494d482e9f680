//! The text of a spec: from TOML to values, and from a wrong value back to its line.

use std::time::Duration;

use clock::DurationText;
use kernel::{CpuShare, OnOverrun};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};
use workload::{Place, SpecError};

use super::check::{self, Part, Problem};
use super::spec::Spec;

/// Reads `text` and checks what it says.
pub(super) fn read(text: &str) -> Result<Spec, SpecError> {
    let spec: Spec = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    check::check(&spec).map_err(|problem| {
        let byte = position(text, &problem);
        problem.at(Some(place(text, byte.unwrap_or(0))))
    })?;
    Ok(spec)
}

/// A duration, as `250ms`.
pub(super) fn span<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let span: DurationText = text.parse().map_err(de::Error::custom)?;
    Ok(span.0)
}

/// A duration that is written down.
pub(super) fn maybe_span<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Duration>, D::Error> {
    span(from).map(Some)
}

/// Durations.
pub(super) fn spans<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Duration>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let spans = texts.iter().map(|text| text.parse::<DurationText>());
    spans
        .map(|span| {
            span.map(|DurationText(span)| span)
                .map_err(de::Error::custom)
        })
        .collect()
}

/// Two durations.
pub(super) fn pair<'a, D: Deserializer<'a>>(from: D) -> Result<(Duration, Duration), D::Error> {
    match spans(from)?[..] {
        [first, second] => Ok((first, second)),
        _ => Err(de::Error::custom(
            "write two durations, as in [\"50us\", \"150us\"]",
        )),
    }
}

/// A share that is declared.
pub(super) fn share<'a, D: Deserializer<'a>>(from: D) -> Result<Option<CpuShare>, D::Error> {
    let value = f64::deserialize(from)?;
    CpuShare::new(value).map(Some).map_err(de::Error::custom)
}

/// `report` or `penalise`.
pub(super) fn on_overrun<'a, D: Deserializer<'a>>(from: D) -> Result<OnOverrun, D::Error> {
    match String::deserialize(from)?.as_str() {
        "report" => Ok(OnOverrun::Report),
        "penalise" => Ok(OnOverrun::Penalise),
        other => Err(de::Error::unknown_variant(other, &["report", "penalise"])),
    }
}

fn syntax(text: &str, error: &Error) -> SpecError {
    let byte = error.span().map_or(0, |span| span.start);
    SpecError::Syntax {
        place: place(text, byte),
        text: error.message().trim().replace('\n', "; "),
    }
}

fn place(text: &str, byte: usize) -> Place {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    Place {
        line: 1 + before.matches('\n').count(),
        column: 1 + before[line_start..].chars().count(),
    }
}

/// Where the key of a problem stands; the header of its table if it is not written down.
fn position(text: &str, problem: &Problem) -> Option<usize> {
    let root: Spanned<DeTable<'_>> = DeTable::parse(text).ok()?;
    let root = root.get_ref();
    let (at, table) = match problem.part {
        Part::Top => return Some(entry(root, problem.key)?.0),
        Part::Kernel => {
            let (at, value) = entry(root, "kernel")?;
            (at, value.as_table()?)
        }
        Part::Task(number) => {
            let item = entry(root, "task")?.1.as_array()?.get(number)?;
            (item.span().start, item.get_ref().as_table()?)
        }
    };
    Some(entry(table, problem.key).map_or(at, |(at, _)| at))
}

/// Where a key stands, and its value.
fn entry<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<(usize, &'a DeValue<'t>)> {
    let (key, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    Some((key.span().start, value.get_ref()))
}
