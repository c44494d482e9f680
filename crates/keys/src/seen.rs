//! What a certificate says.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::X509Certificate;

use crate::{KeysError, private};

/// What a certificate says, as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whose it is.
    pub name: String,
    /// For which names and IP addresses it is.
    pub hosts: Vec<String>,
    /// Last instant at which it counts.
    pub until: SystemTime,
}

impl Seen {
    /// Reads the first certificate of a PEM file.
    ///
    /// # Errors
    /// [`KeysError::Io`], [`KeysError::Unread`].
    pub fn at(path: &Path) -> Result<Seen, KeysError> {
        let text = private::read(path)?;
        Seen::of(&text).map_err(|reason| KeysError::Unread {
            path: path.to_owned(),
            reason,
        })
    }

    /// Reads the first certificate of a PEM text; says why there is none.
    pub(crate) fn of(text: &str) -> Result<Seen, String> {
        let (_, pem) = parse_x509_pem(text.as_bytes())
            .map_err(|_| String::from("it holds no certificate in PEM form"))?;
        let certificate = pem.parse_x509();
        let certificate =
            certificate.map_err(|error| format!("its certificate is damaged: {error}"))?;
        let until = certificate.validity().not_after.timestamp();
        let until = Duration::from_secs(u64::try_from(until).unwrap_or(0));
        Ok(Seen {
            name: name(&certificate),
            hosts: hosts(&certificate),
            until: UNIX_EPOCH + until,
        })
    }
}

fn name(certificate: &X509Certificate<'_>) -> String {
    let named = certificate.subject().iter_common_name().next();
    let named = named.and_then(|name| name.as_str().ok());
    named.unwrap_or_default().to_owned()
}

fn hosts(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let shown = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    };
    names.value.general_names.iter().filter_map(shown).collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(std::net::Ipv6Addr::from(sixteen).to_string())
}
