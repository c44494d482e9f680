//! The broker's port: its routes within the bounds that all ports have.

use std::time::Duration;

use port::{Gate, Settings};
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
    let own = [&info.hostname, &info.broadcast_address];
    let names = own.into_iter().chain(&handle.config().http_hosts);
    let settings = Settings {
        gate: Gate::new(names.cloned()),
        text_field: "message",
        nsq_port: Some(info.tcp_port),
        close_timeout: CLOSE_TIMEOUT,
        counts: info.counts.clone(),
    };
    port::serve(listener, router(handle, info), settings, shutdown).await;
}
