//! What an auth server is asked.

use std::fmt;
use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::subject::common_name;
use crate::connection::ConnectionKey;

/// Everything but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What a client says with AUTH. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

/// Who wants to know what it may do.
#[derive(Debug)]
pub struct AuthQuestion {
    /// The reactor that is told,
    pub reactor: usize,
    /// of this connection,
    pub connection: ConnectionKey,
    /// which comes from here,
    pub remote: IpAddr,
    /// within TLS or not,
    pub is_encrypted: bool,
    /// with this certificate, in DER form,
    pub certificate: Option<Vec<u8>>,
    /// and says this.
    pub secret: Secret,
}

impl Secret {
    /// What came in AUTH.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(bytes.into())
    }

    /// As it came.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AuthQuestion {
    /// As a query or a form; keys and their order are nsqd's.
    pub(super) fn form(&self) -> String {
        let escaped = |bytes: &[u8]| percent_encode(bytes, ESCAPED).to_string();
        let certificate = self.certificate.as_deref();
        let name = certificate.and_then(common_name).unwrap_or_default();
        format!(
            "common_name={}&remote_ip={}&secret={}&tls={}",
            escaped(name.as_bytes()),
            escaped(self.remote.to_string().as_bytes()),
            escaped(self.secret.bytes()),
            self.is_encrypted,
        )
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_any_secret() {
        let question = AuthQuestion {
            reactor: 0,
            connection: ConnectionKey::from_bits(0),
            remote: "::1".parse().expect("an address"),
            is_encrypted: true,
            certificate: None,
            secret: Secret::new(b"a&b=c\xff ~"),
        };
        let form = "common_name=&remote_ip=%3A%3A1&secret=a%26b%3Dc%FF%20~&tls=true";
        assert_eq!(question.form(), form);
        assert!(!format!("{question:?}").contains("a&b"));
    }
}
