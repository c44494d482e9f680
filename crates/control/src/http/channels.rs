//! `/v1/topics/{topic}/channels`: the channels of a topic.

use axum::Json;
use axum::extract::{Path, State};
use http::Refusal;

use super::Shared;
use crate::handle::Command;
use crate::view::ChannelViews;

/// Channels of a topic over all brokers, what is paused, and which brokers have it; the topic need not be declared.
#[cfg_attr(test, utoipa::path(get, path = "/v1/topics/{topic}/channels", params(("topic" = String, Path)),
    responses((status = 200, body = ChannelViews), (status = 404, description = "neither brokers nor the store know it"))))]
pub(super) async fn list(
    State(service): Shared,
    Path(topic): Path<String>,
) -> Result<Json<ChannelViews>, Refusal> {
    let channels = |reply| Command::Channels(topic, reply);
    Ok(Json(service.handle.ask(channels).await?))
}
