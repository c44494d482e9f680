//! Why a request is refused, for people: `{"error":"what, where, what to do"}` under its status.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Map;

use crate::{BodyError, QueryError};

/// A refusal under its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    text: String,
    text_field: &'static str,
    /// Something more for programs.
    more: Option<(&'static str, String)>,
}

impl Refusal {
    /// `text` says what is wrong, where, and what to do.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Refusal {
        Refusal {
            status,
            text: text.into(),
            text_field: "error",
            more: None,
        }
    }

    /// 400.
    pub fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404.
    pub fn not_found(text: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, text)
    }

    /// Why a body of at most this many bytes was not read: 400, 408, 413 or 503.
    #[must_use]
    pub fn unread(error: &BodyError, max_bytes: usize) -> Refusal {
        let text = match error {
            BodyError::Broken(error) | BodyError::Late(error) => {
                format!("the body broke off: {error}")
            }
            BodyError::TooLong => {
                format!("the body is longer than {max_bytes} bytes; send it in parts")
            }
            BodyError::Busy => String::from("too many bodies are being read just now; try again"),
        };
        Refusal::new(error.status(), text)
    }

    /// The same with its text in another field.
    #[must_use]
    pub fn with_text_in(self, text_field: &'static str) -> Refusal {
        Refusal { text_field, ..self }
    }

    /// The same with one more field, for programs.
    #[must_use]
    pub fn with(self, field: &'static str, value: String) -> Refusal {
        Refusal {
            more: Some((field, value)),
            ..self
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Refusal {
        Refusal::invalid(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let text = Some((self.text_field, self.text));
        let fields = text.into_iter().chain(self.more);
        let object = Map::from_iter(fields.map(|(field, value)| (field.to_owned(), value.into())));
        (self.status, Json(object)).into_response()
    }
}
