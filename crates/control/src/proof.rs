//! What a controller proves to its brokers, and what it asks them with.

use std::sync::Arc;

use credentials::Credentials;
use link::LinkKey;
use rustls::ClientConfig;

/// What a controller and its brokers prove to each other.
#[derive(Clone, Debug)]
pub struct LinkProof {
    /// Both know it.
    pub key: LinkKey,
    /// Both have a certificate that an authority of the controller's has signed; brokers that serve HTTPS are asked with it.
    /// `None`: the key alone counts, and words are not hidden.
    pub credentials: Option<Arc<Credentials>>,
}

impl From<LinkKey> for LinkProof {
    fn from(key: LinkKey) -> LinkProof {
        LinkProof {
            key,
            credentials: None,
        }
    }
}

impl LinkProof {
    /// What connections to brokers that serve HTTPS begin with.
    pub(crate) fn client(&self) -> Option<Arc<ClientConfig>> {
        self.credentials.as_ref()?.client()
    }
}
