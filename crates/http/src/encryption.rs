//! TLS of a port, and of a connection to one.
//!
//! A handshake takes CPU time. It is spent on a thread of its own, so that who floods a port with connections delays other handshakes
//! and not what the process does besides.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What begins the address of an encrypted HTTP port, where it is said of which kind it is.
const ENCRYPTED: &str = "https://";

/// A connection, encrypted or not.
pub type Wire = Box<dyn Duplex>;

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a port encrypts with: asked for with each connection, since it may change. Clones share the thread for handshakes.
#[derive(Clone)]
pub struct Encryption {
    current: Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>,
    handshakes: Arc<Handshakes>,
}

impl Encryption {
    /// With what `current` gives when a connection comes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(
        current: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
    ) -> io::Result<Encryption> {
        Ok(Encryption {
            current: Arc::new(current),
            handshakes: Arc::new(Handshakes::start()?),
        })
    }

    /// Shakes hands with a client. To be given up by dropping it.
    ///
    /// # Errors
    /// Why there is no handshake.
    pub async fn accept(&self, stream: TcpStream) -> Result<Wire, String> {
        let accepting = TlsAcceptor::from((self.current)()).accept(stream);
        self.handshakes.run(accepting).await
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryption")
    }
}

/// Shakes hands with the server at `address`, `host:port`, whose certificate is to be for that host.
///
/// # Errors
/// Why there is no handshake.
pub async fn encrypted(
    stream: TcpStream,
    config: Arc<ClientConfig>,
    address: &str,
) -> Result<Wire, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let shaken = TlsConnector::from(config).connect(name, stream).await;
    let stream = shaken.map_err(|error| error.to_string())?;
    Ok(Box::new(stream))
}

/// The address of an HTTP port without `https://`, and whether it began so.
#[must_use]
pub fn is_encrypted(address: &str) -> (&str, bool) {
    match address.strip_prefix(ENCRYPTED) {
        Some(rest) => (rest, true),
        None => (address, false),
    }
}

/// The address of an encrypted HTTP port, as [`is_encrypted`] reads it.
#[must_use]
pub fn encrypted_address(address: &str) -> String {
    format!("{ENCRYPTED}{address}")
}

/// A thread that does handshakes.
struct Handshakes(Option<Runtime>);

impl Handshakes {
    fn start() -> io::Result<Handshakes> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("tls").enable_all();
        Ok(Handshakes(Some(builder.build()?)))
    }

    async fn run<S: Duplex + 'static>(
        &self,
        handshake: impl Future<Output = io::Result<S>> + Send + 'static,
    ) -> Result<Wire, String> {
        let Some(runtime) = &self.0 else {
            return Err(String::from("the port closes"));
        };
        // A set aborts what it has when it is dropped, as whoever waits may be.
        let mut one = JoinSet::new();
        one.spawn_on(handshake, runtime.handle());
        match one.join_next().await {
            Some(Ok(Ok(stream))) => Ok(Box::new(stream)),
            Some(Ok(Err(error))) => Err(error.to_string()),
            Some(Err(_)) | None => Err(String::from("the port closes")),
        }
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Nobody waits for handshakes any more.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whether_its_port_is_encrypted() {
        for (address, expected) in [
            ("b1:4151", ("b1:4151", false)),
            ("https://b1:4151", ("b1:4151", true)),
        ] {
            assert_eq!(is_encrypted(address), expected);
        }
        let address = encrypted_address("[::1]:4151");
        assert_eq!(is_encrypted(&address), ("[::1]:4151", true));
    }
}
