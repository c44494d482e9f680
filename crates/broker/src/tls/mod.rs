//! TLS of a broker: whom it serves without, and a thread for what takes time in a handshake.
//!
//! Files are read at the start, and again when they change ([`credentials::Credentials`]). Connections that are there keep what they
//! began with.

mod handshakes;

pub(crate) use credentials::Credentials;
pub use credentials::{ClientAuth, TlsConfig, TlsVersion};
#[cfg(test)]
pub(crate) use handshakes::ByHand;
pub(crate) use handshakes::{Handshakes, Shaken};

/// Who is not served without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsRequired {
    /// Everybody is.
    #[default]
    No,
    /// NSQ's clients are refused; HTTP is served plain too.
    ExceptHttp,
    /// Nobody is.
    Yes,
}

impl TlsRequired {
    /// Whether NSQ's clients need TLS.
    #[must_use]
    pub fn is_for_clients(self) -> bool {
        self != TlsRequired::No
    }
}

#[cfg(test)]
pub(crate) mod tests;
