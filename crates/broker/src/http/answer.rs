//! What an answer looks like: nsqd's headers, bodies and error objects.
//!
//! nsqd's version 1 API marks every answer with `X-NSQ-Content-Type`; data that is not plain text is
//! JSON, and every failure is `{"message":"SOME_CODE"}` under its status.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::BrokerError;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NSQ_VERSION_1: HeaderValue = HeaderValue::from_static("nsq; version=1.0");

/// An answer other than 200, rendered as nsqd renders it.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    status: StatusCode,
    message: Cow<'static, str>,
}

impl Failure {
    /// `status` must be a valid HTTP status; anything else becomes 500.
    pub(super) fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Failure {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Failure {
            status,
            message: message.into(),
        }
    }
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Failure {
        match error {
            BrokerError::TopicNotFound(_) => Failure::new(404, "TOPIC_NOT_FOUND"),
            BrokerError::ChannelNotFound(_) => Failure::new(404, "CHANNEL_NOT_FOUND"),
            // nsqd has no limits; 429 is HTTP's own word for them.
            BrokerError::Refused(reason) => Failure::new(429, reason),
            BrokerError::Busy(_) => Failure::new(503, "BUSY"),
            BrokerError::Exiting => Failure::new(503, "EXITING"),
            BrokerError::NotKept(_) => Failure::new(507, "NOT_KEPT"),
            BrokerError::Io { .. } | BrokerError::Config { .. } => {
                Failure::new(500, "INTERNAL_ERROR")
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = json(&serde_json::json!({ "message": self.message }));
        *response.status_mut() = self.status;
        response
    }
}

/// 200 without a body.
pub(super) fn done() -> Response {
    answer(None, Body::empty())
}

/// 200 with plain text.
pub(super) fn text(body: impl Into<Body>) -> Response {
    answer(Some(TEXT), body.into())
}

/// 200 with JSON.
pub(super) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => answer(Some(JSON), Body::from(bytes)),
        Err(error) => {
            tracing::error!(%error, "an answer could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn answer(content_type: Option<HeaderValue>, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert("x-nsq-content-type", NSQ_VERSION_1);
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    response
}
