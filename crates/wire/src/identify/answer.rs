//! The JSON that answers IDENTIFY.
//!
//! A broker writes it, a client reads it; a field that a stock nsqd leaves out reads as zero.

use super::layers::deflate_level;
use super::{Compression, Layers, Negotiated, ServerLimits};
use crate::WireError;
use serde::{Deserialize, Serialize};

/// The answer to a client that negotiates features; fields and their order are nsqd's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerFeatures {
    /// Largest RDY count.
    pub max_rdy_count: i64,
    /// The broker's version.
    pub version: String,
    /// The longest time to finish a message, in milliseconds.
    pub max_msg_timeout: i64,
    /// The granted time to finish a message, in milliseconds.
    pub msg_timeout: i64,
    /// Whether TLS follows.
    pub tls_v1: bool,
    /// Whether deflate follows.
    pub deflate: bool,
    /// The granted level of deflate.
    pub deflate_level: i64,
    /// The highest level of deflate.
    pub max_deflate_level: i64,
    /// Whether snappy follows.
    pub snappy: bool,
    /// The granted sample rate in percent.
    pub sample_rate: i32,
    /// Whether AUTH must follow.
    pub auth_required: bool,
    /// The granted output buffer in bytes.
    pub output_buffer_size: i64,
    /// The granted time in the output buffer, in milliseconds.
    pub output_buffer_timeout: i64,
    /// The granted extension; not there for a client that did not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srtm: Option<SrtmFeatures>,
}

/// SRTM extension, as granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SrtmFeatures {
    /// Version of the extension: 2. Brokers of version 1 know only acks.
    pub version: u32,
    /// Whether the declaration was taken: Migrate and Throttled frames may come.
    pub publisher: bool,
    /// See [`super::AckPolicy::every_messages`]; not there where every command gets its `OK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every_messages: Option<u32>,
    /// See [`super::AckPolicy::interval_ms`]; not there where every command gets its `OK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_interval_ms: Option<u32>,
}

const SRTM_VERSION: u32 = 2;

impl ServerFeatures {
    /// Reads an answer.
    ///
    /// # Errors
    /// [`WireError::IdentifyAnswer`]; also for the plain `OK` of a broker that was not asked to
    /// negotiate.
    pub fn from_json(body: &[u8]) -> Result<ServerFeatures, WireError> {
        serde_json::from_slice(body).map_err(|_| WireError::IdentifyAnswer)
    }

    /// What `terms` grant, in the words of the answer, which these layers `follow`.
    pub(super) fn granting(
        terms: &Negotiated,
        follow: Layers,
        server: &ServerLimits,
    ) -> ServerFeatures {
        let level = match follow.compression {
            Some(Compression::Deflate { level }) => level,
            _ => deflate_level(0, server),
        };
        let milliseconds = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        ServerFeatures {
            max_rdy_count: i64::from(server.max_rdy_count),
            version: server.version.clone(),
            max_msg_timeout: milliseconds(server.max_msg_timeout_ms),
            msg_timeout: milliseconds(terms.msg_timeout_ms),
            tls_v1: follow.tls,
            deflate: matches!(follow.compression, Some(Compression::Deflate { .. })),
            deflate_level: i64::from(level),
            max_deflate_level: i64::from(server.max_deflate_level),
            snappy: follow.compression == Some(Compression::Snappy),
            sample_rate: i32::from(terms.sample_rate),
            auth_required: server.auth_required,
            output_buffer_size: i64::from(terms.output_buffer_bytes),
            output_buffer_timeout: milliseconds(terms.output_buffer_timeout_ms),
            srtm: SrtmFeatures::granting(terms),
        }
    }
}

impl SrtmFeatures {
    fn granting(terms: &Negotiated) -> Option<SrtmFeatures> {
        let publisher = terms.declaration.is_some();
        (publisher || terms.acks.is_some()).then(|| SrtmFeatures {
            version: SRTM_VERSION,
            publisher,
            ack_every_messages: terms.acks.map(|acks| acks.every_messages),
            ack_interval_ms: terms.acks.map(|acks| acks.interval_ms),
        })
    }
}
