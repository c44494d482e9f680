//! `/v1/names`: which number stands for a topic on Tempo's data path.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use super::Shared;
use super::answer::Failure;
use crate::handle::Command;
use crate::view::{NameView, NameViews};

/// Query of `GET /v1/names`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// The last name of the answer before.
    after: Option<String>,
}

/// Names with identifiers, in order of name; `?after=NAME` those behind it only.
#[cfg_attr(test, utoipa::path(get, path = "/v1/names", params(("after" = Option<String>, Query)),
    responses((status = 200, body = NameViews))))]
pub(super) async fn list(
    State(service): Shared,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<NameViews>, Failure> {
    let Query(Asked { after }) = asked.map_err(|error| Failure::invalid(error.body_text()))?;
    let names = |reply| Command::Names(after, reply);
    Ok(Json(service.handle.ask(names).await?))
}

#[cfg_attr(test, utoipa::path(get, path = "/v1/names/{topic}", params(("topic" = String, Path)),
    responses((status = 200, body = NameView), (status = 404, description = "it has no identifier"))))]
pub(super) async fn show(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<NameView>, Failure> {
    let name = |reply| Command::Name(topic, reply);
    Ok(Json(service.handle.ask(name).await?))
}

/// Gives a topic's name an identifier, or tells the one that it has; the topic need not exist.
#[cfg_attr(test, utoipa::path(put, path = "/v1/names/{topic}", params(("topic" = String, Path)),
    responses((status = 200, body = NameView), (status = 400, description = "not a topic name"),
        (status = 507, description = "it cannot be kept just now: nothing was changed, and nothing will be"),
        (status = 503, description = "no identifiers are left"))))]
pub(super) async fn put(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<NameView>, Failure> {
    let put = |reply| Command::PutName(topic, reply);
    Ok(Json(service.handle.ask(put).await?))
}
