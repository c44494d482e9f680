//! Errors between a client and its broker, as one enum.

use std::io;
use std::time::Duration;

use wire::ErrorCode;

/// Why a publisher or subscriber could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The network failed; `what` names the step. Messages not yet acknowledged may or may not have been accepted.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The broker does not speak TLS; nothing but that was said to it.
    #[error("the broker offers no TLS; start it with --tls-cert and --tls-key, or connect without")]
    NoTls,
    /// The broker closed the connection without saying why.
    #[error("the broker closed the connection")]
    Closed,
    /// The broker sent nothing, not even a heartbeat, for this long.
    #[error("the broker has been silent for {} ms", .0.as_millis())]
    Silent(Duration),
    /// The broker answered with an error.
    #[error("the broker refused: {text}")]
    Refused {
        /// The code, when it is a known one.
        code: Option<ErrorCode>,
        /// The whole error as the broker put it.
        text: String,
    },
    /// The broker broke the protocol.
    #[error("the broker broke the protocol: {0}")]
    Protocol(String),
    /// A topic's or channel's name is not valid; nothing was sent.
    #[error(
        "{kind} name {name:?} is not valid: 1 to 64 of . - _ a-z A-Z 0-9, and optionally the ending #ephemeral"
    )]
    Name {
        /// "topic" or "channel".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A publisher's declaration is not valid; nothing was sent.
    #[error("{field} {value:?} is not valid: {allowed}")]
    Declaration {
        /// The field of [`crate::PlacedOptions`].
        field: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// No broker has taken messages for as long as the publisher's patience lasts. Those published before stay in its
    /// buffer and are still tried; a message that had no room in it was not taken.
    #[error("no broker has accepted messages for {} ms: {reason}", .waited.as_millis())]
    NoBroker {
        /// The time waited.
        waited: Duration,
        /// What went wrong last.
        reason: String,
    },
    /// The controller will not place this publisher, and says why; trying again is useless.
    #[error("the controller refused: {0}")]
    NotPlaced(String),
    /// A message is empty or a batch has no message, which no broker accepts; nothing was sent.
    #[error("the message or the batch is empty: publish at least one byte and one message")]
    Empty,
    /// The window of unacknowledged messages is full and the options say not to wait; nothing was sent.
    #[error(
        "the ack window of {window} messages is full: {unacknowledged} are not acknowledged yet"
    )]
    WindowFull {
        /// Messages under way.
        unacknowledged: usize,
        /// The bound.
        window: usize,
    },
    /// A message is longer than the endpoint was made for; it was not taken.
    #[error(
        "the message has {bytes} bytes, more than the {bytes_max} allowed: see NodeOptions::body_bytes_max"
    )]
    TooLong {
        /// Bytes of its body.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The publication's queue is full, and the caller is a timer or a subscription that must not wait; the message was not
    /// taken.
    #[error("the queue of the publication is full, and a callback must not wait for room")]
    Full,
    /// The topic's limit rejects its excess; the message was not taken.
    #[error("the limit of the topic, {limit}, is used up: the message was not accepted")]
    OverLimit {
        /// The whole topic's limit.
        limit: limit::Limit,
    },
    /// The publication, or its endpoint, has ended.
    #[error("the publication has ended")]
    Ended,
    /// This endpoint publishes, or subscribes, the topic already.
    #[error("{topic} already has a {what} at this endpoint: share that one, or end it first")]
    InUse {
        /// The topic.
        topic: String,
        /// "publication" or "subscription".
        what: &'static str,
    },
    /// An option of an endpoint is not valid; nothing was started.
    #[error("{option}: {reason}")]
    Option {
        /// The field of [`crate::tempo::NodeOptions`].
        option: &'static str,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The messaging kernel refused a task.
    #[error("{0}")]
    Kernel(#[from] kernel::KernelError),
}

impl ClientError {
    /// Whether the connection can no longer be used. False for errors that concern one call only:
    /// an invalid name, a full window, a FIN, REQ or TOUCH of a message that is not in flight.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.is_none_or(ErrorCode::is_fatal),
            Self::Name { .. }
            | Self::Declaration { .. }
            | Self::NoBroker { .. }
            | Self::Empty
            | Self::WindowFull { .. }
            | Self::TooLong { .. }
            | Self::Full
            | Self::OverLimit { .. }
            | Self::InUse { .. }
            | Self::Option { .. }
            | Self::Kernel(_) => false,
            Self::Io { .. }
            | Self::NoTls
            | Self::Closed
            | Self::Silent(_)
            | Self::Protocol(_)
            | Self::NotPlaced(_)
            | Self::Ended => true,
        }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    pub(crate) fn refused(body: &[u8]) -> Self {
        Self::Refused {
            code: ErrorCode::of_body(body),
            text: String::from_utf8_lossy(body).into_owned(),
        }
    }
}
