//! Flags of every command that asks daemons: whom it believes, and what it proves itself by.

use std::path::PathBuf;
use std::sync::OnceLock;

use api::Trust;
use clap::Args;
use credentials::TrustFiles;

use crate::error::Failure;

/// What this process believes and proves itself by, as its command line says.
static TRUST: OnceLock<Option<Trust>> = OnceLock::new();

/// TLS with brokers and controllers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS with brokers and controllers")]
pub(crate) struct TrustFlags {
    /// PEM file with the authority of brokers and controllers. With it they are spoken to by TLS
    /// [default: the environment variable SRTM_CA].
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// PEM file with a certificate of your own [default: SRTM_CERT].
    #[arg(long, value_name = "FILE", global = true)]
    cert: Option<PathBuf>,
    /// PEM file with the key of that certificate [default: SRTM_CERT_KEY].
    #[arg(long, value_name = "FILE", global = true)]
    cert_key: Option<PathBuf>,
}

impl TrustFlags {
    /// Reads the files that flags and environment name, for everything that this process asks from now on.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming what is missing or of no use.
    pub(crate) fn put_in_force(self) -> Result<(), Failure> {
        let named = |flag: Option<PathBuf>, variable| {
            flag.or_else(|| std::env::var_os(variable).map(PathBuf::from))
        };
        let trust = read(
            named(self.ca, "SRTM_CA"),
            named(self.cert, "SRTM_CERT"),
            named(self.cert_key, "SRTM_CERT_KEY"),
        )?;
        // Once in a process.
        let _ = TRUST.set(trust);
        Ok(())
    }

    /// Refuses them at a command that asks nobody.
    ///
    /// # Errors
    /// [`Failure::Usage`].
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        let given = [&self.ca, &self.cert, &self.cert_key];
        if given.iter().all(|flag| flag.is_none()) {
            return Ok(());
        }
        Err(Failure::Usage(String::from(
            "--ca, --cert and --cert-key are for commands that ask brokers and controllers; daemons have --secure, or --tls-cert, --tls-key and --tls-root-ca-file",
        )))
    }
}

/// What this process believes and proves itself by; `None`: it speaks without TLS.
pub(crate) fn trust() -> Option<Trust> {
    TRUST.get().cloned().flatten()
}

fn read(
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    cert_key: Option<PathBuf>,
) -> Result<Option<Trust>, Failure> {
    let usage = |text: &str| Failure::Usage(text.to_owned());
    let own = match (cert, cert_key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        (Some(_), None) => return Err(usage("--cert has no key; name its file with --cert-key")),
        (None, Some(_)) => {
            return Err(usage(
                "--cert-key has no certificate; name its file with --cert",
            ));
        }
    };
    let authorities = match (ca, &own) {
        (Some(ca), _) => ca,
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err(usage(
                "with --cert it is TLS that is spoken; name the authority of brokers and controllers with --ca",
            ));
        }
    };
    let trust = Trust::load(&TrustFiles { authorities, own });
    Ok(Some(
        trust.map_err(|error| Failure::Usage(error.to_string()))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let file = || Some(PathBuf::from("/nowhere/x.pem"));
        assert_eq!(read(None, None, None).ok(), Some(None));
        for (ca, cert, key, word) in [
            (file(), file(), None, "--cert-key"),
            (file(), None, file(), "--cert"),
            (None, file(), file(), "--ca"),
            (file(), None, None, "--ca: /nowhere/x.pem"),
        ] {
            let error = read(ca, cert, key).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
