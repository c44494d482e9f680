//! `--secure FOLDER`: everything that a daemon proves itself by, out of a folder of `srtm keys init`.

use std::path::Path;

use broker::Config;
use broker::tls::{ClientAuth, TlsConfig, TlsRequired, TlsVersion};
use keys::{KeyFolder, Secret, Usage};
use link::LinkKey;
use wire::gossip::Key;

use crate::error::Failure;
use crate::link_key::KeyFile;

/// Whose certificate a controller has.
pub(crate) const CONTROLLER: &str = "controller";
/// Whose certificate people have.
pub(crate) const OPERATOR: &str = "operator";

/// A folder of keys, and the secrets in it. `Debug` shows none of them.
#[derive(Clone, Debug)]
pub(crate) struct Secure {
    folder: KeyFolder,
    /// What controller and brokers prove to each other.
    pub(crate) link_key: LinkKey,
    gossip_key: Key,
}

impl Secure {
    /// The files that `name` needs for TLS.
    ///
    /// # Errors
    /// [`Failure::Usage`] where it has no certificate.
    pub(crate) fn tls(
        &self,
        name: &str,
        clients: Option<ClientAuth>,
        least_version: TlsVersion,
    ) -> Result<TlsConfig, Failure> {
        let usage = |text: String| Failure::Usage(format!("--secure: {text}"));
        let files = self.folder.files_of(name, Usage::Node);
        let files = files.map_err(|error| usage(error.to_string()))?;
        if !files.certificate.exists() {
            let folder = self.folder.path().display();
            return Err(usage(format!(
                "there is no certificate for {name} in {folder}; run srtm keys node {name} {folder} --hosts …"
            )));
        }
        Ok(TlsConfig {
            certificate: files.certificate,
            key: files.key,
            authorities: Some(files.authorities),
            clients: clients.unwrap_or(ClientAuth::Verified),
            least_version,
        })
    }

    /// The file with what controller and brokers prove to each other.
    ///
    /// # Errors
    /// [`Failure::Usage`] where it is of no use any more.
    pub(crate) fn key_file(&self) -> Result<KeyFile, Failure> {
        KeyFile::open(Some(&self.folder.secret(Secret::Link)), None)
    }

    /// Puts it into the settings of broker `name`: TLS for everybody, HTTP within it, an encrypted link, a key for gossip.
    /// `clients`: which certificates clients need, if not one of the authority; `is_required_said`: the flags say who needs TLS.
    ///
    /// # Errors
    /// As [`Secure::tls`].
    pub(crate) fn put(
        &self,
        name: &str,
        clients: Option<ClientAuth>,
        is_required_said: bool,
        least_version: TlsVersion,
        config: &mut Config,
    ) -> Result<(), Failure> {
        config.tls = Some(self.tls(name, clients, least_version)?);
        if !is_required_said {
            config.tls_required = TlsRequired::Yes;
        }
        if config.https_address.is_none() && config.tls_required == TlsRequired::Yes {
            config.https_address = config.http_address.take();
        }
        if let Some(link) = &mut config.controller {
            link.is_encrypted = true;
        }
        if !config.sharing.join.is_empty() {
            config.sharing.key = Some(self.gossip_key.clone());
        }
        Ok(())
    }
}

/// The folder of a flag.
pub(crate) fn named(path: &str) -> Result<Secure, String> {
    open(Path::new(path)).map_err(|error| error.to_string())
}

/// The keys in a folder.
///
/// # Errors
/// [`Failure::Usage`] naming what is missing or of no use.
pub(crate) fn open(path: &Path) -> Result<Secure, Failure> {
    let usage = |text: String| Failure::Usage(text);
    let folder = KeyFolder::open(path).map_err(|error| usage(error.to_string()))?;
    let secret = |secret: Secret| {
        let text = folder.read(secret);
        text.map_err(|error| usage(error.to_string()))
    };
    let of_no_use = |secret: Secret, error: String| {
        let path = folder.secret(secret);
        usage(format!("{}: {error}", path.display()))
    };
    let link_key = LinkKey::from_hex(&secret(Secret::Link)?)
        .map_err(|error| of_no_use(Secret::Link, error.to_string()))?;
    let gossip_key = Key::from_passphrase(&secret(Secret::Gossip)?)
        .map_err(|error| of_no_use(Secret::Gossip, error.to_string()))?;
    Ok(Secure {
        link_key,
        gossip_key,
        folder,
    })
}
