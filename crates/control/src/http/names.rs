//! `/v1/names`: the number of each topic on Tempo's data path.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use http::{Query, Refusal};

use super::Shared;
use crate::handle::Command;
use crate::view::{NameView, NameViews};

/// Names with identifiers, in order of name; `?after=NAME` those behind it only.
#[cfg_attr(test, utoipa::path(get, path = "/v1/names", params(("after" = Option<String>, Query)),
    responses((status = 200, body = NameViews))))]
pub(super) async fn list(State(service): Shared, uri: Uri) -> Result<Json<NameViews>, Refusal> {
    let query = Query::of(&uri)?.only(&["after"])?;
    let after = query.get("after").map(str::to_owned);
    let names = service
        .handle
        .look(move |core, _| Ok(core.name_views(after.as_deref())));
    Ok(Json(names.await?))
}

#[cfg_attr(test, utoipa::path(get, path = "/v1/names/{topic}", params(("topic" = String, Path)),
    responses((status = 200, body = NameView), (status = 404, description = "it has no identifier"))))]
pub(super) async fn show(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<NameView>, Refusal> {
    let name = service.handle.look(move |core, _| core.name_view(&topic));
    Ok(Json(name.await?))
}

/// Gives a topic's name an identifier, or tells the one that it has; the topic need not exist.
#[cfg_attr(test, utoipa::path(put, path = "/v1/names/{topic}", params(("topic" = String, Path)),
    responses((status = 200, body = NameView), (status = 400, description = "not a topic name"),
        (status = 507, description = "it cannot be kept just now: nothing was changed, and nothing will be"),
        (status = 503, description = "no identifiers are left"))))]
pub(super) async fn put(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<NameView>, Refusal> {
    let put = |reply| Command::PutName(topic, reply);
    Ok(Json(service.handle.ask(put).await?))
}
