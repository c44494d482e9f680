//! PEM files.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::CredentialsError;

/// All certificates of a file, one at least.
pub(crate) fn certificates(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let unread = |error: &dyn std::fmt::Display| CredentialsError::unread(option, path, error);
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unread(&error))?;
    match found.is_empty() {
        true => Err(unread(&"it holds no certificate in PEM form")),
        false => Ok(found),
    }
}

/// The key of a file.
pub(crate) fn key(
    option: &'static str,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, CredentialsError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| CredentialsError::unread(option, path, error))
}

/// Those whose signatures are believed.
pub(crate) fn roots(
    option: &'static str,
    path: &Path,
    certificates: &[CertificateDer<'static>],
) -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|error| CredentialsError::unread(option, path, error))?;
    }
    Ok(roots)
}
