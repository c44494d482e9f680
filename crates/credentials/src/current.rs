//! What a daemon proves itself by at present: files that are read again when they change.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::any_client::AnyClient;
use crate::{ClientAuth, CredentialsError, TlsConfig, TlsVersion, files, provider};

/// A certificate with its key, who judges clients, and what other daemons are asked with.
#[derive(Debug)]
pub struct Credentials {
    files: TlsConfig,
    current: RwLock<Current>,
    seen: Mutex<Seen>,
}

/// What was read last.
#[derive(Clone, Debug)]
struct Current {
    server: Arc<ServerConfig>,
    /// For those whom only daemons with a certificate may talk to.
    peers: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
}

/// How files looked; `None`: one was not there.
type Seen = Vec<Option<(u64, u64, i64, i64, u64)>>;

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// [`CredentialsError`] naming the file that is of no use.
    pub fn load(files: TlsConfig) -> Result<Credentials, CredentialsError> {
        // Looked at first: what changes from here on is read again.
        let seen = look(&files);
        let current = Current::read(&files)?;
        Ok(Credentials {
            files,
            current: RwLock::new(current),
            seen: Mutex::new(seen),
        })
    }

    /// What connections of clients that begin now are served with.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        self.now().server
    }

    /// What connections of other daemons are served with, which all need a certificate that an authority has signed; `None`: no
    /// authorities are named.
    #[must_use]
    pub fn peers(&self) -> Option<Arc<ServerConfig>> {
        self.now().peers
    }

    /// What connections to other daemons begin with; `None`: no authorities are named.
    #[must_use]
    pub fn client(&self) -> Option<Arc<ClientConfig>> {
        self.now().client
    }

    /// Reads the files again if they have changed. If they are of no use then, what was read before stays, and the log says so.
    pub fn look_again(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = look(&self.files);
        if *seen == now {
            return;
        }
        *seen = now;
        match Current::read(&self.files) {
            Ok(read) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = read;
                let path = self.files.certificate.display();
                tracing::info!("TLS: {path} has changed; new connections get what it holds now");
            }
            Err(error) => tracing::error!(
                "TLS: what was read before stays in use, because the files have changed and are of no use: {error}"
            ),
        }
    }

    fn now(&self) -> Current {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
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

impl Current {
    fn read(files: &TlsConfig) -> Result<Current, CredentialsError> {
        let own = Own::read(files)?;
        let roots = files.authorities.as_deref().map(authorities).transpose()?;
        let client = roots.as_ref().map(|roots| own.client(roots.clone()));
        let peers = roots.as_ref().map(|roots| own.verifying(roots.clone()));
        let server = match (files.clients, &peers) {
            (ClientAuth::None, _) => own.serving(None),
            (ClientAuth::Any, _) => own.serving(Some(Arc::new(AnyClient(provider())))),
            (ClientAuth::Verified, Some(peers)) => peers.clone(),
            (ClientAuth::Verified, None) => {
                let reason = "clients are verified by it; name the file with their authorities";
                return Err(CredentialsError::new(AUTHORITIES, reason));
            }
        };
        Ok(Current {
            server: server?,
            peers: peers.transpose()?,
            client: client.transpose()?,
        })
    }
}

/// The certificate and its key.
struct Own<'a> {
    files: &'a TlsConfig,
    versions: &'static [&'static SupportedProtocolVersion],
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

const CERTIFICATE: &str = "--tls-cert";
const AUTHORITIES: &str = "--tls-root-ca-file";

impl Own<'_> {
    fn read(files: &TlsConfig) -> Result<Own<'_>, CredentialsError> {
        static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        Ok(Own {
            files,
            versions: match files.least_version {
                TlsVersion::Tls12 => &BOTH[..],
                TlsVersion::Tls13 => &BOTH[..1],
            },
            chain: files::certificates(CERTIFICATE, &files.certificate)?,
            key: files::key("--tls-key", &files.key)?,
        })
    }

    /// Serves clients that `verifier` lets in, or all.
    fn serving(
        &self,
        verifier: Option<Arc<dyn rustls::server::danger::ClientCertVerifier>>,
    ) -> Result<Arc<ServerConfig>, CredentialsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(self.versions)
            .map_err(unspoken)?;
        let builder = match verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let config = builder.with_single_cert(self.chain.clone(), self.key.clone_key());
        let mut config = config.map_err(|error| self.mismatched(error))?;
        // Connections last: none is worth remembering for its next handshake.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// Serves clients whose certificate one of `roots` has signed.
    fn verifying(&self, roots: RootCertStore) -> Result<Arc<ServerConfig>, CredentialsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build();
        self.serving(Some(
            verifier.map_err(|error| CredentialsError::new(AUTHORITIES, error))?,
        ))
    }

    /// Asks servers whose certificate one of `roots` has signed.
    fn client(&self, roots: RootCertStore) -> Result<Arc<ClientConfig>, CredentialsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(self.versions)
            .map_err(unspoken)?
            .with_root_certificates(roots);
        let config = builder.with_client_auth_cert(self.chain.clone(), self.key.clone_key());
        Ok(Arc::new(config.map_err(|error| self.mismatched(error))?))
    }

    fn mismatched(&self, error: rustls::Error) -> CredentialsError {
        let (certificate, key) = (self.files.certificate.display(), self.files.key.display());
        CredentialsError::new(
            CERTIFICATE,
            format!("{certificate} with the key {key}: {error}"),
        )
    }
}

fn unspoken(error: rustls::Error) -> CredentialsError {
    CredentialsError::new("--tls-min-version", error)
}

fn authorities(path: &Path) -> Result<RootCertStore, CredentialsError> {
    files::roots(AUTHORITIES, path, &files::certificates(AUTHORITIES, path)?)
}

#[cfg(test)]
mod tests;
