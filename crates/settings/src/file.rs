//! Files of settings: TOML, one key per setting at the top, no tables.
//!
//! Values are strings, numbers, `true` and `false`, and lists of those. A number is taken as it is written: which unit it
//! needs is said by whoever reads the value.

use toml::de::{DeTable, DeValue};

use super::definition::{Setting, Settings, Takes};
use super::mistake::{Mistake, Place};
use super::said::Said;

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Of settings.
    pub said: Vec<Said>,
    /// Keys that are no setting's.
    pub unknown: Vec<Mistake>,
    /// What is wrong otherwise: text that is not TOML, values that a setting cannot have.
    pub mistakes: Vec<Mistake>,
}

impl Reading {
    /// What the file says, if all of it is right.
    ///
    /// # Errors
    /// All that is not, in the order of its lines.
    pub fn all(self) -> Result<Vec<Said>, Vec<Mistake>> {
        let wrong = [self.mistakes, self.unknown].concat();
        match wrong.is_empty() {
            true => Ok(self.said),
            false => Err(in_order(wrong)),
        }
    }
}

impl Settings {
    /// What the file named `file` says, which holds `text`.
    #[must_use]
    pub fn read_file(&self, file: &str, text: &str) -> Reading {
        let lines = Lines { file, text };
        let mut reading = Reading {
            said: Vec::new(),
            unknown: Vec::new(),
            mistakes: Vec::new(),
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let told = errors.iter().map(|error| Mistake {
                place: lines.place(error.span().map_or(0, |span| span.start)),
                key: String::new(),
                reason: format!("{} (the file is TOML: key = \"value\")", error.message()),
            });
            reading.mistakes.extend(told);
            return reading;
        }
        for (key, value) in table.get_ref() {
            let place = lines.place(key.span().start);
            let key = key.get_ref().to_string();
            let wrong = |place, key, reason| Mistake { place, key, reason };
            let Some(setting) = self.find(&key) else {
                let reason = self.advice_on(&key, value.get_ref());
                reading.unknown.push(wrong(place, key, reason));
                continue;
            };
            match read_value(setting, value.get_ref()) {
                Ok(values) => reading.said.push(Said { key, values, place }),
                Err(reason) => reading.mistakes.push(wrong(place, key, reason)),
            }
        }
        reading
    }

    fn advice_on(&self, key: &str, value: &DeValue<'_>) -> String {
        match (value, self.nearest(key)) {
            (DeValue::Table(_), _) => {
                String::from("is a table; settings stand at the top of the file, without tables")
            }
            (_, Some(near)) => format!("is no setting; did you mean `{near}`?"),
            (_, None) => String::from("is no setting; `srtm config sample` lists them"),
        }
    }
}

fn read_value(setting: &Setting, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let values = match value {
        DeValue::Array(items) if setting.takes == Takes::List => {
            let items = items.iter().map(|item| one(item.get_ref()));
            items.collect::<Result<Vec<_>, _>>()?
        }
        DeValue::Array(_) => {
            return Err(String::from("takes one value, not a list"));
        }
        other => vec![one(other)?],
    };
    for value in &values {
        check_secret(setting, value)?;
    }
    match (setting.takes, value) {
        (Takes::Switch, DeValue::Boolean(_)) => Ok(values),
        (Takes::Switch, _) => Err(String::from("is on or off; use true or false")),
        _ => Ok(values),
    }
}

/// A value that is not a list, as a flag would have it.
fn one(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(is_on) => Ok(is_on.to_string()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| format!("is {number}, which is no number that a setting can be")),
        DeValue::Datetime(_) => Err(String::from("cannot be a date; write text in quotes")),
        DeValue::Array(_) => Err(String::from("cannot be a list of lists")),
        DeValue::Table(_) => Err(String::from("cannot be a table")),
    }
}

/// Secrets do not stand in files that are shown around, nor in the environment, which other programs inherit.
pub(crate) fn check_secret(setting: &Setting, value: &str) -> Result<(), String> {
    match setting.is_secret && !value.starts_with('@') {
        true => Err(String::from(
            "is a secret; put it into a file of its own and write \"@FILE\"",
        )),
        false => Ok(()),
    }
}

struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    fn place(&self, offset: usize) -> Place {
        let before = self.text.as_bytes().iter().take(offset);
        Place::Line {
            file: self.file.to_owned(),
            line: 1 + before.filter(|byte| **byte == b'\n').count(),
        }
    }
}

fn in_order(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort_by_key(|mistake| match mistake.place {
        Place::Line { line, .. } => line,
        Place::Variable(_) => 0,
    });
    mistakes
}
