//! `POST /v1/probe`: the controller asks who serves this port, over the path by which other brokers
//! hand queues over.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::nsq::Failure;
use link::{Door, QUESTION_BYTES};

use super::Shared;
use crate::agent::answer_at;

/// Answers who knows the cluster's key.
pub(super) async fn answer(State(service): Shared, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let room = &service.room;
    let question = room
        .read(&parts.headers, body, QUESTION_BYTES, "BODY_TOO_BIG")
        .await?;
    let answer = answer_at(
        Door::Http,
        &service.handle.config,
        &service.handle.link,
        &question.bytes,
    );
    let answer = answer
        .ok_or_else(|| Failure::new(403, "only the controller of this broker asks who it is"))?;
    Ok(Response::new(Body::from(answer)))
}
