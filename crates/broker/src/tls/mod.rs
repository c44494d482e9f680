//! TLS of a broker: what it proves itself by, whom it lets in, and a thread for what takes time in a handshake.
//!
//! Files are read at the start, and again when they change. Connections that are there keep what they began with.

mod any_client;
mod credentials;
mod handshakes;

use std::path::PathBuf;

pub(crate) use credentials::Credentials;
#[cfg(test)]
pub(crate) use handshakes::ByHand;
pub(crate) use handshakes::{Handshakes, Shaken};

/// What a broker needs for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with its certificate and those between it and its authority.
    pub certificate: PathBuf,
    /// PEM file with the key of the certificate.
    pub key: PathBuf,
    /// PEM file with the authorities of clients' certificates.
    pub authorities: Option<PathBuf>,
    /// Which clients are let in.
    pub clients: ClientAuth,
    /// The least version that is spoken.
    pub least_version: TlsVersion,
}

/// Which certificates clients need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// None.
    #[default]
    None,
    /// Any: they prove that they have its key, and nobody asks who signed it.
    Any,
    /// One that an authority has signed.
    Verified,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2.
    #[default]
    Tls12,
    /// 1.3.
    Tls13,
}

/// Who is not served without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsRequired {
    /// Everybody is.
    #[default]
    No,
    /// NSQ's clients are not; HTTP is served as it is.
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
