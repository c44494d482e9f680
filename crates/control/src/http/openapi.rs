//! `GET /v1/openapi.json`: the API as a document, generated from handlers and views.

use axum::Json;
use utoipa::OpenApi;

use super::answer::Refusal;
use super::{brokers, events, metrics, names, publishers, topics};
use crate::view::{
    BrokerView, EventView, NameView, NameViews, PlacementView, PublisherList, PublisherView,
    TopicSpec, TopicView,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "SRTM control plane",
        description = "Contracts of topics, publishers and their brokers."
    ),
    paths(
        topics::list,
        topics::show,
        topics::put,
        topics::remove,
        topics::placement,
        publishers::list,
        publishers::put,
        publishers::show,
        publishers::remove,
        names::list,
        names::show,
        names::put,
        brokers::list,
        brokers::show,
        brokers::drain,
        brokers::resume,
        brokers::remove,
        events::events,
        metrics::metrics,
        ping,
        document,
    ),
    components(schemas(
        TopicSpec,
        TopicView,
        PublisherList,
        PublisherView,
        PlacementView,
        NameView,
        NameViews,
        BrokerView,
        EventView,
        Refusal
    ))
)]
struct Document;

/// Whether the controller is up.
#[utoipa::path(get, path = "/ping", responses((status = 200, body = String, description = "OK")))]
pub(super) async fn ping() -> &'static str {
    "OK"
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}
