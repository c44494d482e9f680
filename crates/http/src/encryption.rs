//! TLS of a port.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;

/// What a port encrypts with: asked for with each connection, since it may change.
#[derive(Clone)]
pub struct Encryption(Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>);

impl Encryption {
    /// With what `current` gives when a connection comes.
    pub fn new(current: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static) -> Encryption {
        Encryption(Arc::new(current))
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        (self.0)()
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryption")
    }
}
