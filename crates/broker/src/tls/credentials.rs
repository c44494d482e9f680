//! What a broker proves itself by at present: files that are read again when they change.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::any_client::AnyClient;
use super::{ClientAuth, TlsConfig, TlsVersion};
use crate::BrokerError;

/// A certificate with its key, and who judges clients.
#[derive(Debug)]
pub struct Credentials {
    files: TlsConfig,
    current: RwLock<Arc<ServerConfig>>,
    seen: Mutex<Seen>,
}

/// How files looked; `None`: one was not there.
type Seen = Vec<Option<(u64, u64, i64, i64, u64)>>;

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// [`BrokerError::Config`] naming the file that is of no use.
    pub fn load(files: TlsConfig) -> Result<Credentials, BrokerError> {
        // Looked at first: what changes from here on is read again.
        let seen = look(&files);
        let current = server_config(&files)?;
        Ok(Credentials {
            files,
            current: RwLock::new(current),
            seen: Mutex::new(seen),
        })
    }

    /// What connections that begin now are served with.
    #[must_use]
    pub fn current(&self) -> Arc<ServerConfig> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// Reads the files again if they have changed. If they are of no use then, what was read before stays, and the log says so.
    pub fn look_again(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = look(&self.files);
        if *seen == now {
            return;
        }
        *seen = now;
        match server_config(&self.files) {
            Ok(config) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = config;
                let path = self.files.certificate.display();
                tracing::info!("TLS: {path} has changed; new connections get what it holds now");
            }
            Err(error) => tracing::error!(
                "TLS: what was read before stays in use, because the files have changed and are of no use: {error}"
            ),
        }
    }
}

fn look(files: &TlsConfig) -> Seen {
    let paths = [&files.certificate, &files.key].into_iter();
    let look = |path: &std::path::PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        let changed = (found.mtime(), found.mtime_nsec());
        Some((found.dev(), found.ino(), changed.0, changed.1, found.len()))
    };
    paths.chain(&files.authorities).map(look).collect()
}

fn server_config(files: &TlsConfig) -> Result<Arc<ServerConfig>, BrokerError> {
    let provider = Arc::new(ring::default_provider());
    let both = [&TLS13, &TLS12];
    let versions = match files.least_version {
        TlsVersion::Tls12 => &both[..],
        TlsVersion::Tls13 => &both[..1],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| bad("--tls-min-version", error))?;
    let builder = match files.clients {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Any => builder.with_client_cert_verifier(Arc::new(AnyClient(provider))),
        ClientAuth::Verified => {
            let roots = Arc::new(authorities(files.authorities.as_deref())?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = verifier.build();
            builder.with_client_cert_verifier(verifier.map_err(|e| bad("--tls-root-ca-file", e))?)
        }
    };
    let chain = certificates("--tls-cert", &files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| unread("--tls-key", &files.key, error))?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        bad(
            "--tls-cert",
            format!("{certificate} with the key {key}: {error}"),
        )
    })?;
    // Connections last: none is worth remembering for its next handshake.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn authorities(path: Option<&Path>) -> Result<RootCertStore, BrokerError> {
    let option = "--tls-root-ca-file";
    let Some(path) = path else {
        let reason = "clients are verified by it; name the file with their authorities";
        return Err(bad(option, reason));
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(option, path)? {
        roots
            .add(certificate)
            .map_err(|error| unread(option, path, error))?;
    }
    Ok(roots)
}

fn certificates(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unread(option, path, error))?;
    match found.is_empty() {
        true => Err(unread(option, path, "it holds no certificate in PEM form")),
        false => Ok(found),
    }
}

fn unread(option: &'static str, path: &Path, error: impl std::fmt::Display) -> BrokerError {
    bad(option, format!("{}: {error}", path.display()))
}

fn bad(option: &'static str, reason: impl std::fmt::Display) -> BrokerError {
    BrokerError::Config {
        option,
        reason: reason.to_string(),
    }
}
