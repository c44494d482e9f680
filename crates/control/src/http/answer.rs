//! The control plane's errors over HTTP.

use axum::http::StatusCode;
use http::Refusal;

use crate::ControlError;

/// 503.
pub(super) fn too_many_streams() -> Refusal {
    let text = "too many event streams are open, in all or to your address; close one, or ask for views instead";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// 405.
pub(super) fn method_not_allowed() -> Refusal {
    let text = "this path does not take that method; GET /v1/openapi.json lists what it takes";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Refusal {
        let status = match &error {
            ControlError::Invalid(_) => StatusCode::BAD_REQUEST,
            ControlError::NotFound(_) => StatusCode::NOT_FOUND,
            ControlError::Conflict(_) => StatusCode::CONFLICT,
            ControlError::NotKept(_) => StatusCode::INSUFFICIENT_STORAGE,
            ControlError::Elsewhere { .. } => StatusCode::MISDIRECTED_REQUEST,
            ControlError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let refusal = Refusal::new(status, error.to_string());
        match error {
            ControlError::Elsewhere {
                leader: Some(leader),
                ..
            } => refusal.with("leader", leader),
            _ => refusal,
        }
    }
}
