//! Why a question has no usable answer.

use crate::Method;

/// A question without an answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {url}: {why}", method.name())]
pub struct ApiError {
    /// The operation.
    pub method: Method,
    /// The URL that was asked.
    pub url: String,
    /// What happened.
    pub why: Why,
}

/// What happened to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Nobody answered, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// The answer broke off, or is larger than was allowed.
    #[error("{0}")]
    Broken(String),
    /// The server refused.
    #[error("{status} {reason}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's text: `error` of SRTM's answers, `message` of nsqd's, or the whole body.
        reason: String,
    },
    /// The answer is not JSON.
    #[error("the answer is not JSON: {0}")]
    NotJson(String),
    /// The answer is JSON, but not the value that was asked for.
    #[error("the answer does not fit this version of the API: {0}")]
    Unexpected(String),
}

impl ApiError {
    /// The status with which the server refused; `None` where it did not.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.why {
            Why::Refused { status, .. } => Some(status),
            _ => None,
        }
    }
}
