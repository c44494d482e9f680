//! `GET /v1/openapi.json`: the API as a document, generated from handlers and views.

use axum::Json;
use utoipa::OpenApi;

use super::{brokers, events, publishers, topics};
use crate::view::{
    BrokerView, EventView, PlacementView, PublisherList, PublisherView, TopicSpec, TopicView,
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
        brokers::list,
        brokers::show,
        brokers::drain,
        brokers::resume,
        brokers::remove,
        events::events,
    ),
    components(schemas(
        TopicSpec,
        TopicView,
        PublisherList,
        PublisherView,
        PlacementView,
        BrokerView,
        EventView
    ))
)]
struct Document;

pub(super) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}
