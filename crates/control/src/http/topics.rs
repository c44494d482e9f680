//! `/v1/topics`: contracts.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http::{Refusal, rendered};

use super::Shared;
use super::body::{BODY_MAX_BYTES, Body};
use crate::handle::Command;
use crate::view::{PlacementView, TopicSpec, TopicView, TopicViews};

const FORM: &str = r#"{"limit":{"rate":1000,"burst":50},"slo":{"percentile":99,"latency_us":1000},"cpu_share":0.2}"#;

#[cfg_attr(test, utoipa::path(get, path = "/v1/topics", responses((status = 200, body = TopicViews))))]
pub(super) async fn list(State(service): Shared) -> Result<Response, Refusal> {
    let topics = service.handle.topics().await?;
    Ok(rendered(|| Json(TopicViews { topics }).into_response()).await)
}

#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}", params(("topic" = String, Path)),
    responses((status = 200, body = TopicView), (status = 404, description = "no such topic"))))]
pub(super) async fn show(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<TopicView>, Refusal> {
    Ok(Json(
        service
            .handle
            .ask(|reply| Command::Topic(topic, reply))
            .await?,
    ))
}

/// Declares a topic; answers when all brokers that are up have the contract in force, or after two seconds.
#[cfg_attr(test, utoipa::path(put, path = "/v1/topics/{topic}", params(("topic" = String, Path)), request_body = TopicSpec,
    responses((status = 200, body = TopicView), (status = 400, description = "refused; the former contract stays"),
        (status = 409, description = "shares of all topics would exceed the whole; the former contract stays"),
        (status = 507, description = "it cannot be kept just now: nothing was changed, and nothing will be"))))]
pub(super) async fn put(
    State(service): Shared,
    Path(topic): Path<String>,
    body: Body<BODY_MAX_BYTES>,
) -> Result<Json<TopicView>, Refusal> {
    let spec: TopicSpec = body.read(FORM)?;
    let put = |reply| Command::PutTopic(topic, spec, reply);
    Ok(Json(service.handle.ask(put).await?))
}

#[cfg_attr(test, utoipa::path(delete, path = "/v1/topics/{topic}", params(("topic" = String, Path)),
    responses((status = 204, description = "removed, with its publishers"), (status = 404, description = "no such topic"))))]
pub(super) async fn remove(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<StatusCode, Refusal> {
    service
        .handle
        .ask(|reply| Command::DeleteTopic(topic, reply))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where a topic is; for one that does not exist, where a first publisher would be sent.
#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}/placement", params(("topic" = String, Path)),
    responses((status = 200, body = PlacementView), (status = 400, description = "not a topic name"))))]
pub(super) async fn placement(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<PlacementView>, Refusal> {
    Ok(Json(service.handle.placement(&topic).await?))
}
