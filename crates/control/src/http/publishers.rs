//! `/v1/topics/{topic}/publishers`: who publishes, and where.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::Shared;
use super::answer::Failure;
use super::body::{Body, PUBLISHERS_MAX_BYTES};
use crate::handle::Command;
use crate::view::{PublisherList, PublisherView, PublisherViews};

const FORM: &str = r#"{"publishers":[{"id":"s1","rate":10,"batch":1,"group":"g7"}]}"#;

/// Query of `GET /v1/topics/{topic}/publishers/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Name or address of a broker that the publisher could not reach.
    avoid: Option<String>,
}

#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}/publishers", params(("topic" = String, Path)),
    responses((status = 200, body = PublisherViews), (status = 404, description = "no such topic"))))]
pub(super) async fn list(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<PublisherViews>, Failure> {
    let publishers = service
        .handle
        .ask(|reply| Command::Publishers(topic, reply))
        .await?;
    Ok(Json(PublisherViews { publishers }))
}

/// Adds publishers or declares them anew, all or none, and places them.
#[cfg_attr(test, utoipa::path(post, path = "/v1/topics/{topic}/publishers", params(("topic" = String, Path)), request_body = PublisherList,
    responses((status = 200, body = PublisherViews), (status = 400, description = "refused, nothing changed"),
        (status = 507, description = "it cannot be kept just now: nothing was changed, and nothing will be"))))]
pub(super) async fn put(
    State(service): Shared,
    Path(topic): Path<String>,
    body: Body<PUBLISHERS_MAX_BYTES>,
) -> Result<Json<PublisherViews>, Failure> {
    let list: PublisherList = body.read(FORM)?;
    let put = |reply| Command::PutPublishers(topic, list.publishers, reply);
    let publishers = service.handle.ask(put).await?;
    Ok(Json(PublisherViews { publishers }))
}

/// Where a publisher is to publish; `?avoid=BROKER` says that it could not reach that one.
#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}/publishers/{id}",
    params(("topic" = String, Path), ("id" = String, Path), ("avoid" = Option<String>, Query)),
    responses((status = 200, body = PublisherView), (status = 404, description = "no such topic or publisher"))))]
pub(super) async fn show(
    State(service): Shared,
    Path((topic, id)): Path<(String, String)>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<PublisherView>, Failure> {
    let Query(Asked { avoid }) = asked.map_err(|error| Failure::invalid(error.body_text()))?;
    let ask = |reply| Command::Publisher {
        topic,
        id,
        avoid,
        reply,
    };
    Ok(Json(service.handle.ask(ask).await?))
}

#[cfg_attr(test, utoipa::path(delete, path = "/v1/topics/{topic}/publishers/{id}",
    params(("topic" = String, Path), ("id" = String, Path)),
    responses((status = 204, description = "removed"), (status = 404, description = "no such topic or publisher"))))]
pub(super) async fn remove(
    State(service): Shared,
    Path((topic, id)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    service
        .handle
        .ask(|reply| Command::DeletePublisher(topic, id, reply))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
