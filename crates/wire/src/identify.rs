//! IDENTIFY: what a client says of itself, what it asks for, and what a broker grants.
//!
//! [`negotiate`] follows nsqd 1.3.0 in ranges, texts, order of checks and in the answer, byte for
//! byte. TLS, deflate and snappy follow the answer where both sides want them ([`Layers`]). AUTH is
//! not offered, so the answer says `false`, like that of an nsqd started without it.
//!
//! SRTM extension: a client that negotiates features may add
//! `"srtm":{"ack_every_messages":N,"ack_interval_ms":T}`. The broker then sends no `OK` for PUB,
//! MPUB and DPUB but an ack frame (see [`crate::frame`]) after every N accepted messages and no
//! later than T after the first of them. The answer names what was granted; a client that did not
//! ask does not see the field. Errors stay fatal: what the last ack counts was accepted.
//!
//! In the same object it may declare itself as a publisher: [`Declaration`]. The broker then knows
//! which publisher it hears and may send migrate and throttled frames.
//!
//! A client may send IDENTIFY again before it subscribes; what it does not ask for then stays as it
//! was: [`renegotiate`].

mod answer;
mod declaration;
mod layers;
mod request;

pub use answer::{ServerFeatures, SrtmFeatures};
pub use declaration::{
    Declaration, MAX_PUBLISHER_BATCH, MAX_PUBLISHER_RATE, MAX_PUBLISHER_TEXT_BYTES,
};
pub use layers::{Compression, Layers};
pub use request::{AckRequest, Identify};

use crate::{ErrorCode, ProtocolError};

/// A broker's offers and defaults; the defaults here are nsqd's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// The version in the answer. Clients may compare it with nsqd's.
    pub version: String,
    /// Largest RDY count.
    pub max_rdy_count: u32,
    /// Time to finish a message, unless the client asks for another.
    pub msg_timeout_ms: u64,
    /// The longest such time.
    pub max_msg_timeout_ms: u64,
    /// Interval of heartbeats, unless the client asks for another.
    pub heartbeat_interval_ms: u64,
    /// The longest such interval.
    pub max_heartbeat_interval_ms: u64,
    /// Size of the output buffer, unless the client asks for another.
    pub output_buffer_bytes: u32,
    /// The largest such size.
    pub max_output_buffer_bytes: u32,
    /// How long output may wait in the buffer, unless the client asks for another time.
    pub output_buffer_timeout_ms: u64,
    /// The shortest such time.
    pub min_output_buffer_timeout_ms: u64,
    /// The longest such time.
    pub max_output_buffer_timeout_ms: u64,
    /// Whether TLS is offered.
    pub tls: bool,
    /// Whether nothing but IDENTIFY is heard before there is TLS ([`crate::Phase::Unencrypted`]).
    pub tls_required: bool,
    /// Whether AUTH has to come before anything is published or subscribed to.
    pub auth_required: bool,
    /// Whether snappy is offered.
    pub snappy: bool,
    /// Whether deflate is offered.
    pub deflate: bool,
    /// The highest level of deflate, 1 to 9.
    pub max_deflate_level: u32,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            version: "1.3.0".to_owned(),
            max_rdy_count: 2500,
            msg_timeout_ms: 60_000,
            max_msg_timeout_ms: 900_000,
            heartbeat_interval_ms: 30_000,
            max_heartbeat_interval_ms: 60_000,
            output_buffer_bytes: 16 * 1024,
            max_output_buffer_bytes: 64 * 1024,
            output_buffer_timeout_ms: 250,
            min_output_buffer_timeout_ms: 25,
            max_output_buffer_timeout_ms: 30_000,
            tls: false,
            tls_required: false,
            auth_required: false,
            snappy: true,
            deflate: true,
            max_deflate_level: 6,
        }
    }
}

/// The terms of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Negotiated {
    /// The client's short name; at most [`MAX_CLIENT_TEXT_BYTES`], the rest is cut.
    pub client_id: String,
    /// The client's host, bounded likewise.
    pub hostname: String,
    /// The client's software, bounded likewise.
    pub user_agent: String,
    /// Interval of heartbeats; `None`: the client wants none, and may not subscribe.
    pub heartbeat_interval_ms: Option<u64>,
    /// Size of the output buffer; 1: none.
    pub output_buffer_bytes: u32,
    /// How long output may wait in the buffer; 0: only the buffer's size flushes it.
    pub output_buffer_timeout_ms: u64,
    /// Percentage of the channel's messages that the client shall get; 0: all.
    pub sample_rate: u8,
    /// Time to finish a message.
    pub msg_timeout_ms: u64,
    /// Layers of the connection, those among them that follow the answer.
    pub layers: Layers,
    /// Cumulative acks in place of `OK`, if asked for.
    pub acks: Option<AckPolicy>,
    /// The publisher at the other end, if it declared itself.
    pub declaration: Option<Declaration>,
}

impl Negotiated {
    /// The terms before IDENTIFY, which a client may leave out.
    pub fn unidentified(server: &ServerLimits) -> Negotiated {
        Negotiated {
            client_id: String::new(),
            hostname: String::new(),
            user_agent: String::new(),
            heartbeat_interval_ms: Some(server.heartbeat_interval_ms),
            output_buffer_bytes: server.output_buffer_bytes,
            output_buffer_timeout_ms: server.output_buffer_timeout_ms,
            sample_rate: 0,
            msg_timeout_ms: server.msg_timeout_ms,
            layers: Layers::default(),
            acks: None,
            declaration: None,
        }
    }

    /// Whether heartbeats are on: the argument of [`crate::decode`].
    pub fn heartbeats_enabled(&self) -> bool {
        self.heartbeat_interval_ms.is_some()
    }
}

/// How long a text about a client may be; nsqd has no such bound.
pub const MAX_CLIENT_TEXT_BYTES: usize = 1024;

/// SRTM extension: when an ack frame is due, whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy {
    /// So many messages accepted since the last ack, 1 to 65,536.
    pub every_messages: u32,
    /// So long after the first unacknowledged message, 1 to 1000.
    pub interval_ms: u32,
}

/// Reads IDENTIFY's body and settles the terms of the connection.
///
/// With them comes the JSON answer; `None` means that plain `OK` is the answer, because the client
/// does not negotiate features (its other wishes are granted all the same).
///
/// # Errors
/// The fatal error frame of nsqd for JSON that cannot be read or a wish out of range.
pub fn negotiate(
    body: &[u8],
    server: &ServerLimits,
) -> Result<(Negotiated, Option<Vec<u8>>), ProtocolError> {
    renegotiate(body, server, &Negotiated::unidentified(server))
}

/// [`negotiate`] for a connection whose terms so far are `before`: they take the place of the
/// broker's defaults for heartbeats, output buffer and message timeout.
///
/// # Errors
/// As [`negotiate`].
pub fn renegotiate(
    body: &[u8],
    server: &ServerLimits,
    before: &Negotiated,
) -> Result<(Negotiated, Option<Vec<u8>>), ProtocolError> {
    let request = Identify::from_json(body)?;
    let mut terms = terms(&request, server, before)
        .map_err(|text| ProtocolError::new(ErrorCode::BadBody, text))?;
    if !request.feature_negotiation {
        return Ok((terms, None));
    }
    terms.layers = layers::granted(&request, server, before)?;
    let follow = terms.layers.beyond(before.layers);
    let answer = serde_json::to_vec(&ServerFeatures::granting(&terms, follow, server))
        .map_err(|error| ProtocolError::identify_failed(&error.to_string()))?;
    Ok((terms, Some(answer)))
}

fn terms(
    request: &Identify,
    server: &ServerLimits,
    before: &Negotiated,
) -> Result<Negotiated, String> {
    let heartbeat_interval_ms = match request.heartbeat_interval {
        -1 => None,
        0 => before.heartbeat_interval_ms,
        wish => Some(
            within(
                wish,
                MIN_HEARTBEAT_INTERVAL_MS,
                server.max_heartbeat_interval_ms,
            )
            .ok_or_else(|| format!("IDENTIFY heartbeat interval ({wish}) is invalid"))?,
        ),
    };
    let (output_buffer_bytes, output_buffer_timeout_ms) = output_buffer(request, server, before)?;
    let sample_rate = match u8::try_from(request.sample_rate) {
        Ok(percent) if percent < 100 => percent,
        _ => {
            return Err(format!(
                "IDENTIFY sample rate ({}) is invalid",
                request.sample_rate
            ));
        }
    };
    let msg_timeout_ms = match request.msg_timeout {
        0 => before.msg_timeout_ms,
        wish => within(wish, MIN_MSG_TIMEOUT_MS, server.max_msg_timeout_ms)
            .ok_or_else(|| format!("IDENTIFY msg timeout ({wish}) is invalid"))?,
    };
    Ok(Negotiated {
        client_id: bounded(&request.client_id),
        hostname: bounded(&request.hostname),
        user_agent: bounded(&request.user_agent),
        heartbeat_interval_ms,
        output_buffer_bytes,
        output_buffer_timeout_ms,
        sample_rate,
        msg_timeout_ms,
        layers: before.layers,
        acks: request
            .srtm
            .filter(|_| request.feature_negotiation)
            .map(ack_policy),
        declaration: request.publisher.clone(),
    })
}

const MIN_HEARTBEAT_INTERVAL_MS: u64 = 1000;
const MIN_MSG_TIMEOUT_MS: u64 = 1000;
const MIN_OUTPUT_BUFFER_BYTES: u64 = 64;

/// Size and timeout; nsqd checks the timeout first.
fn output_buffer(
    request: &Identify,
    server: &ServerLimits,
    before: &Negotiated,
) -> Result<(u32, u64), String> {
    let timeout_ms = match request.output_buffer_timeout {
        -1 => 0,
        0 => before.output_buffer_timeout_ms,
        wish => within(
            wish,
            server.min_output_buffer_timeout_ms,
            server.max_output_buffer_timeout_ms,
        )
        .ok_or_else(|| format!("IDENTIFY output buffer timeout ({wish}) is invalid"))?,
    };
    match request.output_buffer_size {
        -1 => Ok((1, 0)),
        0 => Ok((before.output_buffer_bytes, timeout_ms)),
        wish => within(
            wish,
            MIN_OUTPUT_BUFFER_BYTES,
            u64::from(server.max_output_buffer_bytes),
        )
        .and_then(|bytes| u32::try_from(bytes).ok())
        .map(|bytes| (bytes, timeout_ms))
        .ok_or_else(|| format!("IDENTIFY output buffer size ({wish}) is invalid")),
    }
}

fn within(wish: i64, least: u64, most: u64) -> Option<u64> {
    u64::try_from(wish)
        .ok()
        .filter(|value| (least..=most).contains(value))
}

fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_CLIENT_TEXT_BYTES)].to_owned()
}

/// Missing or 0: the default. Otherwise the nearest value in range.
fn ack_policy(request: AckRequest) -> AckPolicy {
    let granted = |wish: i64, default: u32, most: u32| match wish {
        0 => default,
        // In range after clamping.
        wish => wish.clamp(1, i64::from(most)) as u32,
    };
    AckPolicy {
        every_messages: granted(
            request.ack_every_messages,
            DEFAULT_ACK_EVERY_MESSAGES,
            MAX_ACK_EVERY_MESSAGES,
        ),
        interval_ms: granted(
            request.ack_interval_ms,
            DEFAULT_ACK_INTERVAL_MS,
            MAX_ACK_INTERVAL_MS,
        ),
    }
}

const DEFAULT_ACK_EVERY_MESSAGES: u32 = 64;
const MAX_ACK_EVERY_MESSAGES: u32 = 65_536;
const DEFAULT_ACK_INTERVAL_MS: u32 = 5;
const MAX_ACK_INTERVAL_MS: u32 = 1000;
#[cfg(test)]
mod tests;
