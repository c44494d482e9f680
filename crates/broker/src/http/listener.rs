//! Accepting HTTP connections within bounds, and ending them.
//!
//! At most [`CONNECTIONS_MAX`] connections are served; further ones wait in the kernel's queue. A
//! connection that sends no complete request head within [`HEAD_TIMEOUT`] is closed, also between
//! two requests. An NSQ client that took the wrong port learns it at once: its magic begins with a
//! space, which no HTTP request does, so the first byte decides.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{HttpInfo, router};
use crate::Handle;

/// Connections served at once.
const CONNECTIONS_MAX: usize = 1024;
/// Time a connection has for a complete request head, and idle time between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request head at most.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, which usually means that descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that requests in progress have when the port closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that an NSQ client has to read its refusal.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves HTTP on `listener` until `shutdown` completes, then lets requests in progress finish.
pub async fn serve(
    handle: Handle,
    listener: TcpListener,
    info: HttpInfo,
    shutdown: impl Future<Output = ()>,
) {
    let port = Arc::new(Port {
        tcp_port: info.tcp_port,
        router: router(handle, info),
        http: http(),
    });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let (stream, place) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "HTTP: cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (port, watcher) = (port.clone(), graceful.watcher());
        connections.spawn(async move {
            port.converse(stream, watcher).await;
            drop(place);
        });
    }
    drop(listener);
    if timeout(CLOSE_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("HTTP: requests that did not finish in time are cut off");
    }
    connections.shutdown().await;
}

/// What all connections share.
struct Port {
    router: Router,
    http: http1::Builder,
    tcp_port: u16,
}

impl Port {
    async fn converse(&self, mut stream: TcpStream, watcher: Watcher) {
        let mut first = [0];
        match timeout(HEAD_TIMEOUT, stream.peek(&mut first)).await {
            Ok(Ok(1)) if first == [b' '] => return refuse_nsq(&mut stream, self.tcp_port).await,
            Ok(Ok(1)) => {}
            // Closed, broken or silent: there is nobody to answer.
            Ok(_) | Err(_) => return,
        }
        // Answers are small and complete: waiting for more to send would only add to their latency.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(self.router.clone());
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%error, "HTTP: connection ended");
        }
    }
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX_BYTES);
    http
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Tells an NSQ client that this is not its port.
async fn refuse_nsq(stream: &mut TcpStream, tcp_port: u16) {
    let body = format!(
        "400 Bad Request: this is the HTTP port; the NSQ protocol is spoken on port {tcp_port}\n"
    );
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(answer.as_bytes()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    // Closing with unread bytes would reset the connection and could take the answer with it.
    let mut scrap = [0; 1024];
    let drained = async { while stream.read(&mut scrap).await.is_ok_and(|read| read > 0) {} };
    let _ = timeout(LINGER_TIMEOUT, drained).await;
}
