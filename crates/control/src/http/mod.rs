//! The controller's HTTP API: contracts, publishers, placements, brokers, events, metrics.
//!
//! Handlers check what can be checked without the state, ask through [`ControlHandle`] and render views. Every error is
//! `{"error":"what, where, what to do"}` under its status.

mod answer;
mod brokers;
mod events;
mod metrics;
mod openapi;
mod publishers;
mod topics;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ControlHandle;
use answer::Failure;

/// Longest body but that of a list of publishers, in bytes.
const BODY_MAX_BYTES: usize = 1 << 20;
/// Longest list of publishers, in bytes.
const PUBLISHERS_MAX_BYTES: usize = 16 << 20;
/// Requests that are under way when the controller stops have so long to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What every handler gets.
#[derive(Debug)]
pub(crate) struct Service {
    handle: ControlHandle,
    /// Becomes true when the controller stops: streams end then.
    is_stopping: watch::Receiver<bool>,
}

type Shared = axum::extract::State<Arc<Service>>;

/// Serves until told to stop; then open streams end and requests under way have two seconds.
pub async fn serve(
    handle: ControlHandle,
    listener: TcpListener,
    stopped: impl Future<Output = ()>,
) {
    let (stop, is_stopping) = watch::channel(false);
    let router = router(handle, is_stopping.clone());
    let mut ended = is_stopping;
    let graceful = async move {
        // The sender lives in this function; its end means the same.
        let _ = ended.wait_for(|is_stopping| *is_stopping).await;
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(graceful);
    let mut serving = std::pin::pin!(server.into_future());
    tokio::select! {
        () = stopped => {}
        ended = &mut serving => {
            if let Err(error) = ended {
                tracing::error!(%error, "HTTP of the controller ended");
            }
            return;
        }
    }
    stop.send_replace(true);
    if tokio::time::timeout(CLOSE_TIMEOUT, serving).await.is_err() {
        tracing::warn!("HTTP: requests that did not finish in time are cut off");
    }
}

/// All routes.
fn router(handle: ControlHandle, is_stopping: watch::Receiver<bool>) -> Router {
    let service = Arc::new(Service {
        handle,
        is_stopping,
    });
    let publishers = Router::new()
        .route(
            "/v1/topics/{topic}/publishers",
            get(publishers::list).post(publishers::put),
        )
        .layer(DefaultBodyLimit::max(PUBLISHERS_MAX_BYTES));
    Router::new()
        .route("/ping", get(async || "OK"))
        .route("/v1/topics", get(topics::list))
        .route(
            "/v1/topics/{topic}",
            get(topics::show).put(topics::put).delete(topics::remove),
        )
        .route("/v1/topics/{topic}/placement", get(topics::placement))
        .route(
            "/v1/topics/{topic}/publishers/{id}",
            get(publishers::show).delete(publishers::remove),
        )
        .route("/v1/brokers", get(brokers::list))
        .route(
            "/v1/brokers/{broker}",
            get(brokers::show).delete(brokers::remove),
        )
        .route("/v1/brokers/{broker}/drain", post(brokers::drain))
        .route("/v1/brokers/{broker}/resume", post(brokers::resume))
        .route("/v1/events", get(events::events))
        .route("/v1/openapi.json", get(openapi::document))
        .route("/metrics", get(metrics::metrics))
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .merge(publishers)
        .fallback(async || Failure::not_found("no such path; GET /v1/openapi.json lists them"))
        .method_not_allowed_fallback(async || Failure::method_not_allowed())
        .with_state(service)
}

#[cfg(test)]
mod tests;
