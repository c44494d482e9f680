//! `GET /v1/openapi.json`: the API as a document.
//!
//! The file is generated from handlers and views by a test, which also holds it against them: so the product is built without
//! the generator.

use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;

/// Whether the controller is up.
#[cfg_attr(test, utoipa::path(get, path = "/ping", responses((status = 200, body = String, description = "OK"))))]
pub(super) async fn ping() -> &'static str {
    "OK"
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
