//! Certificates made for the occasion.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use keys::{Authority, Issued, Order, Usage, Validity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// A folder with what an authority has signed for a broker.
pub(crate) struct Papers {
    folder: PathBuf,
    authority: Authority,
}

impl Papers {
    pub(crate) fn new(name: &str) -> Papers {
        let name = format!("srtm-tls-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let (authority, _) = Authority::new("authority", validity()).expect("made");
        let papers = Papers { folder, authority };
        papers.write("authority.pem", papers.authority.certificate());
        let order = Order {
            name: "localhost",
            hosts: &[],
            usage: Usage::Node,
            validity: validity(),
        };
        let Issued { certificate, key } = papers.authority.issue(&order).expect("signed");
        papers.write("broker.pem", &certificate);
        papers.write("broker.key", &key);
        papers
    }

    fn write(&self, name: &str, text: &str) {
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

    /// A client that trusts the authority.
    pub(crate) fn client(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let certificate = self.authority.certificate().as_bytes();
        let certificate = CertificateDer::from_pem_slice(certificate).expect("PEM");
        roots.add(certificate).expect("valid");
        let config = ClientConfig::builder_with_provider(credentials::provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("known")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a config of use")
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// No clock of a machine that runs tests is beyond it.
fn validity() -> Validity {
    Validity {
        from: UNIX_EPOCH,
        until: UNIX_EPOCH + Duration::from_secs(4_000_000_000),
    }
}
