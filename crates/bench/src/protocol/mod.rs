//! What the generator sends to each kind of broker, and how it reads the answers.
//!
//! Every protocol offers the same five things: a publisher's greeting, a subscriber's greeting, a
//! publish command as a [`Template`] that only has to be stamped, reading a publisher's answers,
//! and reading a subscriber's messages. Only what a measurement needs is spoken; none of this is a
//! client for anybody else.

use std::io::{Read, Write};
use std::time::Duration;

use client::{Line, OutputBuffer};
use serde::Serialize;

use crate::error::BenchError;
use crate::stamp::Stamp;

pub mod jetstream;
pub mod mqtt;
pub mod nats;
pub mod nsq;

/// Longest control line that the generator accepts; NATS's INFO line is the long one.
const MAX_LINE_BYTES: usize = 64 << 10;
/// How long a broker may take to answer a greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Digits of a publisher's number in a template: enough for every `u32`.
const PUBLISHER_DIGITS: usize = 10;

/// The language that a broker under test speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "protocol", rename_all = "lowercase")]
pub enum Protocol {
    /// NSQ V2, with or without SRTM's cumulative acknowledgements.
    Nsq(nsq::Nsq),
    /// NATS core: no acknowledgement at all.
    Nats(nats::Nats),
    /// NATS JetStream: an acknowledgement per message once it is stored.
    JetStream(jetstream::JetStream),
    /// MQTT 3.1.1 with QoS 0 or 1.
    Mqtt(mqtt::Mqtt),
}

/// A publisher's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Messages.
    pub messages: u32,
    /// Body of each.
    pub body_bytes: usize,
    /// One MPUB instead of several PUBs (NSQ only).
    pub mpub: bool,
}

/// The answers to a publisher.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Replies {
    /// Bytes that were whole answers.
    pub consumed: usize,
    /// Commands or messages acknowledged one by one.
    pub acknowledged: u64,
    /// Messages acknowledged since the connection began, when the broker counts for us.
    pub acknowledged_total: Option<u64>,
}

/// A message as the subscriber got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The message.
    pub body: &'a [u8],
    /// The broker's stamp in nanoseconds since the Unix epoch; 0 when the protocol has none.
    pub timestamp_ns: i64,
}

impl Protocol {
    /// Greets the broker as the publisher of this number. The stream is blocking; nothing is left unread on it.
    ///
    /// # Errors
    /// When the broker refuses or is silent.
    pub fn greet_as_publisher(&self, stream: &mut Line, publisher: u32) -> Result<(), BenchError> {
        be_patient(stream)?;
        match self {
            Self::Nsq(nsq) => nsq.greet_as_publisher(stream),
            Self::Nats(nats) => nats.greet_as_publisher(stream),
            Self::JetStream(jetstream) => jetstream.greet_as_publisher(stream, publisher),
            Self::Mqtt(mqtt) => mqtt.greet_as_publisher(stream),
        }
    }

    /// Greets the broker as the subscriber and asks for messages.
    ///
    /// # Errors
    /// When the broker refuses or is silent.
    pub fn greet_as_subscriber(&self, stream: &mut Line) -> Result<(), BenchError> {
        be_patient(stream)?;
        match self {
            Self::Nsq(nsq) => nsq.greet_as_subscriber(stream),
            Self::Nats(nats) => nats.greet_as_subscriber(stream),
            Self::JetStream(jetstream) => jetstream.greet_as_subscriber(stream),
            Self::Mqtt(mqtt) => mqtt.greet_as_subscriber(stream),
        }
    }

    /// What a broker is told of the subscriber's output.
    pub fn subscriber_buffer(&self) -> OutputBuffer {
        match self {
            Self::Nsq(nsq) if nsq.unbuffered => OutputBuffer::NONE,
            _ => OutputBuffer::default(),
        }
    }

    /// The bytes that publish one batch.
    pub fn template(&self, batch: &Batch) -> Template {
        match self {
            Self::Nsq(nsq) => nsq.template(batch),
            Self::Nats(nats) => nats.template(batch),
            Self::JetStream(jetstream) => jetstream.template(batch),
            Self::Mqtt(mqtt) => mqtt.template(batch),
        }
    }

    /// Reads the whole answers at the start of `bytes`; what the broker wants answered goes to `answers`.
    ///
    /// # Errors
    /// When the broker reports an error or breaks its protocol.
    pub fn read_replies(&self, bytes: &[u8], answers: &mut Vec<u8>) -> Result<Replies, BenchError> {
        match self {
            Self::Nsq(_) => nsq::read_replies(bytes, answers),
            Self::Nats(_) => nats::read_replies(bytes, answers),
            Self::JetStream(_) => jetstream::read_replies(bytes, answers),
            Self::Mqtt(_) => mqtt::read_replies(bytes),
        }
    }

    /// Hands the whole messages at the start of `bytes` to `on_message`, appends their acknowledgements to `answers`
    /// and returns the number of bytes used.
    ///
    /// # Errors
    /// When the broker reports an error or breaks its protocol.
    pub fn read_messages(
        &self,
        bytes: &[u8],
        answers: &mut Vec<u8>,
        on_message: &mut impl FnMut(Delivery<'_>),
    ) -> Result<usize, BenchError> {
        match self {
            Self::Nsq(_) => nsq::read_messages(bytes, answers, on_message),
            Self::Nats(_) | Self::JetStream(_) => nats::read_messages(bytes, answers, on_message),
            Self::Mqtt(_) => mqtt::read_messages(bytes, answers, on_message),
        }
    }
}

/// The bytes of a publish command for one batch, built once; before each send only the stamps change.
#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    body_offsets: Vec<usize>,
    packet_id_offsets: Vec<usize>,
    publisher_offsets: Vec<usize>,
}

impl Template {
    /// An empty template.
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            body_offsets: Vec::new(),
            packet_id_offsets: Vec::new(),
            publisher_offsets: Vec::new(),
        }
    }

    /// Appends bytes that stay as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a message body.
    pub fn put_body(&mut self, body_bytes: usize) {
        self.body_offsets.push(self.bytes.len());
        self.bytes.resize(self.bytes.len() + body_bytes, b'x');
    }

    /// Appends an MQTT packet identifier.
    pub fn put_packet_id(&mut self) {
        self.packet_id_offsets.push(self.bytes.len());
        self.bytes.extend_from_slice(&[0, 0]);
    }

    /// Appends the publisher's number in ten decimal digits.
    pub fn put_publisher(&mut self) {
        self.publisher_offsets.push(self.bytes.len());
        self.bytes.extend_from_slice(&[b'0'; PUBLISHER_DIGITS]);
    }

    /// Messages in the batch.
    pub fn messages(&self) -> u64 {
        self.body_offsets.len() as u64
    }

    /// Writes the stamps: `first` is that of the first message, the others count on from it.
    #[inline]
    pub fn stamp(&mut self, first: Stamp) -> &[u8] {
        let mut stamp = first;
        for offset in &self.body_offsets {
            stamp.write_to(&mut self.bytes[*offset..]);
            stamp.sequence += 1;
        }
        for (sequence, offset) in (first.sequence..).zip(&self.packet_id_offsets) {
            // 1 to 65535: zero is not a valid identifier.
            let packet_id = (sequence % 65_535) as u16 + 1;
            self.bytes[*offset..*offset + 2].copy_from_slice(&packet_id.to_be_bytes());
        }
        for offset in &self.publisher_offsets {
            let mut rest = first.publisher;
            for digit in self.bytes[*offset..*offset + PUBLISHER_DIGITS]
                .iter_mut()
                .rev()
            {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        &self.bytes
    }
}

impl Default for Template {
    fn default() -> Self {
        Self::new()
    }
}

/// Lets reads wait for as long as an answer may take, for greetings.
fn be_patient(stream: &Line) -> Result<(), BenchError> {
    let patient = stream.socket().set_read_timeout(Some(GREETING_TIMEOUT));
    patient.map_err(BenchError::io("read timeout"))
}

/// Writes everything, for greetings.
fn write_all(stream: &mut Line, bytes: &[u8]) -> Result<(), BenchError> {
    stream
        .write_all(bytes)
        .map_err(BenchError::io("greet the broker"))
}

/// Reads exactly `N` bytes, for greetings.
fn read_array<const N: usize>(stream: &mut Line) -> Result<[u8; N], BenchError> {
    let mut bytes = [0; N];
    stream
        .read_exact(&mut bytes)
        .map_err(BenchError::io("read the broker's greeting"))?;
    Ok(bytes)
}

/// Reads exactly `length` bytes, for greetings.
fn read_bytes(stream: &mut Line, length: usize) -> Result<Vec<u8>, BenchError> {
    let mut bytes = vec![0; length];
    stream
        .read_exact(&mut bytes)
        .map_err(BenchError::io("read the broker's greeting"))?;
    Ok(bytes)
}

/// Reads up to a newline that ends within `limit` bytes, for greetings.
fn read_line(stream: &mut Line, limit: usize) -> Result<Vec<u8>, BenchError> {
    let mut line = Vec::new();
    while line.len() < limit {
        let [byte] = read_array(stream)?;
        if byte == b'\n' {
            return Ok(line);
        }
        line.push(byte);
    }
    Err(BenchError::protocol(
        "greeting",
        format!("no newline in {limit} bytes"),
    ))
}

#[cfg(test)]
mod tests;
