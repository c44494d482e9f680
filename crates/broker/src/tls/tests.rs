//! Certificates made for the occasion, and what comes of them.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

use super::*;

/// A folder with what an authority has signed for a broker.
pub(crate) struct Papers {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// Who signed a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signed {
    ByAuthority,
    ByItself,
}

impl Papers {
    pub(crate) fn new(name: &str) -> Papers {
        let name = format!("srtm-tls-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random");
        let authority = CertifiedIssuer::self_signed(params, key).expect("signed");
        let papers = Papers { folder, authority };
        papers.write("authority.pem", &papers.authority.pem());
        papers.renew();
        papers
    }

    /// The broker gets another key and certificate.
    pub(crate) fn renew(&self) {
        let (certificate, key) = self.paper(Signed::ByAuthority);
        self.write("broker.pem", &certificate);
        self.write("broker.key", &key);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("written");
    }

    pub(crate) fn config(&self) -> TlsConfig {
        TlsConfig {
            certificate: self.folder.join("broker.pem"),
            key: self.folder.join("broker.key"),
            authorities: Some(self.folder.join("authority.pem")),
            clients: ClientAuth::None,
            least_version: TlsVersion::default(),
        }
    }

    /// A client that trusts the authority, with a certificate of its own or without.
    pub(crate) fn client(&self, own: Option<Signed>) -> ClientConnection {
        self.client_of(own, &[&TLS13, &TLS12])
    }

    fn client_of(
        &self,
        own: Option<Signed>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("valid");
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("known")
            .with_root_certificates(roots);
        let config = match own.map(|signed| self.paper(signed)) {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("fits")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a config of use")
    }

    /// Certificate and key in PEM form.
    fn paper(&self, signed: Signed) -> (String, String) {
        let params = CertificateParams::new(vec![String::from("localhost")]).expect("valid");
        let key = KeyPair::generate().expect("random");
        let certificate = match signed {
            Signed::ByAuthority => params.signed_by(&key, &self.authority),
            Signed::ByItself => params.self_signed(&key),
        };
        (certificate.expect("signed").pem(), key.serialize_pem())
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A whole handshake; gives the certificate that the client saw, or what either end found wrong.
fn shake(
    credentials: &Credentials,
    mut client: ClientConnection,
) -> Result<CertificateDer<'static>, rustls::Error> {
    let mut broker = ServerConnection::new(credentials.current()).expect("of use");
    let mut wire = Vec::new();
    while broker.is_handshaking() || client.is_handshaking() {
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            broker.read_tls(&mut rest).expect("memory");
            broker.process_new_packets()?;
        }
        wire.clear();
        while broker.wants_write() {
            broker.write_tls(&mut wire).expect("memory");
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets()?;
        }
        wire.clear();
    }
    let chain = client.peer_certificates().expect("it proved itself");
    Ok(chain[0].clone().into_owned())
}

#[test]
fn clients_are_let_in_by_the_policy() {
    let papers = Papers::new("policy");
    for (clients, none, itself, authority) in [
        (ClientAuth::None, true, true, true),
        (ClientAuth::Any, false, true, true),
        (ClientAuth::Verified, false, false, true),
    ] {
        let config = TlsConfig {
            clients,
            ..papers.config()
        };
        let credentials = Credentials::load(config).expect("of use");
        for (own, is_let_in) in [
            (None, none),
            (Some(Signed::ByItself), itself),
            (Some(Signed::ByAuthority), authority),
        ] {
            let shaken = shake(&credentials, papers.client(own));
            assert_eq!(shaken.is_ok(), is_let_in, "{clients:?} {own:?}: {shaken:?}");
        }
    }
}

#[test]
fn older_versions_than_the_least_are_refused() {
    let papers = Papers::new("version");
    for (least_version, has_12) in [(TlsVersion::Tls12, true), (TlsVersion::Tls13, false)] {
        let config = TlsConfig {
            least_version,
            ..papers.config()
        };
        let credentials = Credentials::load(config).expect("of use");
        let shaken = shake(&credentials, papers.client_of(None, &[&TLS12]));
        assert_eq!(shaken.is_ok(), has_12, "{least_version:?}: {shaken:?}");
        shake(&credentials, papers.client(None)).expect("1.3 is spoken");
    }
}

#[test]
fn files_that_change_are_read_again_and_those_of_no_use_are_not_taken() {
    let papers = Papers::new("renewed");
    let credentials = Credentials::load(papers.config()).expect("of use");
    let seen = || {
        credentials.look_again();
        shake(&credentials, papers.client(None)).expect("it goes on")
    };
    let first = seen();
    assert_eq!(seen(), first);
    papers.renew();
    let second = seen();
    assert_ne!(second, first);
    // A certificate whose key is not there yet, and what is none at all.
    let (certificate, key) = papers.paper(Signed::ByAuthority);
    papers.write("broker.pem", &certificate);
    assert_eq!(seen(), second);
    papers.write("broker.pem", "nothing");
    assert_eq!(seen(), second);
    std::fs::remove_file(papers.folder.join("broker.pem")).expect("it was there");
    assert_eq!(seen(), second);
    papers.write("broker.key", &key);
    papers.write("broker.pem", &certificate);
    assert_ne!(seen(), second);
}

#[test]
fn what_is_wrong_with_files_is_said() {
    let papers = Papers::new("wrong");
    let none = |name: &str| papers.folder.join(name);
    papers.write("empty.pem", "");
    papers.write("other.key", &papers.paper(Signed::ByItself).1);
    let good = papers.config();
    let verified = TlsConfig {
        clients: ClientAuth::Verified,
        ..good.clone()
    };
    for (config, option, word) in [
        (
            TlsConfig {
                certificate: none("no.pem"),
                ..good.clone()
            },
            "--tls-cert",
            "no.pem",
        ),
        (
            TlsConfig {
                certificate: none("empty.pem"),
                ..good.clone()
            },
            "--tls-cert",
            "no certificate",
        ),
        (
            TlsConfig {
                key: none("no.key"),
                ..good.clone()
            },
            "--tls-key",
            "no.key",
        ),
        (
            TlsConfig {
                key: none("broker.pem"),
                ..good.clone()
            },
            "--tls-key",
            "broker.pem",
        ),
        (
            TlsConfig {
                key: none("other.key"),
                ..good
            },
            "--tls-cert",
            "other.key",
        ),
        (
            TlsConfig {
                authorities: None,
                ..verified.clone()
            },
            "--tls-root-ca-file",
            "name the file",
        ),
        (
            TlsConfig {
                authorities: Some(none("empty.pem")),
                ..verified
            },
            "--tls-root-ca-file",
            "no certificate",
        ),
    ] {
        let error = Credentials::load(config).expect_err(word).to_string();
        assert!(error.starts_with(option) && error.contains(word), "{error}");
    }
}
