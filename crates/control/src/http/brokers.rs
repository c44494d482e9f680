//! `/v1/brokers`: the registry.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use http::Refusal;

use super::Shared;
use crate::handle::Command;
use crate::view::{BrokerView, BrokerViews};

#[cfg_attr(test, utoipa::path(get, path = "/v1/brokers", responses((status = 200, body = BrokerViews))))]
pub(super) async fn list(State(service): Shared) -> Result<Json<BrokerViews>, Refusal> {
    let brokers = service.handle.ask(Command::Brokers).await?;
    Ok(Json(BrokerViews { brokers }))
}

#[cfg_attr(test, utoipa::path(get, path = "/v1/brokers/{broker}", params(("broker" = String, Path)),
    responses((status = 200, body = BrokerView), (status = 404, description = "no such broker"))))]
pub(super) async fn show(
    State(service): Shared,
    Path(broker): Path<String>,
) -> Result<Json<BrokerView>, Refusal> {
    let brokers = service.handle.ask(Command::Brokers).await?;
    let found = brokers.into_iter().find(|view| view.broker == broker);
    found.map(Json).ok_or_else(|| {
        Refusal::not_found(format!(
            "there is no broker {broker}; GET /v1/brokers lists them"
        ))
    })
}

/// Moves all publishers away from a broker and gives it no more.
#[cfg_attr(test, utoipa::path(post, path = "/v1/brokers/{broker}/drain", params(("broker" = String, Path)),
    responses((status = 200, body = BrokerView), (status = 404, description = "no such broker"))))]
pub(super) async fn drain(
    State(service): Shared,
    Path(broker): Path<String>,
) -> Result<Json<BrokerView>, Refusal> {
    Ok(Json(
        service
            .handle
            .ask(|reply| Command::DrainBroker(broker, reply))
            .await?,
    ))
}

/// Ends a drain: the broker may be given publishers again.
#[cfg_attr(test, utoipa::path(post, path = "/v1/brokers/{broker}/resume", params(("broker" = String, Path)),
    responses((status = 200, body = BrokerView), (status = 404, description = "no such broker"))))]
pub(super) async fn resume(
    State(service): Shared,
    Path(broker): Path<String>,
) -> Result<Json<BrokerView>, Refusal> {
    Ok(Json(
        service
            .handle
            .ask(|reply| Command::ResumeBroker(broker, reply))
            .await?,
    ))
}

/// Takes an operator's word that a broker is dead and frees its name; refused while it is connected.
#[cfg_attr(test, utoipa::path(delete, path = "/v1/brokers/{broker}", params(("broker" = String, Path)),
    responses((status = 204, description = "it counts as dead now, and its name is free"), (status = 404, description = "no such broker"),
        (status = 409, description = "it is connected and reports"))))]
pub(super) async fn remove(
    State(service): Shared,
    Path(broker): Path<String>,
) -> Result<StatusCode, Refusal> {
    service
        .handle
        .ask(|reply| Command::RemoveBroker(broker, reply))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
