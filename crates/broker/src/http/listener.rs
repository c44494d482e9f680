//! The broker's ports: their routes within the bounds that all ports have.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use http::{Encryption, Settings};
use tokio::net::TcpListener;

use super::{HttpInfo, router};
use crate::Handle;
use crate::tls::TlsRequired;

/// Time that requests in progress have when the port closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves HTTP on `listener`, and on `https` encrypted where there is TLS, until `shutdown` completes, then lets requests in
/// progress finish.
pub async fn serve(
    handle: Handle,
    listener: TcpListener,
    https: Option<TcpListener>,
    info: HttpInfo,
    shutdown: impl Future<Output = ()>,
) {
    let credentials = handle.credentials.clone();
    let required = handle.config().tls_required;
    let https_address = https.as_ref().and_then(|https| https.local_addr().ok());
    let hosts = handle.config().http_hosts.iter();
    let names = hosts.chain([&info.broadcast_address]).cloned();
    let settings = Settings {
        nsq_port: Some(info.tcp_port),
        ..Settings::new(names, "message", CLOSE_TIMEOUT, info.counts.clone())
    };
    if let Some(address) = https_address {
        tracing::info!("HTTPS: listening on {address}");
    }
    let encryption = credentials.map(|credentials| Encryption::new(move || credentials.current()));
    let encrypted = Settings {
        nsq_port: None,
        encryption,
        ..settings.clone()
    };
    let plain = Settings {
        only_at: (required == TlsRequired::Yes)
            .then(|| https_address.map_or(0, |address| address.port())),
        ..settings
    };
    let (router, shutdown) = (router(handle, info), shutdown.shared());
    let https = https
        .filter(|_| encrypted.encryption.is_some())
        .map(|https| http::serve(https, router.clone(), encrypted, shutdown.clone()));
    let https = OptionFuture::from(https);
    tokio::join!(http::serve(listener, router, plain, shutdown), https);
}
