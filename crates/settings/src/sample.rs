//! A file to begin with: all settings of a daemon with what they mean, none of them set.

use super::definition::{DefaultValue, Setting, Settings, Takes};

/// Width of comments.
const WIDTH: usize = 100;

/// The file's text. Each setting stands in a comment with its default, or with what a value looks like.
#[must_use]
pub fn sample(settings: &Settings) -> String {
    let mut text = String::new();
    for setting in settings.iter() {
        for line in wrapped(&setting.doc) {
            text.push_str(&format!("# {line}\n"));
        }
        if let DefaultValue::Words(words) = &setting.default {
            text.push_str(&format!("# Default: {words}.\n"));
        }
        text.push_str(&format!("#{} = {}\n\n", setting.key, example(setting)));
    }
    text
}

/// Its default as TOML, or what a value is.
fn example(setting: &Setting) -> String {
    let values = match &setting.default {
        DefaultValue::Values(values) => values.as_slice(),
        DefaultValue::Words(_) => &[],
    };
    let value = values.first().unwrap_or(&setting.value);
    match setting.takes {
        Takes::Switch => String::from("false"),
        Takes::Value => toml_value(value),
        Takes::List => {
            let items: Vec<_> = match values.is_empty() {
                true => vec![toml_value(value)],
                false => values.iter().map(|value| toml_value(value)).collect(),
            };
            format!("[{}]", items.join(", "))
        }
    }
}

fn toml_value(value: &str) -> String {
    let is_plain = value == "true"
        || value == "false"
        || value.parse::<i64>().is_ok()
        || (value.contains('.') && value.parse::<f64>().is_ok());
    match is_plain {
        true => value.to_owned(),
        false => toml::Value::String(value.to_owned()).to_string(),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
