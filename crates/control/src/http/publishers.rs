//! `/v1/topics/{topic}/publishers`: who publishes, and where.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::Uri;
use http::{Query, Refusal};

use super::Shared;
use super::body::{Body, PUBLISHERS_MAX_BYTES};
use crate::handle::Command;
use crate::view::{PublisherList, PublisherView, PublisherViews};

const FORM: &str = r#"{"publishers":[{"id":"s1","rate":10,"batch":1,"group":"g7"}]}"#;

#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}/publishers", params(("topic" = String, Path)),
    responses((status = 200, body = PublisherViews), (status = 404, description = "no such topic"))))]
pub(super) async fn list(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<PublisherViews>, Refusal> {
    let publishers = service.handle.publishers(&topic).await?;
    Ok(Json(PublisherViews { publishers }))
}

/// Adds publishers or declares them anew, and places them.
#[cfg_attr(test, utoipa::path(post, path = "/v1/topics/{topic}/publishers", params(("topic" = String, Path)), request_body = PublisherList,
    responses((status = 200, body = PublisherViews), (status = 400, description = "refused, nothing changed"),
        (status = 507, description = "it cannot be kept just now; of a long list, the text says how many publishers are declared; no others will be"))))]
pub(super) async fn put(
    State(service): Shared,
    Path(topic): Path<String>,
    body: Body<PUBLISHERS_MAX_BYTES>,
) -> Result<Json<PublisherViews>, Refusal> {
    let list: PublisherList = body.read(FORM)?;
    let publishers = service.handle.declare(&topic, list.publishers).await?;
    Ok(Json(PublisherViews { publishers }))
}

/// Where a publisher is to publish; `?avoid=BROKER` says that it could not reach that one.
#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}/publishers/{id}",
    params(("topic" = String, Path), ("id" = String, Path), ("avoid" = Option<String>, Query)),
    responses((status = 200, body = PublisherView), (status = 404, description = "no such topic or publisher"))))]
pub(super) async fn show(
    State(service): Shared,
    Path((topic, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<PublisherView>, Refusal> {
    let query = Query::of(&uri)?.only(&["avoid"])?;
    let avoid = query.get("avoid").map(str::to_owned);
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
) -> Result<StatusCode, Refusal> {
    service
        .handle
        .ask(|reply| Command::DeletePublisher(topic, id, reply))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
