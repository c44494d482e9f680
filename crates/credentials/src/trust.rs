//! Whom a client believes, and what it proves itself by.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{CredentialsError, files, provider};

const KEY: &str = "--cert-key";

/// The files of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustFiles {
    /// PEM file with the authorities of servers' certificates.
    pub authorities: PathBuf,
    /// PEM files with a certificate of its own and the key of that; `None`: it has none.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Whom a client believes, and what it proves itself by. Cheap to clone.
#[derive(Clone)]
pub struct Trust(Arc<Read>);

struct Read {
    authorities: Vec<CertificateDer<'static>>,
    /// Its certificates, and its key as the file has it.
    own: Option<(Vec<CertificateDer<'static>>, Vec<u8>)>,
    config: Arc<ClientConfig>,
}

impl Trust {
    /// Reads the files.
    ///
    /// # Errors
    /// [`CredentialsError`] naming the flag of the file that is of no use: `--ca`, `--cert` or `--cert-key`.
    pub fn load(named: &TrustFiles) -> Result<Trust, CredentialsError> {
        let authorities = files::certificates("--ca", &named.authorities)?;
        let own = match &named.own {
            None => None,
            Some((certificate, key)) => {
                let text = std::fs::read(key);
                let text = text.map_err(|error| CredentialsError::unread(KEY, key, error))?;
                Some((files::certificates("--cert", certificate)?, text))
            }
        };
        let roots = files::roots("--ca", &named.authorities, &authorities)?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| CredentialsError::new("--ca", error))?
            .with_root_certificates(roots);
        let config = match &own {
            None => builder.with_no_client_auth(),
            Some((chain, text)) => {
                let key = PrivateKeyDer::from_pem_slice(text)
                    .map_err(|error| CredentialsError::new(KEY, error))?;
                let built = builder.with_client_auth_cert(chain.clone(), key);
                let unfit = |error| format!("it does not fit --cert-key: {error}");
                built.map_err(|error| CredentialsError::new("--cert", unfit(error)))?
            }
        };
        Ok(Trust(Arc::new(Read {
            authorities,
            own,
            config: Arc::new(config),
        })))
    }

    /// What connections begin with.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.config)
    }

    /// The certificates of the authorities.
    #[must_use]
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.0.authorities
    }

    /// Its own certificate, with those between it and its authority, and the key in PEM form.
    #[must_use]
    pub fn own(&self) -> Option<(&[CertificateDer<'static>], &[u8])> {
        let (chain, key) = self.0.own.as_ref()?;
        Some((chain, key))
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust(…)")
    }
}

impl PartialEq for Trust {
    /// Whether both were read at once.
    fn eq(&self, other: &Trust) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
