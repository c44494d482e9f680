//! Serving a router on a port within bounds, and ending it.
//!
//! At most [`CONNECTIONS_MAX`] connections are served, open streams included; further ones wait in the kernel's queue. A
//! connection that sends no complete request head within [`HEAD_TIMEOUT`] is closed, also between two requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 1024;
/// Time a connection has for a complete request head, and idle time between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request head at most.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, which usually means that descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Requests that are under way when the port closes have so long to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until told to stop; then no connection is accepted, and requests under way have two seconds.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stopped: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX_BYTES);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "HTTP: cannot accept");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and complete: waiting for more to send would only add to their latency.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP: connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    if timeout(CLOSE_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("HTTP: requests that did not finish in time are cut off");
    }
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await;
    let place = place.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}
