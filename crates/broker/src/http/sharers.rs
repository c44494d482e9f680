//! `/v1/sharers`: the brokers with which this one shares limits by gossip.

use std::net::SocketAddr;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use http::Refusal;
use http::nsq::json as answer_json;
use serde_json::json;

use super::Shared;

/// `GET /v1/sharers`: how many share, those that this broker found by itself, and what they were told differently.
pub(super) async fn list(State(service): Shared) -> Response {
    let figures = service.handle.sharing.figures();
    answer_json(&json!({
        "brokers": figures.brokers,
        "connected": figures.connected,
        "problem": figures.problem,
        "found": figures.found,
        "disagreements": figures.disagreements,
    }))
}

/// `DELETE /v1/sharers/{address}`: a broker that is permanently gone no longer counts, anywhere.
pub(super) async fn forget(
    State(service): Shared,
    Path(address): Path<String>,
) -> Result<Response, Refusal> {
    let parsed: SocketAddr = address.parse().map_err(|_| {
        let text =
            format!("`{address}` is not a gossip address; use IP:PORT as GET /v1/sharers has it");
        Refusal::new(StatusCode::BAD_REQUEST, text)
    })?;
    match service.handle.sharing.forget(parsed) {
        true => Ok(answer_json(&json!({ "forgotten": parsed }))),
        false => {
            let text = format!(
                "{parsed} is not among the brokers that this one found by --gossip-join; GET /v1/sharers lists them"
            );
            Err(Refusal::new(StatusCode::NOT_FOUND, text))
        }
    }
}
