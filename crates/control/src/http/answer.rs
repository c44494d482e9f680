//! What answers look like, and how bodies are read.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::ControlError;

/// A refusal under its status.
#[derive(Debug)]
pub(super) struct Failure(StatusCode, String);

impl Failure {
    /// 400.
    pub(super) fn invalid(text: impl Into<String>) -> Failure {
        Failure(StatusCode::BAD_REQUEST, text.into())
    }

    /// 404.
    pub(super) fn not_found(text: impl Into<String>) -> Failure {
        Failure(StatusCode::NOT_FOUND, text.into())
    }

    /// 405.
    pub(super) fn method_not_allowed() -> Failure {
        let text = "this path does not take that method; GET /v1/openapi.json lists what it takes";
        Failure(StatusCode::METHOD_NOT_ALLOWED, String::from(text))
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        let status = match &error {
            ControlError::Invalid(_) => StatusCode::BAD_REQUEST,
            ControlError::NotFound(_) => StatusCode::NOT_FOUND,
            ControlError::Conflict(_) => StatusCode::CONFLICT,
            ControlError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Failure(status, error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

/// A body as a value; `form` shows what is expected.
pub(super) fn read<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    form: &str,
) -> Result<T, Failure> {
    let body = body.map_err(|rejection| Failure(rejection.status(), rejection.body_text()))?;
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Failure::invalid(format!(
            "the body is no JSON object; expected {form}"
        )));
    }
    let mut json = serde_json::Deserializer::from_slice(&body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = match error.path().to_string() {
            path if path == "." => String::from("the body"),
            path => path,
        };
        Failure::invalid(format!("{place}: {}; expected {form}", error.inner()))
    })?;
    json.end()
        .map_err(|error| Failure::invalid(format!("behind the value: {error}; expected {form}")))?;
    Ok(value)
}
