//! The control plane's refusals and their reasons.

/// A refusal; its text says what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The request cannot be granted as it is; HTTP 400. The former state stays in force.
    #[error("{0}")]
    Invalid(String),
    /// There is no such topic, publisher or broker; HTTP 404.
    #[error("{0}")]
    NotFound(String),
    /// It contradicts what is there already; HTTP 409.
    #[error("{0}")]
    Conflict(String),
    /// It cannot be kept, because the store cannot be written; HTTP 507. Worth trying again once there is room.
    #[error("{0}")]
    NotKept(String),
    /// Another controller leads; HTTP 421. Worth asking there.
    #[error("{text}")]
    Elsewhere {
        /// For people.
        text: String,
        /// URL of its HTTP API, where it is known.
        leader: Option<String>,
    },
    /// A bound is reached or something that is needed is away; HTTP 503. Worth trying again.
    #[error("{0}")]
    Unavailable(String),
}
