//! MQTT 3.1.1 with QoS 0 (no acknowledgement) or QoS 1 (PUBACK per message on both sides, which compares with NSQ's
//! OK per PUB and FIN per message).

use client::Line;
use serde::Serialize;

use super::{Batch, Delivery, Replies, Template, read_array, write_all};
use crate::error::BenchError;

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const PINGRESP: u8 = 0xD0;

/// Options of MQTT connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mqtt {
    /// Topic that is published to and subscribed.
    pub topic: String,
    /// Whether messages are acknowledged (QoS 1) or not (QoS 0).
    pub acknowledged: bool,
}

impl Mqtt {
    pub(super) fn greet_as_publisher(&self, stream: &mut Line) -> Result<(), BenchError> {
        // Protocol name and level, clean session, keep-alive off, empty client id: the broker makes one up.
        let variable = b"\x00\x04MQTT\x04\x02\x00\x00\x00\x00";
        let mut bytes = vec![CONNECT, variable.len() as u8];
        bytes.extend_from_slice(variable);
        write_all(stream, &bytes)?;
        match read_array(stream)? {
            [CONNACK, 2, _, 0] => Ok(()),
            answer => Err(BenchError::protocol(
                "mqtt",
                format!("CONNECT was answered by {answer:02x?}"),
            )),
        }
    }

    pub(super) fn greet_as_subscriber(&self, stream: &mut Line) -> Result<(), BenchError> {
        self.greet_as_publisher(stream)?;
        let mut bytes = vec![SUBSCRIBE];
        put_length(&mut bytes, 2 + 2 + self.topic.len() + 1);
        bytes.extend_from_slice(&1_u16.to_be_bytes());
        put_text(&mut bytes, &self.topic);
        bytes.push(u8::from(self.acknowledged));
        write_all(stream, &bytes)?;
        let granted = u8::from(self.acknowledged);
        match read_array(stream)? {
            [SUBACK, 3, 0, 1, qos] if qos == granted => Ok(()),
            answer => Err(BenchError::protocol(
                "mqtt",
                format!("SUBSCRIBE was answered by {answer:02x?}"),
            )),
        }
    }

    pub(super) fn template(&self, batch: &Batch) -> Template {
        let mut template = Template::new();
        let packet_id_bytes = if self.acknowledged { 2 } else { 0 };
        for _ in 0..batch.messages {
            let mut head = vec![PUBLISH | (u8::from(self.acknowledged) << 1)];
            put_length(
                &mut head,
                2 + self.topic.len() + packet_id_bytes + batch.body_bytes,
            );
            put_text(&mut head, &self.topic);
            template.put(&head);
            if self.acknowledged {
                template.put_packet_id();
            }
            template.put_body(batch.body_bytes);
        }
        template
    }
}

pub(super) fn read_replies(bytes: &[u8]) -> Result<Replies, BenchError> {
    let mut replies = Replies::default();
    while let Some(packet) = next_packet(&bytes[replies.consumed..])? {
        match packet.kind & 0xF0 {
            PUBACK => replies.acknowledged += 1,
            PINGRESP => {}
            _ => return Err(unexpected(&packet)),
        }
        replies.consumed += packet.consumed;
    }
    Ok(replies)
}

pub(super) fn read_messages(
    bytes: &[u8],
    answers: &mut Vec<u8>,
    on_message: &mut impl FnMut(Delivery<'_>),
) -> Result<usize, BenchError> {
    let mut used = 0;
    while let Some(packet) = next_packet(&bytes[used..])? {
        if packet.kind & 0xF0 != PUBLISH {
            return Err(unexpected(&packet));
        }
        let (topic_bytes, rest) = packet
            .rest
            .split_first_chunk()
            .ok_or_else(|| unexpected(&packet))?;
        let mut body = rest
            .get(usize::from(u16::from_be_bytes(*topic_bytes))..)
            .ok_or_else(|| unexpected(&packet))?;
        if packet.kind & 0x06 != 0 {
            let (packet_id, rest) = body
                .split_first_chunk::<2>()
                .ok_or_else(|| unexpected(&packet))?;
            answers.extend_from_slice(&[PUBACK, 2, packet_id[0], packet_id[1]]);
            body = rest;
        }
        on_message(Delivery {
            body,
            timestamp_ns: 0,
        });
        used += packet.consumed;
    }
    Ok(used)
}

struct Packet<'a> {
    kind: u8,
    rest: &'a [u8],
    consumed: usize,
}

/// The packet at the start of `bytes`; `None` while it is incomplete.
fn next_packet(bytes: &[u8]) -> Result<Option<Packet<'_>>, BenchError> {
    let Some((kind, after_kind)) = bytes.split_first() else {
        return Ok(None);
    };
    let mut length = 0_usize;
    for (index, byte) in after_kind.iter().enumerate() {
        if index == 4 {
            return Err(BenchError::protocol(
                "mqtt",
                "remaining length of more than 4 bytes",
            ));
        }
        length |= usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            let start = 2 + index;
            let packet = bytes.get(start..start + length);
            return Ok(packet.map(|rest| Packet {
                kind: *kind,
                rest,
                consumed: start + length,
            }));
        }
    }
    Ok(None)
}

/// Appends a remaining length: 7 bits a byte, low ones first.
fn put_length(out: &mut Vec<u8>, mut length: usize) {
    loop {
        let low = (length & 0x7F) as u8;
        length >>= 7;
        if length == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn unexpected(packet: &Packet<'_>) -> BenchError {
    BenchError::protocol(
        "mqtt",
        format!(
            "unexpected packet {:#04x} of {} bytes",
            packet.kind,
            packet.rest.len()
        ),
    )
}
