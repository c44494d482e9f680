//! What answers look like.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http::BodyError;
use serde::Serialize;

use crate::ControlError;

/// A refusal under its status.
#[derive(Debug)]
pub(super) struct Failure(StatusCode, String);

/// The body of every error.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(super) struct Refusal {
    /// What is wrong, where, and what to do.
    error: String,
}

impl Failure {
    /// 400.
    pub(super) fn invalid(text: impl Into<String>) -> Failure {
        Failure(StatusCode::BAD_REQUEST, text.into())
    }

    /// 404.
    pub(super) fn not_found(text: impl Into<String>) -> Failure {
        Failure(StatusCode::NOT_FOUND, text.into())
    }

    /// Why a body of at most so many bytes was not read: 400, 408, 413 or 503.
    pub(super) fn unread(error: BodyError, max_bytes: usize) -> Failure {
        match error {
            BodyError::Broken(error) => Failure::invalid(format!("the body broke off: {error}")),
            BodyError::Late(error) => {
                let text = format!("the body broke off: {error}");
                Failure(StatusCode::REQUEST_TIMEOUT, text)
            }
            BodyError::TooLong => {
                let text = format!("the body is longer than {max_bytes} bytes; send it in parts");
                Failure(StatusCode::PAYLOAD_TOO_LARGE, text)
            }
            BodyError::Busy => {
                let text = "too many bodies are being read just now; try again";
                Failure(StatusCode::SERVICE_UNAVAILABLE, String::from(text))
            }
        }
    }

    /// 503.
    pub(super) fn too_many_streams() -> Failure {
        let text = "as many event streams are open as may be, in all or to your address; close one, or ask for views instead";
        Failure(StatusCode::SERVICE_UNAVAILABLE, String::from(text))
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
            ControlError::NotKept(_) => StatusCode::INSUFFICIENT_STORAGE,
            ControlError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Failure(status, error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(Refusal { error: self.1 })).into_response()
    }
}
