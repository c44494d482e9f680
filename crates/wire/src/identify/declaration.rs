//! A publisher's declaration: who it is, where it publishes, and with whom it sends together.
//!
//! Part of IDENTIFY's `srtm` object (`docs/protocol.md`, part two). Unlike the rest of the body, each
//! field is judged on its own, so that the error names the field, its value and what is allowed.
//! Names match in any case and `null` is a missing field, as everywhere in the body.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::quote::echoed;
use crate::{ErrorCode, ProtocolError, TopicName};

/// Longest id and longest correlation group key, in bytes.
pub const MAX_PUBLISHER_TEXT_BYTES: usize = 128;

/// Highest rate that a publisher may declare, in messages per second.
pub const MAX_PUBLISHER_RATE: f64 = 1e9;

/// Most messages that a publisher may declare to send at once.
pub const MAX_PUBLISHER_BATCH: u32 = 65_536;

/// SRTM extension: what a publisher says of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Declaration {
    /// Its name, unique within the topic: 1 to [`MAX_PUBLISHER_TEXT_BYTES`] printable ASCII characters
    /// without blanks.
    pub id: String,
    /// The one topic that the broker may move with it.
    #[serde(serialize_with = "as_text")]
    pub topic: TopicName,
    /// Correlation group key: publishers with one key send at about the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Messages per second that it means to send, above 0 and up to [`MAX_PUBLISHER_RATE`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Messages that it sends at once, 1 to [`MAX_PUBLISHER_BATCH`].
    pub batch: u32,
}

impl Declaration {
    /// Reads the value of `publisher`.
    ///
    /// # Errors
    /// The fatal error frame `E_BAD_BODY IDENTIFY publisher …`.
    pub(super) fn from_value(value: &Value) -> Result<Declaration, ProtocolError> {
        let Value::Object(fields) = value else {
            return Err(refused("publisher", value, "an object with id and topic"));
        };
        let [id, topic, group, rate, batch] =
            ["id", "topic", "group", "rate", "batch"].map(|name| field(fields, name));
        Ok(Declaration {
            id: read("publisher id", id, ID, id_of)?,
            topic: read("publisher topic", topic, TOPIC, topic_of)?,
            group: optional("publisher group", group, GROUP, text_of)?,
            rate: optional("publisher rate", rate, RATE, rate_of)?,
            batch: optional("publisher batch", batch, BATCH, batch_of)?.unwrap_or(1),
        })
    }
}

/// The field of that name; in any case of letters where none has it exactly.
fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a Value {
    let named = |(key, _): &(&String, &Value)| key.eq_ignore_ascii_case(name);
    let alike = || fields.iter().find(named).map(|(_, value)| value);
    fields.get(name).or_else(alike).unwrap_or(&Value::Null)
}

fn read<T>(
    name: &str,
    value: &Value,
    allowed: &str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, ProtocolError> {
    read(value).ok_or_else(|| refused(name, value, allowed))
}

fn optional<T>(
    name: &str,
    value: &Value,
    allowed: &str,
    read_it: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, ProtocolError> {
    if value.is_null() {
        return Ok(None);
    }
    read(name, value, allowed, read_it).map(Some)
}

fn refused(name: &str, value: &Value, allowed: &str) -> ProtocolError {
    let value = value.to_string();
    let value = echoed(value.as_bytes());
    let text = format!("IDENTIFY {name} ({value}) is invalid, allowed: {allowed}");
    ProtocolError::new(ErrorCode::BadBody, text)
}

const ID: &str = "1 to 128 printable ASCII characters without blanks";
const TOPIC: &str = "a topic name";
const GROUP: &str = "a text of 1 to 128 bytes";
const RATE: &str = "a number above 0, at most 1e9";
const BATCH: &str = "an integer, 1 to 65536";

fn id_of(value: &Value) -> Option<String> {
    text_of(value).filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic()))
}

fn topic_of(value: &Value) -> Option<TopicName> {
    value.as_str()?.parse().ok()
}

fn text_of(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    (1..=MAX_PUBLISHER_TEXT_BYTES)
        .contains(&text.len())
        .then(|| text.to_owned())
}

fn rate_of(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .filter(|rate| *rate > 0.0 && *rate <= MAX_PUBLISHER_RATE)
}

fn batch_of(value: &Value) -> Option<u32> {
    let batch = u32::try_from(value.as_u64()?).ok()?;
    (1..=MAX_PUBLISHER_BATCH).contains(&batch).then_some(batch)
}

fn as_text<S: Serializer>(topic: &TopicName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(topic.as_str())
}
