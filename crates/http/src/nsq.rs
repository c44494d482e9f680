//! Answers as NSQ's daemons give them.
//!
//! Version 1 of their API marks every answer with `X-NSQ-Content-Type`; data that is not plain text is JSON, and every failure
//! is `{"message":"SOME_CODE"}` under its status. Where NSQ has no code for something, the message is a text.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::{BodyError, QueryError};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const MARK: HeaderName = HeaderName::from_static("x-nsq-content-type");
const VERSION_1: HeaderValue = HeaderValue::from_static("nsq; version=1.0");

/// An answer other than 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: StatusCode,
    message: Cow<'static, str>,
}

impl Failure {
    /// `status` must be a valid HTTP status; anything else becomes 500.
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Failure {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Failure {
            status,
            message: message.into(),
        }
    }

    /// Why a body was not read: `too_long` is the code of one that is.
    #[must_use]
    pub fn unread(error: &BodyError, too_long: &'static str) -> Failure {
        let message = match error {
            BodyError::TooLong => too_long,
            BodyError::Busy => "BUSY",
            BodyError::Late(_) => "REQUEST_TIMEOUT",
            BodyError::Broken(_) => return Failure::new(500, "INTERNAL_ERROR"),
        };
        Failure::new(error.status().as_u16(), message)
    }
}

/// 200 without a body.
#[must_use]
pub fn done() -> Response {
    marked(None, Body::empty())
}

/// 403: requests are answered at `https_port` only.
pub(crate) fn tls_required(https_port: u16) -> Response {
    let body = format!(r#"{{"message": "TLS_REQUIRED", "https_port": {https_port}}}"#);
    let mut response = marked(Some(JSON), body.into());
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

/// 200 with plain text.
pub fn text(body: impl Into<Body>) -> Response {
    marked(Some(TEXT), body.into())
}

/// 200 with JSON.
pub fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => json_text(bytes),
        Err(error) => {
            tracing::error!(%error, "an answer could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// 200 with what is JSON already.
pub fn json_text(body: impl Into<Body>) -> Response {
    marked(Some(JSON), body.into())
}

fn marked(content_type: Option<HeaderValue>, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(MARK, VERSION_1);
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    response
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Failure {
        let message = match error {
            QueryError::Malformed => Cow::Borrowed("INVALID_REQUEST"),
            QueryError::Missing(key) => Cow::Owned(format!("MISSING_ARG_{}", key.to_uppercase())),
            error => Cow::Owned(error.to_string()),
        };
        Failure::new(400, message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = json(&serde_json::json!({ "message": self.message }));
        *response.status_mut() = self.status;
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_fail_with_the_codes_that_nsq_has() {
        for (error, message) in [
            (QueryError::Malformed, "INVALID_REQUEST"),
            (QueryError::Missing("topic"), "MISSING_ARG_TOPIC"),
            (
                QueryError::Twice(String::from("topic")),
                "topic is given twice; give it once",
            ),
        ] {
            assert_eq!(Failure::from(error), Failure::new(400, message));
        }
    }
}
