//! The broker's HTTP ports: their routes, within the bounds that all ports have.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use http::{Encryption, Settings};
use tokio::net::TcpListener;

use super::{HttpInfo, TEXT_FIELD, router};
use crate::Handle;
use crate::tls::TlsRequired;

/// Time that requests in progress have when the port closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves HTTP on the first listener, and on the second encrypted where there is TLS, until `shutdown` completes, then lets requests
/// in progress finish. Either may be missing.
pub async fn serve(
    handle: Handle,
    [http, https]: [Option<TcpListener>; 2],
    info: HttpInfo,
    shutdown: impl Future<Output = ()>,
) {
    let credentials = handle.credentials.clone().filter(|_| https.is_some());
    let required = handle.config().tls_required;
    let https_address = https.as_ref().and_then(|https| https.local_addr().ok());
    let hosts = handle.config().http_hosts.iter();
    let names = hosts.chain([&info.broadcast_address]).cloned();
    let settings = Settings {
        nsq_port: Some(info.tcp_port),
        ..Settings::new(names, TEXT_FIELD, CLOSE_TIMEOUT, info.counts.clone())
    };
    if let Some(address) = https_address {
        tracing::info!("HTTPS: listening on {address}");
    }
    let encryption = credentials.map(|credentials| Encryption::new(move || credentials.server()));
    let encryption = encryption.transpose().unwrap_or_else(|error| {
        tracing::error!("HTTPS is not served: {error}");
        None
    });
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
    let http = http.map(|http| http::serve(http, router, plain, shutdown));
    tokio::join!(OptionFuture::from(http), https);
}
