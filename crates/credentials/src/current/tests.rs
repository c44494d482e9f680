//! Certificates made for the occasion, and what comes of them.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use keys::{Authority, Issued, Order, Usage, Validity};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConnection, ServerConnection};

use super::*;
use crate::{Trust, TrustFiles};

/// A folder with what an authority has signed for a daemon.
struct Papers {
    folder: PathBuf,
    authority: Authority,
}

/// Who signed a client's certificate, and how it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signed {
    ByAuthority,
    ByAnother,
    /// By the authority, and it counts no more.
    Formerly,
    /// By the authority, for a daemon.
    ForNode,
}

impl Papers {
    fn new(name: &str) -> Papers {
        let name = format!("srtm-credentials-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let (authority, _) = Authority::new("authority", forever()).expect("made");
        let papers = Papers { folder, authority };
        papers.write("authority.pem", papers.authority.certificate());
        papers.renew();
        papers
    }

    /// The daemon gets another key and certificate.
    fn renew(&self) {
        let Issued { certificate, key } = self.paper(Signed::ForNode);
        self.write("broker.pem", &certificate);
        self.write("broker.key", &key);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("written");
    }

    fn config(&self) -> TlsConfig {
        TlsConfig {
            certificate: self.folder.join("broker.pem"),
            key: self.folder.join("broker.key"),
            authorities: Some(self.folder.join("authority.pem")),
            clients: ClientAuth::None,
            least_version: TlsVersion::default(),
        }
    }

    /// A client that trusts the authority, with a certificate of its own or without.
    fn client(&self, own: Option<Signed>) -> ClientConnection {
        self.client_of(own, &[&TLS13, &TLS12])
    }

    fn client_of(
        &self,
        own: Option<Signed>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConnection {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("known")
            .with_root_certificates(authorities(&self.folder.join("authority.pem")).expect("PEM"));
        let config = match own.map(|signed| self.paper(signed)) {
            None => builder.with_no_client_auth(),
            Some(Issued { certificate, key }) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("fits")
            }
        };
        connection(Arc::new(config))
    }

    fn paper(&self, signed: Signed) -> Issued {
        let (another, _) = Authority::new("authority", forever()).expect("made");
        let past = Validity {
            from: UNIX_EPOCH,
            until: UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        };
        let (authority, usage, validity) = match signed {
            Signed::ByAuthority => (&self.authority, Usage::Client, forever()),
            Signed::ByAnother => (&another, Usage::Client, forever()),
            Signed::Formerly => (&self.authority, Usage::Client, past),
            Signed::ForNode => (&self.authority, Usage::Node, forever()),
        };
        let order = Order {
            name: "localhost",
            hosts: &[],
            usage,
            validity,
        };
        authority.issue(&order).expect("signed")
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// No clock of a machine that runs tests is beyond it.
fn forever() -> Validity {
    Validity {
        from: UNIX_EPOCH,
        until: UNIX_EPOCH + Duration::from_secs(4_000_000_000),
    }
}

fn connection(config: Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(config, name).expect("a config of use")
}

/// A whole handshake; gives the certificate that the client saw, or what either end found wrong.
fn shake(
    server: Arc<ServerConfig>,
    mut client: ClientConnection,
) -> Result<CertificateDer<'static>, rustls::Error> {
    let mut server = ServerConnection::new(server).expect("of use");
    let mut wire = Vec::new();
    while server.is_handshaking() || client.is_handshaking() {
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("memory");
            server.process_new_packets()?;
        }
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory");
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
    for (clients, none, unverified, verified) in [
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
            (Some(Signed::ByAnother), unverified),
            (Some(Signed::Formerly), unverified),
            (Some(Signed::ByAuthority), verified),
        ] {
            let shaken = shake(credentials.server(), papers.client(own));
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
        let shaken = shake(credentials.server(), papers.client_of(None, &[&TLS12]));
        assert_eq!(shaken.is_ok(), has_12, "{least_version:?}: {shaken:?}");
        shake(credentials.server(), papers.client(None)).expect("1.3 is spoken");
    }
}

#[test]
fn files_that_change_are_read_again_and_those_of_no_use_are_not_taken() {
    let papers = Papers::new("renewed");
    let credentials = Credentials::load(papers.config()).expect("of use");
    let seen = || {
        credentials.look_again();
        shake(credentials.server(), papers.client(None)).expect("it goes on")
    };
    let first = seen();
    assert_eq!(seen(), first);
    papers.renew();
    let second = seen();
    assert_ne!(second, first);
    // A certificate whose key is not there yet, and what is none at all.
    let Issued { certificate, key } = papers.paper(Signed::ForNode);
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
    papers.write("other.key", &papers.paper(Signed::ByAnother).key);
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

#[test]
fn daemons_prove_themselves_to_each_other_whatever_clients_need() {
    let papers = Papers::new("peers");
    let credentials = Credentials::load(papers.config()).expect("of use");
    let peers = || credentials.peers().expect("authorities are named");
    let daemon = connection(credentials.client().expect("authorities are named"));
    shake(peers(), daemon).expect("both are of the authority");
    for own in [None, Some(Signed::ByAnother), Some(Signed::Formerly)] {
        let shaken = shake(peers(), papers.client(own));
        assert!(shaken.is_err(), "{own:?}");
    }
    let alone = Credentials::load(TlsConfig {
        authorities: None,
        ..papers.config()
    });
    let alone = alone.expect("of use");
    assert!(alone.peers().is_none() && alone.client().is_none());
}

#[test]
fn a_client_says_which_of_its_files_is_of_no_use() {
    let papers = Papers::new("trust");
    let Issued { certificate, key } = papers.paper(Signed::ByAuthority);
    papers.write("client.pem", &certificate);
    papers.write("client.key", &key);
    let file = |name: &str| papers.folder.join(name);
    let files = |authorities: &str, certificate: &str, key: &str| TrustFiles {
        authorities: file(authorities),
        own: Some((file(certificate), file(key))),
    };
    let good = Trust::load(&files("authority.pem", "client.pem", "client.key")).expect("of use");
    let config = TlsConfig {
        clients: ClientAuth::Verified,
        ..papers.config()
    };
    let credentials = Credentials::load(config).expect("of use");
    shake(credentials.server(), connection(good.config())).expect("it is let in");
    for (named, option) in [
        (files("no.pem", "client.pem", "client.key"), "--ca"),
        (files("authority.pem", "client.key", "client.key"), "--cert"),
        (files("authority.pem", "client.pem", "no.key"), "--cert-key"),
        (files("authority.pem", "client.pem", "broker.key"), "--cert"),
    ] {
        let error = Trust::load(&named).expect_err(option);
        assert_eq!(error.option, option, "{error}");
    }
}
