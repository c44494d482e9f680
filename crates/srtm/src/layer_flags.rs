//! Flags of the layers between clients and their commands: TLS and compression, named as nsqd's.

use std::path::PathBuf;

use broker::Config;
use broker::tls::{ClientAuth, TlsConfig, TlsRequired, TlsVersion};
use clap::{ArgAction, Args, ValueEnum};

use crate::address::ListenAddress;
use crate::error::Failure;
use crate::secure::Secure;

/// TLS and compression.
#[derive(Args, Clone, Debug)]
pub(crate) struct LayerFlags {
    /// PEM file with this broker's certificate and those between it and its authority. With it, TLS is
    /// offered to clients. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", group = "certificate")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Certificate that clients need: `require` takes any, `require-verify` one that an authority of
    /// --tls-root-ca-file has signed. Either makes TLS required [default: none is asked for; with
    /// --secure, require-verify].
    #[arg(long, value_name = "POLICY", value_enum, requires = "certificate")]
    tls_client_auth_policy: Option<Policy>,
    /// PEM file with the authorities of clients' certificates. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_root_ca_file: Option<PathBuf>,
    /// Refuses clients and HTTP requests without TLS (`true`), or clients only (`tcp-https`) [default:
    /// false].
    #[arg(
        long,
        value_name = "true|false|tcp-https",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    tls_required: Option<Required>,
    /// Least version of TLS.
    #[arg(long, value_name = "VERSION", value_enum, default_value_t = Version::Tls12)]
    tls_min_version: Version,
    /// Address to serve HTTPS on, beside HTTP [default: none].
    #[arg(long, value_name = "ADDRESS", requires = "tls_cert")]
    https_address: Option<ListenAddress>,
    /// Offers snappy compression to clients.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    snappy: bool,
    /// Offers deflate compression to clients.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    deflate: bool,
    /// Highest level of deflate that a client may ask for, 1 to 9. Higher levels cost more CPU time.
    #[arg(long, value_name = "LEVEL", default_value_t = Config::default().max_deflate_level)]
    max_deflate_level: u32,
}

/// Which certificates clients need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// None.
    None,
    /// Any.
    Require,
    /// One that is signed.
    RequireVerify,
}

/// Who is not served without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Required {
    /// Neither clients nor HTTP.
    True,
    /// Everybody is.
    False,
    /// Clients are not.
    TcpHttps,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// 1.2 and 1.3.
    #[value(name = "tls1.2")]
    Tls12,
    /// 1.3 only.
    #[value(name = "tls1.3")]
    Tls13,
}

impl Policy {
    /// Whom it lets in.
    pub(crate) fn clients(self) -> ClientAuth {
        match self {
            Policy::None => ClientAuth::None,
            Policy::Require => ClientAuth::Any,
            Policy::RequireVerify => ClientAuth::Verified,
        }
    }
}

impl Version {
    /// The least version that is spoken.
    pub(crate) fn least(self) -> TlsVersion {
        match self {
            Version::Tls12 => TlsVersion::Tls12,
            Version::Tls13 => TlsVersion::Tls13,
        }
    }
}

impl LayerFlags {
    /// Puts a folder of keys into the settings of broker `name`, as far as flags do not say otherwise; after [`LayerFlags::put`].
    ///
    /// # Errors
    /// [`Failure::Usage`] where the folder has nothing for this broker.
    pub(crate) fn secure(
        &self,
        secure: &Secure,
        name: &str,
        config: &mut Config,
    ) -> Result<(), Failure> {
        let clients = self.tls_client_auth_policy.map(Policy::clients);
        let is_required_said = self.tls_required.is_some();
        let least_version = self.tls_min_version.least();
        secure.put(name, clients, is_required_said, least_version, config)
    }

    /// Puts what these flags describe into a broker's settings. Files are read when it starts.
    pub(crate) fn put(self, config: &mut Config) {
        let clients = self
            .tls_client_auth_policy
            .map_or(ClientAuth::None, Policy::clients);
        config.tls_required = match self.tls_required {
            Some(Required::True) => TlsRequired::Yes,
            Some(Required::TcpHttps) => TlsRequired::ExceptHttp,
            // As at nsqd: whoever asks for certificates wants TLS.
            _ if clients != ClientAuth::None => TlsRequired::Yes,
            _ => TlsRequired::No,
        };
        let files = self.tls_cert.zip(self.tls_key);
        config.tls = files.map(|(certificate, key)| TlsConfig {
            certificate,
            key,
            authorities: self.tls_root_ca_file,
            clients,
            least_version: self.tls_min_version.least(),
        });
        config.https_address = self.https_address.map(|address| address.0);
        config.snappy = self.snappy;
        config.deflate = self.deflate;
        config.max_deflate_level = self.max_deflate_level;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        flags: LayerFlags,
    }

    fn config(line: &str) -> Result<Config, String> {
        let all = ["test"].into_iter().chain(line.split_whitespace());
        let only = Only::try_parse_from(all).map_err(|error| error.to_string())?;
        let mut config = Config::default();
        only.flags.put(&mut config);
        Ok(config)
    }

    #[test]
    fn tls_is_required_as_nsqd_has_it() {
        const FILES: &str = "--tls-cert c --tls-key k";
        for (line, clients, required) in [
            ("", ClientAuth::None, TlsRequired::No),
            ("--tls-required=false", ClientAuth::None, TlsRequired::No),
            ("--tls-required", ClientAuth::None, TlsRequired::Yes),
            ("--tls-required=true", ClientAuth::None, TlsRequired::Yes),
            (
                "--tls-required=tcp-https",
                ClientAuth::None,
                TlsRequired::ExceptHttp,
            ),
            (
                "--tls-client-auth-policy require",
                ClientAuth::Any,
                TlsRequired::Yes,
            ),
            (
                "--tls-client-auth-policy require-verify --tls-required=tcp-https",
                ClientAuth::Verified,
                TlsRequired::ExceptHttp,
            ),
        ] {
            let config = config(&format!("{FILES} {line}")).expect(line);
            assert_eq!(config.tls.expect("offered").clients, clients, "{line}");
            assert_eq!(config.tls_required, required, "{line}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        for (line, expected) in [
            ("--tls-cert c", "--tls-key <FILE>"),
            ("--tls-key k", "--tls-cert <FILE>"),
            ("--tls-root-ca-file a", "--tls-cert <FILE>"),
            ("--tls-client-auth-policy require", "--tls-cert <FILE>"),
            ("--https-address :0", "--tls-cert <FILE>"),
            ("--tls-client-auth-policy maybe", "possible values"),
            ("--tls-min-version tls1.1", "possible values"),
            ("--snappy=maybe", "possible values"),
        ] {
            let error = config(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        for (line, expected) in [
            ("--max-deflate-level 10", "--max-deflate-level: 10"),
            ("--tls-required", "--tls-required: without a certificate"),
        ] {
            let error = config(line).expect("flags").validate().expect_err(line);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
        let off = config("--snappy=false --deflate=false").expect("switches");
        assert!(!off.snappy && !off.deflate);
    }
}
