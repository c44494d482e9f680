//! What a process proves itself by in TLS, and whom it believes.
//!
//! * [`Credentials`] are a daemon's: a certificate with its key, who judges clients, and, where authorities are named, what it asks other
//!   daemons with. Its files are read again when they change; connections that are there keep what they began with.
//! * [`Trust`] is a client's: the authorities that it believes, and a certificate of its own if it has one. It is read once.
//!
//! Not here: connections. Who has one asks for a [`rustls::ServerConfig`] or a [`rustls::ClientConfig`] when it begins.

mod any_client;
mod current;
mod error;
mod files;
mod trust;

use std::path::PathBuf;
use std::sync::Arc;

pub use current::Credentials;
pub use error::CredentialsError;
pub use trust::{Trust, TrustFiles};

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, ring};

/// What a daemon needs for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with its certificate and those between it and its authority.
    pub certificate: PathBuf,
    /// PEM file with the key of the certificate.
    pub key: PathBuf,
    /// PEM file with the authorities of clients' certificates, and of those of other daemons.
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

/// The cryptography that everything here is done with: AES with 128 bits goes before longer keys, which cost more and protect
/// nothing here better (as Go's `crypto/tls` and browsers have it).
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let goes_first = matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        );
        !goes_first
    });
    Arc::new(provider)
}
