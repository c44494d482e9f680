//! The broker's port: its routes within the bounds that all ports have.

use std::time::Duration;

use http::Settings;
use tokio::net::TcpListener;

use super::{HttpInfo, router};
use crate::Handle;

/// Time that requests in progress have when the port closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves HTTP on `listener` until `shutdown` completes, then lets requests in progress finish.
pub async fn serve(
    handle: Handle,
    listener: TcpListener,
    info: HttpInfo,
    shutdown: impl Future<Output = ()>,
) {
    let hosts = handle.config().http_hosts.iter();
    let names = hosts.chain([&info.broadcast_address]).cloned();
    let settings = Settings {
        nsq_port: Some(info.tcp_port),
        ..Settings::new(names, "message", CLOSE_TIMEOUT, info.counts.clone())
    };
    http::serve(listener, router(handle, info), settings, shutdown).await;
}
