//! `POST /v1/handover?topic=T[&channel=C]`: takes messages from a broker that is being drained.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use http::Query;
use http::nsq::{Failure, text};
use topics::{NotTaken, QueueName};
use wire::TopicName;
use wire::handover::{HANDED_HEAD_BYTES, HANDOVER_HEAD_BYTES, HANDOVER_MESSAGES_MAX};

use super::{Service, Shared, publish};
use crate::handover::read_batch;

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
    let batch = read_batch(&body.bytes, config.max_msg_size, config.max_req_timeout);
    let batch = batch.map_err(|error| Failure::new(400, error.to_string()))?;
    let count = batch.messages.len();
    match service.handle.queues().take_over(queue, batch).await? {
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
