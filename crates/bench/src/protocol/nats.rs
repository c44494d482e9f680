//! NATS core protocol with `verbose: false`: a publisher gets no answer to a PUB, a subscriber acknowledges nothing.

use client::Line;
use serde::Serialize;

use super::{Batch, Delivery, MAX_LINE_BYTES, Replies, Template, read_line, write_all};
use crate::error::BenchError;

/// Options of NATS connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nats {
    /// Subject that is published to and subscribed.
    pub subject: String,
}

impl Nats {
    pub(super) fn greet_as_publisher(&self, stream: &mut Line) -> Result<(), BenchError> {
        let info = read_line(stream, MAX_LINE_BYTES)?;
        if !info.starts_with(b"INFO ") {
            return Err(BenchError::protocol("nats", "the greeting is not INFO"));
        }
        write_all(
            stream,
            b"CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"bench\"}\r\nPING\r\n",
        )?;
        wait_for_pong(stream)
    }

    pub(super) fn greet_as_subscriber(&self, stream: &mut Line) -> Result<(), BenchError> {
        self.greet_as_publisher(stream)?;
        write_all(
            stream,
            format!("SUB {} 1\r\nPING\r\n", self.subject).as_bytes(),
        )?;
        wait_for_pong(stream)
    }

    pub(super) fn template(&self, batch: &Batch) -> Template {
        let mut template = Template::new();
        for _ in 0..batch.messages {
            template.put(format!("PUB {} {}\r\n", self.subject, batch.body_bytes).as_bytes());
            template.put_body(batch.body_bytes);
            template.put(b"\r\n");
        }
        template
    }
}

pub(super) fn read_replies(bytes: &[u8], answers: &mut Vec<u8>) -> Result<Replies, BenchError> {
    let mut consumed = 0;
    while let Some(line_bytes) = bytes[consumed..].iter().position(|byte| *byte == b'\n') {
        control_line(&bytes[consumed..consumed + line_bytes], answers)?;
        consumed += line_bytes + 1;
    }
    Ok(Replies {
        consumed,
        ..Replies::default()
    })
}

pub(super) fn read_messages(
    bytes: &[u8],
    answers: &mut Vec<u8>,
    on_message: &mut impl FnMut(Delivery<'_>),
) -> Result<usize, BenchError> {
    let mut used = 0;
    loop {
        let rest = &bytes[used..];
        let Some(line_bytes) = rest.iter().position(|byte| *byte == b'\n') else {
            return Ok(used);
        };
        let line = &rest[..line_bytes];
        if !line.starts_with(b"MSG ") {
            control_line(line, answers)?;
            used += line_bytes + 1;
            continue;
        }
        let body_bytes = last_number(line).ok_or_else(|| {
            BenchError::protocol("nats", String::from_utf8_lossy(line).into_owned())
        })?;
        let body_start = line_bytes + 1;
        // The body is followed by \r\n.
        let Some(body) = rest.get(body_start..body_start + body_bytes + 2) else {
            return Ok(used);
        };
        on_message(Delivery {
            body: &body[..body_bytes],
            timestamp_ns: 0,
        });
        used += body_start + body_bytes + 2;
    }
}

fn control_line(line: &[u8], answers: &mut Vec<u8>) -> Result<(), BenchError> {
    let line = line.trim_ascii_end();
    match line {
        b"PING" => answers.extend_from_slice(b"PONG\r\n"),
        b"PONG" | b"+OK" => {}
        _ if line.starts_with(b"INFO ") => {}
        _ => {
            return Err(BenchError::protocol(
                "nats",
                String::from_utf8_lossy(line).into_owned(),
            ));
        }
    }
    Ok(())
}

pub(super) fn wait_for_pong(stream: &mut Line) -> Result<(), BenchError> {
    let mut answers = Vec::new();
    loop {
        let line = read_line(stream, MAX_LINE_BYTES)?;
        if line.trim_ascii_end() == b"PONG" {
            return write_all(stream, &answers);
        }
        control_line(&line, &mut answers)?;
    }
}

/// The number at the end of a line, which in MSG is the size of the body.
pub(super) fn last_number(line: &[u8]) -> Option<usize> {
    let line = line.trim_ascii_end();
    let start = line.iter().rposition(|byte| *byte == b' ')? + 1;
    std::str::from_utf8(&line[start..])
        .ok()?
        .parse()
        .ok()
        .filter(|size| *size <= 16 << 20)
}
