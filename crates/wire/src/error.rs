//! Errors: the error frames of a broker, and the faults of bytes or names.
//!
//! A [`ProtocolError`] is an answer: its `Display` is the body of the error frame, with the codes
//! and texts of nsqd 1.3.0. Those that only a broker can find (a message not in flight, a topic
//! that is exiting) have constructors here so that every text lives in one crate. A [`WireError`]
//! stays on the side that found it.

use crate::MessageId;
use std::borrow::Cow;
use std::fmt;

/// Reason for [`ProtocolError::fin_failed`] and its like: the id is not in flight on the channel.
pub const ID_NOT_IN_FLIGHT: &str = "ID not in flight";

/// Reason for [`ProtocolError::fin_failed`] and its like: the message was sent to another client.
pub const CLIENT_DOES_NOT_OWN_MESSAGE: &str = "client does not own message";

/// A broker's answer to a client that erred: the body of an error frame, and whether the broker
/// hangs up afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}{text}", if text.is_empty() { "" } else { " " })]
pub struct ProtocolError {
    /// The machine's part, first on the wire.
    pub code: ErrorCode,
    /// The reader's part, after one space. Empty only for [`ErrorCode::BadProtocol`].
    pub text: Cow<'static, str>,
    /// Whether the broker closes the connection after the frame.
    pub fatal: bool,
}

impl ProtocolError {
    /// An error whose fatality is its code's.
    pub fn new(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> ProtocolError {
        ProtocolError {
            code,
            text: text.into(),
            fatal: code.is_fatal(),
        }
    }

    /// The connection did not begin with [`crate::MAGIC_V2`].
    pub fn bad_protocol() -> ProtocolError {
        ProtocolError::new(ErrorCode::BadProtocol, "")
    }

    /// FIN of a message that this client cannot finish; not fatal.
    pub fn fin_failed(id: MessageId, reason: &str) -> ProtocolError {
        ProtocolError::new(ErrorCode::FinFailed, format!("FIN {id} failed {reason}"))
    }

    /// REQ of a message that this client cannot requeue; not fatal.
    pub fn req_failed(id: MessageId, reason: &str) -> ProtocolError {
        ProtocolError::new(ErrorCode::ReqFailed, format!("REQ {id} failed {reason}"))
    }

    /// TOUCH of a message that this client cannot touch; not fatal.
    pub fn touch_failed(id: MessageId, reason: &str) -> ProtocolError {
        ProtocolError::new(
            ErrorCode::TouchFailed,
            format!("TOUCH {id} failed {reason}"),
        )
    }

    /// SUB that the channel refused, for instance for its limit of consumers.
    pub fn sub_failed(reason: &str) -> ProtocolError {
        ProtocolError::new(ErrorCode::SubFailed, format!("SUB failed {reason}"))
    }

    /// PUB that the topic refused.
    pub fn pub_failed(reason: &str) -> ProtocolError {
        ProtocolError::new(ErrorCode::PubFailed, format!("PUB failed {reason}"))
    }

    /// MPUB that the topic refused; none of its messages was accepted.
    pub fn mpub_failed(reason: &str) -> ProtocolError {
        ProtocolError::new(ErrorCode::MpubFailed, format!("MPUB failed {reason}"))
    }

    /// DPUB that the topic refused.
    pub fn dpub_failed(reason: &str) -> ProtocolError {
        ProtocolError::new(ErrorCode::DpubFailed, format!("DPUB failed {reason}"))
    }

    /// AUTH sent to a broker that asks for none.
    pub fn auth_disabled() -> ProtocolError {
        ProtocolError::new(ErrorCode::AuthDisabled, "AUTH disabled")
    }

    /// IDENTIFY whose body is well formed but cannot be granted.
    pub fn identify_failed(reason: &str) -> ProtocolError {
        ProtocolError::new(
            ErrorCode::IdentifyFailed,
            format!("IDENTIFY failed {reason}"),
        )
    }
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal),+ $(,)?) => {
        /// The first word of an error frame: all that nsqd 1.3.0 can send.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant),+
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant),+];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $text),+
                }
            }
        }
    };
}

error_codes! {
    /// A command that is unknown, misplaced or without its parameters.
    Invalid => "E_INVALID",
    /// The connection began with other bytes than the magic.
    BadProtocol => "E_BAD_PROTOCOL",
    /// A topic name against the rule.
    BadTopic => "E_BAD_TOPIC",
    /// A channel name against the rule.
    BadChannel => "E_BAD_CHANNEL",
    /// A command's body of a wrong size or form.
    BadBody => "E_BAD_BODY",
    /// A message of a wrong size.
    BadMessage => "E_BAD_MESSAGE",
    /// PUB not accepted.
    PubFailed => "E_PUB_FAILED",
    /// MPUB not accepted.
    MpubFailed => "E_MPUB_FAILED",
    /// DPUB not accepted.
    DpubFailed => "E_DPUB_FAILED",
    /// FIN without effect.
    FinFailed => "E_FIN_FAILED",
    /// REQ without effect.
    ReqFailed => "E_REQ_FAILED",
    /// TOUCH without effect.
    TouchFailed => "E_TOUCH_FAILED",
    /// SUB refused.
    SubFailed => "E_SUB_FAILED",
    /// IDENTIFY asked for what cannot be granted.
    IdentifyFailed => "E_IDENTIFY_FAILED",
    /// AUTH must come first.
    AuthFirst => "E_AUTH_FIRST",
    /// AUTH refused.
    AuthFailed => "E_AUTH_FAILED",
    /// AUTH is not in use.
    AuthDisabled => "E_AUTH_DISABLED",
    /// AUTH could not be answered.
    AuthError => "E_AUTH_ERROR",
    /// The permissions do not cover the command.
    Unauthorized => "E_UNAUTHORIZED",
}

impl ErrorCode {
    /// Whether nsqd closes the connection after this error: always, except for a FIN, REQ or TOUCH
    /// that came too late.
    pub fn is_fatal(self) -> bool {
        !matches!(
            self,
            ErrorCode::FinFailed | ErrorCode::ReqFailed | ErrorCode::TouchFailed
        )
    }

    /// The code at the head of an error frame's body; `None` for one that nsqd does not have.
    pub fn of_body(body: &[u8]) -> Option<ErrorCode> {
        let word = body.split(|&byte| byte == b' ').next()?;
        ErrorCode::ALL
            .iter()
            .copied()
            .find(|code| code.as_str().as_bytes() == word)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name or a broker's frame that breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not a topic name: see [`crate::is_valid_name`].
    #[error("topic name is not 1 to 64 of [.a-zA-Z0-9_-] with an optional #ephemeral")]
    InvalidTopicName,
    /// Not a channel name: see [`crate::is_valid_name`].
    #[error("channel name is not 1 to 64 of [.a-zA-Z0-9_-] with an optional #ephemeral")]
    InvalidChannelName,
    /// A frame's size field is below what its type needs, or negative.
    #[error("frame size {size} is too small")]
    FrameTooSmall {
        /// The size field.
        size: i32,
    },
    /// A frame's size field is above what the reader accepts.
    #[error("frame size {size} is above {max_bytes}")]
    FrameTooBig {
        /// The size field.
        size: i32,
        /// The reader's bound on it.
        max_bytes: u32,
    },
    /// A frame of a type that this protocol does not have.
    #[error("unknown frame type {0}")]
    UnknownFrameType(i32),
    /// An ack frame whose size is not that of an ack.
    #[error("ack frame of size {size}, not 12")]
    AckSize {
        /// The size field.
        size: i32,
    },
    /// A migrate frame whose topic or address is none, or whose lengths do not fill it.
    #[error("migrate frame of size {size} does not hold a topic and an address")]
    MigrateForm {
        /// The size field.
        size: i32,
    },
    /// A throttled frame without a time or a topic.
    #[error("throttled frame of size {size} does not hold a time and a topic")]
    ThrottledForm {
        /// The size field.
        size: i32,
    },
    /// IDENTIFY was answered with something else than the JSON of a broker.
    #[error("the answer to IDENTIFY is not a broker's JSON")]
    IdentifyAnswer,
}

#[cfg(test)]
mod tests {
    use super::{CLIENT_DOES_NOT_OWN_MESSAGE, ErrorCode, ID_NOT_IN_FLIGHT, ProtocolError};
    use crate::MessageId;

    #[test]
    fn brokers_errors_read_like_nsqd() {
        let id = MessageId::from_u64(0xabc);
        #[rustfmt::skip]
        let rows = [
            (ProtocolError::bad_protocol(), "E_BAD_PROTOCOL", true),
            (ProtocolError::fin_failed(id, ID_NOT_IN_FLIGHT), "E_FIN_FAILED FIN 0000000000000abc failed ID not in flight", false),
            (ProtocolError::req_failed(id, CLIENT_DOES_NOT_OWN_MESSAGE), "E_REQ_FAILED REQ 0000000000000abc failed client does not own message", false),
            (ProtocolError::touch_failed(id, ID_NOT_IN_FLIGHT), "E_TOUCH_FAILED TOUCH 0000000000000abc failed ID not in flight", false),
            (ProtocolError::sub_failed("consumers for t:c exceeds limit of 2"), "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 2", true),
            (ProtocolError::pub_failed("exiting"), "E_PUB_FAILED PUB failed exiting", true),
            (ProtocolError::mpub_failed("exiting"), "E_MPUB_FAILED MPUB failed exiting", true),
            (ProtocolError::dpub_failed("exiting"), "E_DPUB_FAILED DPUB failed exiting", true),
            (ProtocolError::auth_disabled(), "E_AUTH_DISABLED AUTH disabled", true),
            (ProtocolError::identify_failed("x"), "E_IDENTIFY_FAILED IDENTIFY failed x", true),
        ];
        for (error, body, fatal) in rows {
            assert_eq!(error.to_string(), body);
            assert_eq!(error.fatal, fatal, "{body}");
            assert_eq!(ErrorCode::of_body(body.as_bytes()), Some(error.code));
        }
    }

    #[test]
    fn unknown_codes_are_not_guessed() {
        for body in [&b""[..], b"E_INVALIDx", b"E_", b"OK", b"\xff"] {
            assert_eq!(ErrorCode::of_body(body), None, "{body:?}");
        }
    }
}
