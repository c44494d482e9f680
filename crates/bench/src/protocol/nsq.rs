//! NSQ V2 as publisher and as subscriber; the bytes are `wire`'s.

use client::Line;
use serde::Serialize;
use serde_json::json;
use wire::{Frame, FrameDecoded, command};

use super::{Batch, Delivery, Replies, Template, read_array, write_all};
use crate::error::BenchError;

/// Largest frame that the generator accepts.
const MAX_FRAME_BYTES: u32 = 16 << 20;
/// Messages that the subscriber lets the broker send ahead: nsqd's default limit.
const READY_MESSAGES: u32 = 2500;

/// How a publisher is told that its messages were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledgement {
    /// `OK` for every PUB, as stock clients get it.
    Each,
    /// SRTM's extension: a count of accepted messages, now and then.
    Cumulative,
}

/// Options of NSQ connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nsq {
    /// Topic that is published to.
    pub topic: String,
    /// Channel that the subscriber reads.
    pub channel: String,
    /// How publishers are answered.
    pub acknowledgement: Acknowledgement,
    /// Whether the subscriber switches the broker's output buffer off (nsqd waits up to 250 ms to fill it).
    pub unbuffered: bool,
}

impl Nsq {
    pub(super) fn greet_as_publisher(&self, stream: &mut Line) -> Result<(), BenchError> {
        let mut request = json!({
            "client_id": "bench-publisher", "feature_negotiation": true, "heartbeat_interval": -1,
        });
        if self.acknowledgement == Acknowledgement::Cumulative {
            request["srtm"] = json!({ "ack_every_messages": 64, "ack_interval_ms": 1000 });
        }
        let answer = identify(stream, &request)?;
        let granted = serde_json::from_slice::<serde_json::Value>(&answer)
            .is_ok_and(|answer| answer["srtm"]["ack_every_messages"].is_u64());
        if self.acknowledgement == Acknowledgement::Cumulative && !granted {
            return Err(BenchError::protocol(
                "nsq",
                "the broker does not offer cumulative acknowledgements",
            ));
        }
        Ok(())
    }

    pub(super) fn greet_as_subscriber(&self, stream: &mut Line) -> Result<(), BenchError> {
        // nsqd refuses SUB without heartbeats, so they are only made rare.
        let mut request = json!({
            "client_id": "bench-subscriber", "feature_negotiation": true, "heartbeat_interval": 60_000,
        });
        if self.unbuffered && !stream.is_encrypted() {
            request["output_buffer_size"] = json!(-1);
            request["output_buffer_timeout"] = json!(-1);
        }
        identify(stream, &request)?;
        let mut bytes = Vec::new();
        command::put_sub(&mut bytes, &self.topic, &self.channel);
        write_all(stream, &bytes)?;
        let answer = read_response(stream)?;
        if answer != b"OK" {
            return Err(BenchError::protocol(
                "nsq",
                format!("SUB: {}", String::from_utf8_lossy(&answer)),
            ));
        }
        bytes.clear();
        command::put_rdy(&mut bytes, READY_MESSAGES);
        write_all(stream, &bytes)
    }

    pub(super) fn template(&self, batch: &Batch) -> Template {
        let mut template = Template::new();
        let messages = batch.messages;
        let body_bytes = batch.body_bytes as u32;
        if batch.mpub {
            template.put(format!("MPUB {}\n", self.topic).as_bytes());
            template.put(&(4 + messages * (4 + body_bytes)).to_be_bytes());
            template.put(&messages.to_be_bytes());
        }
        for _ in 0..messages {
            if !batch.mpub {
                template.put(format!("PUB {}\n", self.topic).as_bytes());
            }
            template.put(&body_bytes.to_be_bytes());
            template.put_body(batch.body_bytes);
        }
        template
    }
}

pub(super) fn read_replies(mut bytes: &[u8], answers: &mut Vec<u8>) -> Result<Replies, BenchError> {
    let mut replies = Replies::default();
    while let Some((frame, consumed)) = next_frame(bytes)? {
        match frame {
            Frame::Response(b"OK") => replies.acknowledged += 1,
            Frame::Response(b"_heartbeat_") => command::put_nop(answers),
            Frame::Ack { total_messages } => replies.acknowledged_total = Some(total_messages),
            other => return Err(unexpected(other)),
        }
        replies.consumed += consumed;
        bytes = &bytes[consumed..];
    }
    Ok(replies)
}

pub(super) fn read_messages(
    bytes: &[u8],
    answers: &mut Vec<u8>,
    on_message: &mut impl FnMut(Delivery<'_>),
) -> Result<usize, BenchError> {
    let mut used = 0;
    while let Some((frame, consumed)) = next_frame(&bytes[used..])? {
        match frame {
            Frame::Message {
                timestamp_ns,
                id,
                body,
                ..
            } => {
                on_message(Delivery { body, timestamp_ns });
                command::put_fin(answers, id);
            }
            Frame::Response(b"_heartbeat_") => command::put_nop(answers),
            other => return Err(unexpected(other)),
        }
        used += consumed;
    }
    Ok(used)
}

/// Sends the magic and IDENTIFY, and returns the answer.
fn identify(stream: &mut Line, request: &serde_json::Value) -> Result<Vec<u8>, BenchError> {
    let mut bytes = wire::MAGIC_V2.to_vec();
    command::put_identify(&mut bytes, request.to_string().as_bytes());
    write_all(stream, &bytes)?;
    read_response(stream)
}

fn read_response(stream: &mut Line) -> Result<Vec<u8>, BenchError> {
    use std::io::Read;
    let size: [u8; 4] = read_array(stream)?;
    let body_bytes = u32::from_be_bytes(size);
    if !(4..=MAX_FRAME_BYTES).contains(&body_bytes) {
        return Err(BenchError::protocol(
            "nsq",
            format!("frame of {body_bytes} bytes"),
        ));
    }
    let mut bytes = size.to_vec();
    bytes.resize(4 + body_bytes as usize, 0);
    stream
        .read_exact(&mut bytes[4..])
        .map_err(BenchError::io("read the broker's greeting"))?;
    match next_frame(&bytes)? {
        Some((Frame::Response(body), _)) => Ok(body.to_vec()),
        Some((other, _)) => Err(unexpected(other)),
        None => Err(BenchError::protocol("nsq", "incomplete frame")),
    }
}

#[inline]
fn next_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, BenchError> {
    match wire::decode_frame(bytes, MAX_FRAME_BYTES) {
        Ok(FrameDecoded::Complete { frame, consumed }) => Ok(Some((frame, consumed))),
        Ok(FrameDecoded::Incomplete { .. }) => Ok(None),
        Err(error) => Err(BenchError::protocol("nsq", error.to_string())),
    }
}

fn unexpected(frame: Frame<'_>) -> BenchError {
    let text = match frame {
        Frame::Response(body) => format!("unexpected response {}", String::from_utf8_lossy(body)),
        Frame::Error(body) => String::from_utf8_lossy(body).into_owned(),
        Frame::Message { .. } => "message on a publisher's connection".to_owned(),
        Frame::Ack { .. } => "acknowledgement on the subscriber's connection".to_owned(),
        Frame::Migrate { .. } | Frame::Throttled { .. } => {
            "a notice that only publishers with a declaration get".to_owned()
        }
    };
    BenchError::protocol("nsq", text)
}
