//! Who signs certificates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

use crate::KeysError;

/// Clocks of machines may differ by so much.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A certificate that signs others, with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// From when until when a certificate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First instant.
    pub from: SystemTime,
    /// Last instant.
    pub until: SystemTime,
}

/// What a certificate is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A daemon's: it serves, and asks other daemons.
    Node,
    /// A client's: it asks.
    Client,
}

/// A certificate that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order<'a> {
    /// Whose it is.
    pub name: &'a str,
    /// Under which names and IP addresses others reach it, besides its own name.
    pub hosts: &'a [String],
    /// What it is good for.
    pub usage: Usage,
    /// From when until when.
    pub validity: Validity,
}

/// A certificate and its key, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key: a secret.
    pub key: String,
}

impl Validity {
    /// From now, as other machines' clocks may have it, for so many days.
    #[must_use]
    pub fn days(now: SystemTime, days: u32) -> Validity {
        Validity {
            from: now - CLOCK_SKEW,
            until: now + Duration::from_secs(86_400) * days,
        }
    }
}

impl Authority {
    /// A new one, with a key of its own. Gives the key, in PEM form, too.
    ///
    /// # Errors
    /// [`KeysError::Unmade`].
    pub fn new(name: &str, validity: Validity) -> Result<(Authority, String), KeysError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name = named(name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        put(&mut params, validity)?;
        let key = KeyPair::generate()?;
        let pem = key.serialize_pem();
        let certificate = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let authority = Authority {
            issuer,
            certificate,
        };
        Ok((authority, pem))
    }

    /// The one of this certificate and key, in PEM form.
    ///
    /// # Errors
    /// [`KeysError::Unmade`] where they are none.
    pub fn of(certificate: &str, key: &str) -> Result<Authority, KeysError> {
        let key = KeyPair::from_pem(key)?;
        Ok(Authority {
            issuer: Issuer::from_ca_cert_pem(certificate, key)?,
            certificate: certificate.to_owned(),
        })
    }

    /// Its certificate in PEM form: what others believe.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Signs a certificate for a new key.
    ///
    /// # Errors
    /// [`KeysError::Host`], [`KeysError::Unmade`].
    pub fn issue(&self, order: &Order<'_>) -> Result<Issued, KeysError> {
        let mut hosts = vec![order.name.to_owned()];
        hosts.extend(
            order
                .hosts
                .iter()
                .filter(|host| *host != order.name)
                .cloned(),
        );
        for host in &hosts {
            check_host(host)?;
        }
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name = named(order.name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match order.usage {
            Usage::Node => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        put(&mut params, order.validity)?;
        let key = KeyPair::generate()?;
        Ok(Issued {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(…)")
    }
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Issued(…)")
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn put(params: &mut CertificateParams, validity: Validity) -> Result<(), KeysError> {
    params.not_before = date(validity.from)?;
    params.not_after = date(validity.until)?;
    Ok(())
}

fn date(at: SystemTime) -> Result<OffsetDateTime, KeysError> {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(since).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|error| KeysError::Unmade(error.to_string()))
}

/// What is no host would be taken for a name that nobody has.
fn check_host(host: &str) -> Result<(), KeysError> {
    let refused = |reason: &str| {
        Err(KeysError::Host {
            host: host.to_owned(),
            reason: reason.to_owned(),
        })
    };
    if host.parse::<std::net::IpAddr>().is_ok() {
        return Ok(());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*".contains(&byte);
    match host {
        "" => refused("it is empty"),
        _ if host.len() > 253 => refused("it is longer than 253 characters"),
        _ if host.contains(':') => refused("a port or a scheme does not belong to it"),
        _ if !host.bytes().all(allowed) => refused("it has a character that no host name has"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn year() -> Validity {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Validity::days(now, 365)
    }

    #[test]
    fn an_authority_is_the_same_when_it_was_read_back() {
        let (first, key) = Authority::new("test", year()).expect("made");
        let again = Authority::of(first.certificate(), &key).expect("read");
        assert_eq!(again.certificate(), first.certificate());
        let order = Order {
            name: "b1",
            hosts: &[String::from("127.0.0.1"), String::from("b1.example")],
            usage: Usage::Node,
            validity: year(),
        };
        let issued = again.issue(&order).expect("signed");
        assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE"));
        assert!(!format!("{issued:?} {again:?}").contains("BEGIN"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let (authority, _) = Authority::new("test", year()).expect("made");
        for host in ["", "a b", "10.0.0.7:4150", "https://b1", "ä.example"] {
            let hosts = [host.to_owned()];
            let order = Order {
                name: "b1",
                hosts: &hosts,
                usage: Usage::Node,
                validity: year(),
            };
            let error = authority.issue(&order).expect_err(host).to_string();
            assert!(error.contains("is not a host"), "{error}");
        }
        assert!(Authority::of("nothing", "nothing").is_err());
    }
}
