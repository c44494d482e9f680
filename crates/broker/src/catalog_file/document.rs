//! The catalog as JSON text and back. Names and values are checked; an error names the line.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_path_to_error::{Path as JsonPath, Segment};

use crate::BrokerError;
use crate::stats::{Catalog, CatalogTopic};

const FORMAT: u32 = 1;

/// The file, field for field.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    /// Counts up with each write, so that a journal of before does not count.
    #[serde(default)]
    generation: u64,
    topics: Vec<CatalogTopic>,
}

/// The text of a catalog of that generation.
pub(super) fn render(catalog: &Catalog, generation: u64) -> io::Result<String> {
    let document = Document {
        version: FORMAT,
        generation,
        topics: catalog.topics.clone(),
    };
    let mut text = serde_json::to_string_pretty(&document).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}

/// The catalog in `text` and its generation, or the line and what is wrong there.
pub(super) fn parse(text: &str) -> Result<(Catalog, u64), (usize, String)> {
    if text.trim().is_empty() {
        let lost = "the file is empty, so what it held is lost";
        return Err((1, lost.to_owned()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let document: Document = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| unfit(text, error.path(), error.inner()))?;
    json.end()
        .map_err(|error| (error.line(), error.to_string()))?;
    if document.version != FORMAT {
        return Err((
            1,
            format!(
                "version {} is not {FORMAT}, the one this broker reads",
                document.version
            ),
        ));
    }
    let mut topics = BTreeSet::new();
    for topic in &document.topics {
        if !topics.insert(topic.name.as_str()) {
            let reason = format!("topic {} is named twice", topic.name);
            return Err((last_line_of(text, &topic.name), reason));
        }
        let mut channels = BTreeSet::new();
        topic
            .name
            .parse::<wire::TopicName>()
            .map_err(|error| (line_of(text, &topic.name), error.to_string()))?;
        for channel in &topic.channels {
            let valid = channel.name.parse::<wire::ChannelName>();
            valid.map_err(|error| (line_of(text, &channel.name), error.to_string()))?;
            if !channels.insert(channel.name.as_str()) {
                let twice = format!(
                    "channel {} of topic {} is named twice",
                    channel.name, topic.name
                );
                return Err((last_line_of(text, &channel.name), twice));
            }
        }
    }
    let mut topics = document.topics;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((Catalog { topics }, document.generation))
}

/// The line of a value that cannot be, and why: with its topic and its field where JSON itself is whole.
fn unfit(text: &str, path: &JsonPath, error: &serde_json::Error) -> (usize, String) {
    let plain = (error.line(), error.to_string());
    let (Some(Segment::Seq { index }), Some(Segment::Map { key })) =
        (path.iter().nth(1), path.iter().next_back())
    else {
        return plain;
    };
    let document = serde_json::from_str(text).unwrap_or(serde_json::Value::Null);
    let Some(topic) = document["topics"][*index]["name"].as_str() else {
        return plain;
    };
    // A value is judged after what follows it was looked at, which may stand on a later line.
    let name = serde_json::Value::from(key.as_str()).to_string();
    let before = text.lines().take(error.line()).enumerate();
    let named = before.filter(|(_, line)| line.contains(&name)).last();
    let line = named.map_or(error.line(), |(index, _)| index + 1);
    let (place, reason) = (path.to_string(), &plain.1);
    let field = place.split_once("].").map_or(&*place, |(_, field)| field);
    let reason = reason
        .rsplit_once(" at line ")
        .map_or(&**reason, |(why, _)| why);
    (line, format!("topic {topic}: {field}: {reason}"))
}

/// The first line that holds `name` as a JSON string.
fn line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::Value::from(name).to_string();
    text.lines()
        .position(|line| line.contains(&quoted))
        .map_or(1, |index| index + 1)
}

/// The last such line.
fn last_line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::Value::from(name).to_string();
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| line.contains(&quoted)).last();
    found.map_or(1, |(index, _)| index + 1)
}

/// A file that stops the start.
pub(super) fn broken(path: &Path, line: usize, reason: &str) -> BrokerError {
    let advice = "repair it, or move it away to start without topics and limits";
    let what = format!("{}, line {line}", path.display());
    BrokerError::Io {
        what,
        source: io::Error::new(io::ErrorKind::InvalidData, format!("{reason}; {advice}")),
    }
}
