//! The layers between a connection's commands and its bytes: encryption, compression.

use super::{Identify, Negotiated, ServerLimits};
use crate::{ErrorCode, ProtocolError};

/// How bytes are made small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Snappy in its framing format.
    Snappy,
    /// Deflate without a header.
    Deflate {
        /// How hard the broker tries, 1 to 9.
        level: u32,
    },
}

/// Layers of a connection, in both directions. TLS is outside, compression within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layers {
    /// TLS.
    pub tls: bool,
    /// Compression.
    pub compression: Option<Compression>,
}

impl Layers {
    /// Those of them that `before` has not.
    #[must_use]
    pub fn beyond(self, before: Layers) -> Layers {
        Layers {
            tls: self.tls && !before.tls,
            compression: self.compression.filter(|_| before.compression.is_none()),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Layers::default()
    }
}

/// What of a client's wishes is granted on top of what its connection has. A layer is wished for once; TLS comes before compression.
pub(super) fn granted(
    request: &Identify,
    server: &ServerLimits,
    before: &Negotiated,
) -> Result<Layers, ProtocolError> {
    let has = before.layers;
    let tls = server.tls && request.tls_v1;
    let compression = match (
        server.deflate && request.deflate,
        server.snappy && request.snappy,
    ) {
        (true, true) => {
            let text = "cannot enable both deflate and snappy compression";
            return Err(ProtocolError::new(ErrorCode::IdentifyFailed, text));
        }
        (true, false) => Some(Compression::Deflate {
            level: deflate_level(request.deflate_level, server),
        }),
        (false, true) => Some(Compression::Snappy),
        (false, false) => None,
    };
    if has.tls && tls {
        return Err(ProtocolError::identify_failed(
            "this connection has TLS already",
        ));
    }
    if has.compression.is_some() && (compression.is_some() || tls) {
        return Err(ProtocolError::identify_failed(
            "this connection is compressed already",
        ));
    }
    Ok(Layers {
        tls: has.tls || tls,
        compression: has.compression.or(compression),
    })
}

/// nsqd names this level even to a client that gets no deflate.
const DEFAULT_DEFLATE_LEVEL: u32 = 6;

/// The level for a client that wishes for `wish`, where 0 is no wish.
pub(super) fn deflate_level(wish: i64, server: &ServerLimits) -> u32 {
    let wish = u32::try_from(wish.clamp(0, i64::from(u32::MAX))).unwrap_or_default();
    let level = match wish {
        0 => DEFAULT_DEFLATE_LEVEL,
        wish => wish,
    };
    level.min(server.max_deflate_level)
}
