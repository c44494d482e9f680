//! TLS of the client's connections.

use credentials::{Trust, provider};
use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// What connections to servers are encrypted with; without trust, no server's certificate is believed.
pub(crate) fn settings(trust: Option<&Trust>) -> TlsConfig {
    let authorities = trust.map_or(&[][..], Trust::authorities);
    let roots: Vec<Certificate<'static>> = authorities.iter().map(owned).collect();
    let own = trust.and_then(Trust::own);
    let own = own.and_then(|(chain, key)| {
        let chain: Vec<_> = chain.iter().map(owned).collect();
        // It was read as a key before.
        let key = PrivateKey::from_pem(key).ok()?;
        Some(ClientCert::new_with_certs(&chain, key))
    });
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider())
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(own)
        .build()
}

fn owned(der: &CertificateDer<'static>) -> Certificate<'static> {
    Certificate::from_der(der.as_ref()).to_owned()
}
