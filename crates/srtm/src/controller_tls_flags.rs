//! Flags of a controller's TLS, named as a broker's.

use std::path::PathBuf;
use std::sync::Arc;

use broker::tls::{ClientAuth, TlsConfig, TlsVersion};
use clap::Args;
use credentials::Credentials;
use http::Encryption;

use crate::error::Failure;
use crate::layer_flags::{Policy, Version};
use crate::secure::{self, CONTROLLER, Secure};

/// What a controller's ports are encrypted with.
#[derive(Args, Clone, Debug)]
pub(crate) struct ControllerTlsFlags {
    /// PEM file with this controller's certificate and those between it and its authority. With it,
    /// --http and --lookup-http-address serve HTTPS. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", group = "certificate")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// PEM file with the authorities of clients' and brokers' certificates. Read again when it
    /// changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_root_ca_file: Option<PathBuf>,
    /// Certificate that clients of HTTPS need: `require` takes any, `require-verify` one that an
    /// authority of --tls-root-ca-file has signed [default: none; with --secure, require-verify].
    #[arg(long, value_name = "POLICY", value_enum, requires = "certificate")]
    tls_client_auth_policy: Option<Policy>,
    /// Least version of TLS.
    #[arg(long, value_name = "VERSION", value_enum, default_value_t = Version::Tls12)]
    tls_min_version: Version,
    /// Encrypts the link with brokers. Both ends need certificates of --tls-root-ca-file; brokers
    /// have the same flag.
    #[arg(long, requires = "tls_root_ca_file")]
    link_tls: bool,
    /// Folder of `srtm keys init`: certificate, keys and authority come from there, HTTP and the
    /// link are encrypted, and clients and brokers need certificates of it.
    #[arg(long, value_name = "FOLDER", groups = ["certificate", "proof"], value_parser = secure::named)]
    secure: Option<Secure>,
}

/// What a controller's ports are encrypted with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControllerTls {
    /// Of HTTP; `None`: it is not encrypted.
    pub(crate) http: Option<TlsConfig>,
    /// Whether the link is encrypted by the same.
    pub(crate) is_link_encrypted: bool,
    /// Whether only what is encrypted is served.
    pub(crate) is_strict: bool,
}

impl ControllerTls {
    /// What a folder of keys makes of a controller.
    ///
    /// # Errors
    /// [`Failure::Usage`] where it has no certificate for one.
    pub(crate) fn of(secure: &Secure) -> Result<ControllerTls, Failure> {
        ControllerTls::with(secure, None, TlsVersion::default())
    }

    /// Reads the files: what HTTP is encrypted with, if it is.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming a file that is of no use; [`Failure::Io`] where the system gives no thread.
    pub(crate) fn read(&self) -> Result<(Option<Arc<Credentials>>, Option<Encryption>), Failure> {
        let Some(files) = self.http.clone() else {
            return Ok((None, None));
        };
        let credentials = Credentials::load(files);
        let credentials = credentials.map_err(|error| Failure::Usage(error.to_string()))?;
        let credentials = Arc::new(credentials);
        let own = Arc::clone(&credentials);
        let encryption = Encryption::new(move || own.server());
        let encryption = encryption.map_err(Failure::io("starting the thread for TLS"))?;
        Ok((Some(credentials), Some(encryption)))
    }

    fn with(
        secure: &Secure,
        clients: Option<ClientAuth>,
        least_version: TlsVersion,
    ) -> Result<ControllerTls, Failure> {
        Ok(ControllerTls {
            http: Some(secure.tls(CONTROLLER, clients, least_version)?),
            is_link_encrypted: true,
            is_strict: true,
        })
    }
}

impl ControllerTlsFlags {
    /// What these flags describe.
    ///
    /// # Errors
    /// [`Failure::Usage`] where the folder of keys has nothing for a controller.
    pub(crate) fn tls(&self) -> Result<ControllerTls, Failure> {
        let clients = self.tls_client_auth_policy.map(Policy::clients);
        let least_version = self.tls_min_version.least();
        if let Some(secure) = &self.secure {
            return ControllerTls::with(secure, clients, least_version);
        }
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        Ok(ControllerTls {
            http: files.map(|(certificate, key)| TlsConfig {
                certificate,
                key,
                authorities: self.tls_root_ca_file.clone(),
                clients: clients.unwrap_or(ClientAuth::None),
                least_version,
            }),
            is_link_encrypted: self.link_tls,
            is_strict: false,
        })
    }

    /// The folder of keys, where there is one.
    pub(crate) fn secure(&self) -> Option<&Secure> {
        self.secure.as_ref()
    }
}
