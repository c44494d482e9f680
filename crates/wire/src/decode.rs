//! Reading a client's commands in place.
//!
//! [`decode`] looks at the beginning of a buffer and finds a whole command, or says how many bytes
//! it lacks, or refuses. Checks come in nsqd's order (state, number of parameters, names, numbers,
//! sizes) and as early as their bytes are there, so that an oversized body is refused before it
//! arrives. It keeps no state between calls; nothing is allocated except the text of an error.
//!
//! It does not know whether a topic exists or a message is in flight: those errors are the broker's
//! to find, with the constructors of [`ProtocolError`].
//!
//! Four answers differ from nsqd 1.3.0 on purpose: a line that is too long gets an error frame (nsqd
//! hangs up in silence), a number beyond 64 bits is refused (nsqd wraps around), a REQ delay that
//! overflows nsqd's nanoseconds is cut to the maximum (nsqd makes it 0) and such a DPUB delay is out
//! of range, and an MPUB must fill its declared size (see [`crate::Mpub`]).

mod input;
mod publish;
mod session;

use crate::quote::{echoed, quoted};
use crate::{Command, ErrorCode, ProtocolError, is_valid_name};
use input::{Params, Tail, line_bytes};
use publish::{publish, publish_later, publish_many};
use session::{auth, identify, message_id, ready, requeue, subscribe};

/// The bounds that a command is checked against; the defaults are nsqd's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message, in bytes.
    pub max_msg_size: u32,
    /// Largest body of IDENTIFY, AUTH and MPUB, in bytes.
    pub max_body_size: u32,
    /// Longest command line with its newline, in bytes.
    pub max_line_bytes: u32,
    /// Largest RDY count.
    pub max_rdy_count: u32,
    /// Largest delay of REQ and DPUB, in milliseconds.
    pub max_req_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_msg_size: 1024 * 1024,
            max_body_size: 5 * 1024 * 1024,
            max_line_bytes: 16 * 1024,
            max_rdy_count: 2500,
            max_req_timeout_ms: 3_600_000,
        }
    }
}

/// How far a connection has come: which commands it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not subscribed.
    #[default]
    Init,
    /// The same without TLS, where the broker requires it: nothing but IDENTIFY is allowed.
    Unencrypted,
    /// After SUB.
    Subscribed,
    /// After CLS.
    Closing,
}

/// What [`decode`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole command, at the beginning of the buffer.
    Complete {
        /// The command.
        command: Command<'a>,
        /// How many bytes it took.
        consumed: usize,
    },
    /// Not a whole command yet, and nothing wrong with it so far.
    Incomplete {
        /// Trying again is useless before the buffer holds this many bytes; above its length now.
        needed: usize,
    },
}

/// Reads the command at the beginning of `buf`.
///
/// `phase` is the connection's, and `heartbeats_enabled` what it negotiated: a client without
/// heartbeats may not subscribe. RDY while closing is without effect and comes back as
/// [`Command::Nop`].
///
/// # Errors
/// The error frame to send, nsqd's text; all that come from here are fatal.
#[inline]
pub fn decode<'a>(
    buf: &'a [u8],
    limits: &Limits,
    phase: Phase,
    heartbeats_enabled: bool,
) -> Result<Decoded<'a>, ProtocolError> {
    match command(buf, limits, phase, heartbeats_enabled) {
        Ok((command, consumed)) => Ok(Decoded::Complete { command, consumed }),
        Err(Stop::Incomplete { needed }) => Ok(Decoded::Incomplete { needed }),
        Err(Stop::Refused(error)) => Err(error),
    }
}

/// Why there is no command.
enum Stop {
    Incomplete { needed: usize },
    Refused(ProtocolError),
}

impl From<ProtocolError> for Stop {
    fn from(error: ProtocolError) -> Stop {
        Stop::Refused(error)
    }
}

/// A command and the bytes it took.
type Found<'a> = Result<(Command<'a>, usize), Stop>;

fn command<'a>(
    buf: &'a [u8],
    limits: &Limits,
    phase: Phase,
    heartbeats_enabled: bool,
) -> Found<'a> {
    let line_bytes = line_bytes(buf, limits)?;
    let line = &buf[..line_bytes - 1];
    let mut params = Params(Some(line.strip_suffix(b"\r").unwrap_or(line)));
    let tail = Tail {
        buf,
        at: line_bytes,
    };
    let subscribed = matches!(phase, Phase::Subscribed | Phase::Closing);
    let word = params.next().unwrap_or_default();
    if phase == Phase::Unencrypted && word != b"IDENTIFY" {
        return Err(tls_required(word).into());
    }
    let command = match word {
        b"PUB" => return publish(params, tail, limits),
        b"FIN" => Command::Fin {
            id: message_id(&mut params, "FIN", subscribed)?,
        },
        b"RDY" => ready(params, limits, phase)?,
        b"MPUB" => return publish_many(params, tail, limits),
        b"NOP" => Command::Nop,
        b"REQ" => requeue(params, limits, subscribed)?,
        b"TOUCH" => Command::Touch {
            id: message_id(&mut params, "TOUCH", subscribed)?,
        },
        b"DPUB" => return publish_later(params, tail, limits),
        b"IDENTIFY" => return identify(tail, limits, phase),
        b"SUB" => subscribe(params, phase, heartbeats_enabled)?,
        b"CLS" if phase == Phase::Subscribed => Command::Cls,
        b"CLS" => return Err(wrong_state("CLS").into()),
        b"AUTH" => return auth(params, tail, limits, phase),
        unknown => return Err(invalid(format!("invalid command {}", echoed(unknown))).into()),
    };
    Ok((command, line_bytes))
}

#[inline]
fn valid_name(name: &[u8]) -> Option<&str> {
    if is_valid_name(name) {
        std::str::from_utf8(name).ok()
    } else {
        None
    }
}

/// Checks the size of the body of IDENTIFY, AUTH and MPUB.
fn body_size(size: i32, command: &str, limits: &Limits) -> Result<u32, ProtocolError> {
    if size <= 0 {
        let text = format!("{command} invalid body size {size}");
        return Err(ProtocolError::new(ErrorCode::BadBody, text));
    }
    if size.unsigned_abs() > limits.max_body_size {
        let text = format!("{command} body too big {size} > {}", limits.max_body_size);
        return Err(ProtocolError::new(ErrorCode::BadBody, text));
    }
    Ok(size.unsigned_abs())
}

fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> ProtocolError {
    ProtocolError::new(ErrorCode::Invalid, text)
}

fn wrong_state(command: &str) -> ProtocolError {
    invalid(format!("cannot {command} in current state"))
}

#[cold]
fn tls_required(word: &[u8]) -> ProtocolError {
    let word = echoed(word);
    invalid(format!("cannot {word} in current state (TLS required)"))
}

fn bad_topic(command: &str, name: &[u8]) -> ProtocolError {
    ProtocolError::new(
        ErrorCode::BadTopic,
        format!("{command} topic name {} is not valid", quoted(name)),
    )
}
