//! The body of IDENTIFY, read as Go's JSON decoder reads it.
//!
//! Where stock clients could notice: field names match in any case, the last of two equal fields
//! counts, `null` leaves a field as it is, unknown fields are skipped, and bytes of a string that
//! are not UTF-8 become U+FFFD. A value of the wrong type, a fraction for an integer or anything
//! after the object is an error. Two corners differ from Go: `-0` is refused, and a lone surrogate
//! becomes more than one U+FFFD.
//!
//! The `srtm` object holds two requests: for cumulative acks, and to be known as a publisher.
//! Without `publisher` any such object asks for acks; with it, only one that has an `ack_*` field.

use super::declaration::Declaration;
use crate::{ErrorCode, ProtocolError};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// A client's wishes; a missing field is 0, empty or `false`. Names are those on the wire.
#[derive(Debug, Clone, PartialEq, Default)]
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
    /// SRTM extension: the wish for cumulative acks.
    pub srtm: Option<AckRequest>,
    /// SRTM extension: `srtm.publisher`, the wish to be known as a publisher and told where to go. Read
    /// only where features are negotiated.
    pub publisher: Option<Declaration>,
}

/// SRTM extension: the terms asked for cumulative acks, `srtm.ack_every_messages` and
/// `srtm.ack_interval_ms`.
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
    /// nsqd's error frame for a body that is not the JSON it expects; one that names the field for an
    /// declaration that cannot be taken.
    pub fn from_json(body: &[u8]) -> Result<Identify, ProtocolError> {
        if !has_raw_control(body)
            && let Ok(Body {
                mut request,
                publisher,
            }) = serde_json::from_slice(body)
        {
            if let Some(publisher) = publisher.filter(|_| request.feature_negotiation) {
                request.publisher = Some(Declaration::from_value(&publisher)?);
            }
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

impl Serialize for Identify {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("client_id", &self.client_id)?;
        map.serialize_entry("hostname", &self.hostname)?;
        map.serialize_entry("heartbeat_interval", &self.heartbeat_interval)?;
        map.serialize_entry("output_buffer_size", &self.output_buffer_size)?;
        map.serialize_entry("output_buffer_timeout", &self.output_buffer_timeout)?;
        map.serialize_entry("feature_negotiation", &self.feature_negotiation)?;
        map.serialize_entry("tls_v1", &self.tls_v1)?;
        map.serialize_entry("deflate", &self.deflate)?;
        map.serialize_entry("deflate_level", &self.deflate_level)?;
        map.serialize_entry("snappy", &self.snappy)?;
        map.serialize_entry("sample_rate", &self.sample_rate)?;
        map.serialize_entry("user_agent", &self.user_agent)?;
        map.serialize_entry("msg_timeout", &self.msg_timeout)?;
        if self.srtm.is_some() || self.publisher.is_some() {
            let (acks, publisher) = (self.srtm, self.publisher.as_ref());
            map.serialize_entry("srtm", &Extension { acks, publisher })?;
        }
        map.end()
    }
}

/// The `srtm` object as a client writes it.
#[derive(Serialize)]
struct Extension<'a> {
    #[serde(flatten)]
    acks: Option<AckRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<&'a Declaration>,
}

/// A body read, its declaration not yet judged.
#[derive(Default)]
struct Body {
    request: Identify,
    publisher: Option<Value>,
}

/// The `srtm` object as a broker reads it; `null` and missing are one.
#[derive(Default)]
struct Wishes {
    ack_every_messages: Option<i64>,
    ack_interval_ms: Option<i64>,
    publisher: Option<Value>,
}

impl Wishes {
    fn acks(&self) -> Option<AckRequest> {
        let is_asked = self.ack_every_messages.is_some() || self.ack_interval_ms.is_some();
        (is_asked || self.publisher.is_none()).then(|| AckRequest {
            ack_every_messages: self.ack_every_messages.unwrap_or_default(),
            ack_interval_ms: self.ack_interval_ms.unwrap_or_default(),
        })
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Body, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(Body::default()))
    }
}

impl<'de> Deserialize<'de> for Wishes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Wishes, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(Wishes::default()))
    }
}

/// A value filled field by field.
trait Fields {
    /// Reads the value of the field called `key` (in lower case), or skips it.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

impl Fields for Body {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let request = &mut self.request;
        match key {
            "client_id" => text(&mut request.client_id, map),
            "hostname" => text(&mut request.hostname, map),
            "user_agent" => text(&mut request.user_agent, map),
            "heartbeat_interval" => value(&mut request.heartbeat_interval, map),
            "output_buffer_size" => value(&mut request.output_buffer_size, map),
            "output_buffer_timeout" => value(&mut request.output_buffer_timeout, map),
            "feature_negotiation" => value(&mut request.feature_negotiation, map),
            "tls_v1" => value(&mut request.tls_v1, map),
            "deflate" => value(&mut request.deflate, map),
            "deflate_level" => value(&mut request.deflate_level, map),
            "snappy" => value(&mut request.snappy, map),
            "sample_rate" => value(&mut request.sample_rate, map),
            "msg_timeout" => value(&mut request.msg_timeout, map),
            "srtm" => {
                let wishes: Option<Wishes> = map.next_value()?;
                request.srtm = wishes.as_ref().and_then(Wishes::acks);
                self.publisher = wishes.and_then(|wishes| wishes.publisher);
                Ok(())
            }
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

impl Fields for Wishes {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "ack_every_messages" => present(&mut self.ack_every_messages, map),
            "ack_interval_ms" => present(&mut self.ack_interval_ms, map),
            "publisher" => present(&mut self.publisher, map),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

fn present<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    field: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if let Some(value) = map.next_value()? {
        *field = Some(value);
    }
    Ok(())
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
