//! `POST /v1/handover?topic=T[&channel=C]`: messages of a broker that is drained.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use http::Query;
use http::nsq::{Failure, text};
use topics::{Batch, Handed, NotTaken, QueueName};
use wire::TopicName;
use wire::handover::{
    HANDED_HEAD_BYTES, HANDOVER_HEAD_BYTES, HANDOVER_MESSAGES_MAX, decode_handover,
};

use super::{Service, Shared, publish};

/// Takes a batch that a broker of the same cluster hands over.
pub(super) async fn take(State(service): Shared, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    admit(&service, &parts.headers)?;
    let queue = queue(&Query::of(&parts.uri)?)?;
    let config = service.handle.config();
    let heads = HANDOVER_HEAD_BYTES + HANDOVER_MESSAGES_MAX * HANDED_HEAD_BYTES;
    let max_bytes = config.max_body_size.max(config.max_msg_size) as usize + heads;
    let room = &service.room;
    let body = room
        .read(&parts.headers, body, max_bytes, "BODY_TOO_BIG")
        .await?;
    let handover = decode_handover(&body.bytes, config.max_msg_size)
        .map_err(|error| Failure::new(400, error.to_string()))?;
    let longest = config.max_req_timeout;
    let messages = handover.messages.iter().map(|message| Handed {
        published_ns: message.published_ns,
        delay: Duration::from_micros(message.delay_us).min(longest),
        attempts: message.attempts,
        has_paid: message.has_paid,
        body: body.bytes.slice_ref(message.body),
    });
    let messages: Vec<Handed> = messages.collect();
    let count = messages.len();
    let batch = Batch {
        stream: handover.stream,
        number: handover.number,
        messages,
    };
    match service.handle.take_over(queue, batch).await? {
        Ok(()) => {
            service.handle.handing.note_taken(count);
            Ok(text("OK"))
        }
        Err(NotTaken::Full(messages)) => {
            let why = NotTaken::Full(messages).to_string();
            Err(Failure::new(503, why))
        }
        Err(why) => Err(Failure::new(429, why.to_string())),
    }
}

/// Only brokers that know the cluster's pass: these messages pass no limit.
fn admit(service: &Service, headers: &HeaderMap) -> Result<(), Failure> {
    let said = headers.get(header::AUTHORIZATION);
    let said = said.and_then(|value| value.to_str().ok());
    let pass = said.and_then(|value| value.strip_prefix("Bearer "));
    match pass.is_some_and(|pass| service.handle.handing.admits(pass)) {
        true => Ok(()),
        false => Err(Failure::new(
            403,
            "only brokers of one controller hand messages over",
        )),
    }
}

fn queue(query: &Query) -> Result<QueueName, Failure> {
    let topic: TopicName = publish::topic(query)?;
    let channel = query.get("channel").map(str::parse).transpose();
    let channel = channel.map_err(|_| Failure::new(400, "INVALID_ARG_CHANNEL"))?;
    Ok(QueueName { topic, channel })
}
