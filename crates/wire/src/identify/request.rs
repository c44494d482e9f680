//! The body of IDENTIFY, read as Go's JSON decoder reads it.
//!
//! Where stock clients could notice: field names match in any case, the last of two equal fields
//! counts, `null` leaves a field as it is, unknown fields are skipped, and bytes of a string that
//! are not UTF-8 become U+FFFD. A value of the wrong type, a fraction for an integer or anything
//! after the object is an error. Two corners differ from Go: `-0` is refused, and a lone surrogate
//! becomes more than one U+FFFD.

use crate::{ErrorCode, ProtocolError};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A client's wishes; a missing field is 0, empty or `false`. Names are those on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Identify {
    /// The client's short name.
    pub client_id: String,
    /// The client's host.
    pub hostname: String,
    /// Milliseconds between heartbeats; -1: none; 0: the broker's default.
    pub heartbeat_interval: i64,
    /// Bytes of the broker's output buffer; -1: none; 0: the broker's default.
    pub output_buffer_size: i64,
    /// Milliseconds that output may wait in it; -1: no limit; 0: the broker's default.
    pub output_buffer_timeout: i64,
    /// Whether the client can read a JSON answer.
    pub feature_negotiation: bool,
    /// Wish for TLS.
    pub tls_v1: bool,
    /// Wish for deflate.
    pub deflate: bool,
    /// Wish for a level of deflate.
    pub deflate_level: i64,
    /// Wish for snappy.
    pub snappy: bool,
    /// Percentage of the messages to get; 0: all.
    pub sample_rate: i32,
    /// The client's software.
    pub user_agent: String,
    /// Milliseconds to finish a message; 0: the broker's default.
    pub msg_timeout: i64,
    /// SRTM extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srtm: Option<AckRequest>,
}

/// SRTM extension: the wish for cumulative acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AckRequest {
    /// Messages per ack; 0: 64.
    pub ack_every_messages: i64,
    /// Milliseconds within which an ack must follow; 0: 5.
    pub ack_interval_ms: i64,
}

impl Identify {
    /// Reads a body.
    ///
    /// # Errors
    /// nsqd's error frame for a body that is not the JSON it expects.
    pub fn from_json(body: &[u8]) -> Result<Identify, ProtocolError> {
        if !has_raw_control(body)
            && let Ok(request) = serde_json::from_slice(body)
        {
            return Ok(request);
        }
        let text = "IDENTIFY failed to decode JSON body";
        Err(ProtocolError::new(ErrorCode::BadBody, text))
    }

    /// Writes a body for [`crate::command::put_identify`].
    pub fn to_json(&self) -> Vec<u8> {
        // Text, integers and booleans always serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Whether a string holds an unescaped control character. JSON forbids it, but serde_json looks for
/// it only where it also insists on UTF-8.
fn has_raw_control(json: &[u8]) -> bool {
    let mut in_string = false;
    let mut bytes = json.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            0..=0x1f if in_string => return true,
            _ => {}
        }
    }
    false
}

impl<'de> Deserialize<'de> for Identify {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Identify, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(Identify::default()))
    }
}

impl<'de> Deserialize<'de> for AckRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AckRequest, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(AckRequest::default()))
    }
}

/// A value filled field by field.
trait Fields {
    /// Reads the value of the field called `key` (in lower case), or skips it.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

impl Fields for Identify {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "client_id" => text(&mut self.client_id, map),
            "hostname" => text(&mut self.hostname, map),
            "user_agent" => text(&mut self.user_agent, map),
            "heartbeat_interval" => value(&mut self.heartbeat_interval, map),
            "output_buffer_size" => value(&mut self.output_buffer_size, map),
            "output_buffer_timeout" => value(&mut self.output_buffer_timeout, map),
            "feature_negotiation" => value(&mut self.feature_negotiation, map),
            "tls_v1" => value(&mut self.tls_v1, map),
            "deflate" => value(&mut self.deflate, map),
            "deflate_level" => value(&mut self.deflate_level, map),
            "snappy" => value(&mut self.snappy, map),
            "sample_rate" => value(&mut self.sample_rate, map),
            "msg_timeout" => value(&mut self.msg_timeout, map),
            "srtm" => {
                self.srtm = map.next_value()?;
                Ok(())
            }
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

impl Fields for AckRequest {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "ack_every_messages" => value(&mut self.ack_every_messages, map),
            "ack_interval_ms" => value(&mut self.ack_interval_ms, map),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

fn value<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    field: &mut T,
    map: &mut A,
) -> Result<(), A::Error> {
    if let Some(value) = map.next_value::<Option<T>>()? {
        *field = value;
    }
    Ok(())
}

fn text<'de, A: MapAccess<'de>>(field: &mut String, map: &mut A) -> Result<(), A::Error> {
    if let Some(LossyText(value)) = map.next_value()? {
        *field = value;
    }
    Ok(())
}

struct ObjectVisitor<T>(T);

impl<'de, T: Fields> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(self.0)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<T, A::Error> {
        while let Some(LossyText(mut key)) = map.next_key()? {
            key.make_ascii_lowercase();
            self.0.read(&key, &mut map)?;
        }
        Ok(self.0)
    }
}

/// A string whose bytes need not be UTF-8.
struct LossyText(String);

impl<'de> Deserialize<'de> for LossyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LossyText, D::Error> {
        deserializer.deserialize_bytes(LossyTextVisitor)
    }
}

struct LossyTextVisitor;

impl Visitor<'_> for LossyTextVisitor {
    type Value = LossyText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyText, E> {
        Ok(LossyText(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn visit_str<E>(self, text: &str) -> Result<LossyText, E> {
        Ok(LossyText(text.to_owned()))
    }
}
