//! `GET /v1/openapi.json`: the API as a document.
//!
//! A test generates the file from handlers and views and compares them, so the product is built
//! without the generator.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};

use super::Shared;

/// Whether the controller is up, and can keep what is asked of it.
#[cfg_attr(test, utoipa::path(get, path = "/ping", responses((status = 200, body = String, description = "OK"),
    (status = 507, body = String, description = "NOK - and why nothing can be kept; everything else goes on"))))]
pub(super) async fn ping(State(service): Shared) -> (StatusCode, String) {
    match service.handle.store_state().failure {
        None => (StatusCode::OK, String::from("OK")),
        Some(why) => (StatusCode::INSUFFICIENT_STORAGE, format!("NOK - {why}")),
    }
}

/// This document.
#[cfg_attr(test, utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, description = "OpenAPI 3.1"))))]
pub(super) async fn document() -> ([(HeaderName, &'static str); 1], &'static str) {
    (
        [(CONTENT_TYPE, "application/json")],
        include_str!("openapi.json"),
    )
}

#[cfg(test)]
mod tests;
