//! The name in a client's certificate.

use x509_parser::prelude::{FromDer, X509Certificate};

/// The common name of its subject, where it has one that is a text.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    Some(name.as_str().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn a_certificate_has_a_common_name_or_none() {
        let certificate = |names: &[&str]| {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new(Vec::new()).expect("no names");
            params.distinguished_name = rcgen::DistinguishedName::new();
            for name in names {
                params.distinguished_name.push(DnType::CommonName, *name);
            }
            params.self_signed(&key).expect("signed").der().to_vec()
        };
        let gateway = certificate(&["gateway 7"]);
        assert_eq!(common_name(&gateway).as_deref(), Some("gateway 7"));
        assert_eq!(common_name(&certificate(&[])), None);
        assert_eq!(common_name(&gateway[..gateway.len() / 2]), None);
        assert_eq!(common_name(b""), None);
    }
}
