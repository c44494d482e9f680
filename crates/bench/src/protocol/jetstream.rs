//! NATS JetStream: messages that a stream keeps in files, published with a reply subject each, on which the server
//! says that the message is stored. Every publisher hears its own answers only.
//!
//! The subscriber makes the stream and a consumer that pushes to it without acknowledgements, so nats-server does the
//! least that it can do with stored messages. Requests and answers: docs.nats.io, "JetStream wire API".

use client::Line;
use serde::Serialize;

use super::nats::{self, Nats};
use super::{Batch, Delivery, MAX_LINE_BYTES, Replies, Template, read_bytes, read_line, write_all};
use crate::error::BenchError;

/// Where answers to requests of the subscriber go.
const SETUP_REPLIES: &str = "setup";
/// Where the consumer pushes to.
const DELIVERIES: &str = "deliveries";

/// Options of connections whose messages are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JetStream {
    /// Subject that is published to; the stream has the same name.
    pub subject: String,
}

impl JetStream {
    pub(super) fn greet_as_publisher(
        &self,
        stream: &mut Line,
        publisher: u32,
    ) -> Result<(), BenchError> {
        self.core().greet_as_publisher(stream)?;
        write_all(
            stream,
            format!("SUB stored.{publisher:010} 1\r\nPING\r\n").as_bytes(),
        )?;
        nats::wait_for_pong(stream)
    }

    pub(super) fn greet_as_subscriber(&self, stream: &mut Line) -> Result<(), BenchError> {
        self.core().greet_as_publisher(stream)?;
        write_all(
            stream,
            format!("SUB {SETUP_REPLIES} 1\r\nSUB {DELIVERIES} 2\r\n").as_bytes(),
        )?;
        let name = &self.subject;
        request(
            stream,
            &format!("STREAM.CREATE.{name}"),
            &format!("{{\"name\":\"{name}\",\"subjects\":[\"{name}\"],\"storage\":\"file\"}}"),
        )?;
        request(
            stream,
            &format!("CONSUMER.CREATE.{name}"),
            &format!(
                "{{\"stream_name\":\"{name}\",\"config\":{{\"deliver_subject\":\"{DELIVERIES}\",\"ack_policy\":\"none\",\"deliver_policy\":\"all\"}}}}"
            ),
        )
    }

    pub(super) fn template(&self, batch: &Batch) -> Template {
        let mut template = Template::new();
        for _ in 0..batch.messages {
            template.put(format!("PUB {} stored.", self.subject).as_bytes());
            template.put_publisher();
            template.put(format!(" {}\r\n", batch.body_bytes).as_bytes());
            template.put_body(batch.body_bytes);
            template.put(b"\r\n");
        }
        template
    }

    fn core(&self) -> Nats {
        Nats {
            subject: self.subject.clone(),
        }
    }
}

/// Each answer says that one message is stored, or why it is not.
pub(super) fn read_replies(bytes: &[u8], answers: &mut Vec<u8>) -> Result<Replies, BenchError> {
    let mut replies = Replies::default();
    let mut refusal = None;
    replies.consumed = nats::read_messages(bytes, answers, &mut |answer: Delivery<'_>| {
        replies.acknowledged += 1;
        if says_error(answer.body) {
            refusal.get_or_insert_with(|| String::from_utf8_lossy(answer.body).into_owned());
        }
    })?;
    refusal.map_or(Ok(replies), |text| {
        Err(BenchError::protocol("jetstream", text))
    })
}

/// Asks for something and reads the answer, before any message may come.
fn request(stream: &mut Line, what: &str, body: &str) -> Result<(), BenchError> {
    write_all(
        stream,
        format!(
            "PUB $JS.API.{what} {SETUP_REPLIES} {}\r\n{body}\r\n",
            body.len()
        )
        .as_bytes(),
    )?;
    let line = read_line(stream, MAX_LINE_BYTES)?;
    let text = || BenchError::protocol("jetstream", String::from_utf8_lossy(&line).into_owned());
    let body_bytes = line
        .starts_with(b"MSG ")
        .then(|| nats::last_number(&line))
        .flatten()
        .ok_or_else(text)?;
    let answer = read_bytes(stream, body_bytes + 2)?;
    if says_error(&answer) {
        let text = String::from_utf8_lossy(&answer).trim().to_owned();
        return Err(BenchError::protocol("jetstream", text));
    }
    Ok(())
}

fn says_error(answer: &[u8]) -> bool {
    let name = b"\"error\"";
    answer.windows(name.len()).any(|part| part == name)
}
