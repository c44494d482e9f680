//! Overridden keys of a base load: `publishers.count = 3000` without copying the load.

use toml::{Table, Value};
use workload::Spec;

/// A dotted key and what it is set to. A key through an array of tables goes to each of them, or with a number to
/// one of them, from 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Override {
    pub(crate) key: String,
    pub(crate) value: Value,
    /// Where it is written, from 1.
    pub(crate) line: usize,
}

/// What is wrong, with the line of the override if one is to blame.
pub(crate) type Refusal = (Option<usize>, String);

/// The base with the overrides in turn, as a spec that was checked.
pub(crate) fn variation(base: &Table, overrides: &[Override]) -> Result<Spec, Refusal> {
    let table = overridden(base, overrides)?;
    let text = toml::to_string(&table).map_err(|error| (None, error.to_string()))?;
    Spec::parse(&text).map_err(|error| {
        let text = one_line(&error.to_string());
        let to_blame = overrides.iter().rev().find(|change| {
            let last = change.key.rsplit('.').next();
            last.is_some_and(|word| text.contains(word))
        });
        (to_blame.map(|change| change.line), text)
    })
}

/// The base with the overrides in turn.
pub(crate) fn overridden(base: &Table, overrides: &[Override]) -> Result<Table, Refusal> {
    let mut table = base.clone();
    for change in overrides {
        let path: Vec<&str> = change.key.split('.').collect();
        set(&mut table, &path, &change.value)
            .map_err(|text| (Some(change.line), format!("{}: {text}", change.key)))?;
    }
    Ok(table)
}

fn set(table: &mut Table, path: &[&str], value: &Value) -> Result<(), String> {
    match path {
        [] | [""] => Err("an empty key".into()),
        [last] => {
            table.insert((*last).to_owned(), value.clone());
            Ok(())
        }
        [first, rest @ ..] => {
            let below = table
                .entry((*first).to_owned())
                .or_insert_with(|| Value::Table(Table::new()));
            set_below(below, first, rest, value)
        }
    }
}

fn set_below(below: &mut Value, name: &str, rest: &[&str], value: &Value) -> Result<(), String> {
    match (below, rest) {
        (Value::Table(table), _) => set(table, rest, value),
        (Value::Array(elements), [index, after @ ..]) if index.parse::<usize>().is_ok() => {
            let number = index.parse::<usize>().unwrap_or_default();
            let length = elements.len();
            match elements.get_mut(number) {
                Some(Value::Table(table)) => set(table, after, value),
                Some(_) => Err(format!("{name}.{number} is not a table")),
                None => Err(format!("{name} has {length} elements, counted from 0")),
            }
        }
        (Value::Array(elements), _) => {
            for element in elements {
                let Value::Table(table) = element else {
                    return Err(format!("{name} is not a table"));
                };
                set(table, rest, value)?;
            }
            Ok(())
        }
        _ => Err(format!("{name} is not a table")),
    }
}

/// An error about the text that was put together: its lines are nobody's, so they go.
pub(crate) fn one_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let is_place = first.starts_with("TOML parse error") || first.starts_with("line ");
    match (is_place, first.split_once(": ")) {
        (true, Some((_, said))) => said.to_owned(),
        // The parser's picture of the place ends with the message.
        (true, None) => lines.next_back().unwrap_or(first).to_owned(),
        (false, _) => first.to_owned(),
    }
}
