//! The certificate of a broker that is measured within TLS: made for the run, and believed by nobody but the generator.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use client::Trust;
use credentials::TrustFiles;
use keys::{Authority, KeysError, Order, Usage, Validity};

use crate::error::BenchError;

/// File of the broker's certificate in its working folder.
pub(super) const CERTIFICATE: &str = "broker.pem";
/// File of its key.
pub(super) const KEY: &str = "broker.key";
const AUTHORITY: &str = "authority.pem";
const VALID_DAYS: u32 = 2;

/// Makes a certificate for the loopback address in `folder`, and returns what believes it.
pub(super) fn make(folder: &Path, now: SystemTime) -> Result<Trust, BenchError> {
    let write = |file: &str, text: &str| {
        fs::write(folder.join(file), text).map_err(BenchError::io(format!("write {file}")))
    };
    let (authority, issued) = issue(now).map_err(unmade)?;
    write(AUTHORITY, authority.certificate())?;
    write(CERTIFICATE, &issued.certificate)?;
    write(KEY, &issued.key)?;
    let files = TrustFiles {
        authorities: folder.join(AUTHORITY),
        own: None,
    };
    Trust::load(&files).map_err(unmade)
}

fn issue(now: SystemTime) -> Result<(Authority, keys::Issued), KeysError> {
    let validity = Validity::days(now, VALID_DAYS);
    let (authority, _) = Authority::new("bench", validity)?;
    let issued = authority.issue(&Order {
        name: "localhost",
        hosts: &["127.0.0.1".to_owned()],
        usage: Usage::Node,
        validity,
    })?;
    Ok((authority, issued))
}

fn unmade(error: impl ToString) -> BenchError {
    BenchError::protocol("certificate", error.to_string())
}
