//! The broker's HTTP port: nsqd's API, SRTM's own `/v1`, and `/metrics`.
//!
//! Paths, parameters, statuses and bodies are nsqd 1.3.0's, so that `nsqadmin` and scripts written
//! for nsqd work unchanged; SRTM's own answers live under keys and paths that nsqd does not have.
//! Everything goes through [`Handle`]: a request costs the data path one message in a reactor's
//! inbox, never a lock.
//!
//! Deliberately absent: `/debug/pprof` (there is no Go runtime to look into) and nsqd's
//! redirects of paths with superfluous slashes.

mod announcements;
mod answer;
mod arrivals;
mod body;
mod config;
mod contract;
mod handover;
mod info;
mod listener;
mod memory;
mod metrics;
mod probe;
mod publish;
mod sharers;
mod stats;
mod tasks;
mod topics;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use http::nsq::Failure;
use http::{Lane, Pages};

use crate::{Handle, Operation};
use arrivals::Recordings;
use body::BodyRoom;
use stats::Asked;

pub use config::LogLevel;
pub use http::hostname;
pub use info::{HttpInfo, nsqd_version_line};
pub use listener::serve;

/// What every handler can reach.
#[derive(Debug)]
pub(crate) struct Service {
    handle: Handle,
    info: HttpInfo,
    room: BodyRoom,
    recordings: Recordings,
    /// For `/stats` of all topics.
    everything: Lane<Asked>,
    /// For `/stats` of a channel wherever it is: there may be many such questions.
    channels: Lane<Asked>,
}

type Shared = axum::extract::State<Arc<Service>>;

/// All routes over one broker.
pub(crate) fn router(handle: Handle, info: HttpInfo) -> Router {
    let room = BodyRoom::new(handle.config().max_body_size, handle.memory.clone());
    let pages = Pages::default();
    let service = Arc::new(Service {
        handle,
        info,
        room,
        recordings: Recordings::default(),
        everything: Lane::new(&pages),
        channels: Lane::new(&pages),
    });
    Router::new()
        .route("/ping", get(info::ping))
        .route("/info", get(info::info))
        .route("/stats", get(stats::stats))
        .route("/config/{option}", get(config::read).put(config::write))
        .route("/pub", post(publish::publish))
        .route("/mpub", post(publish::publish_many))
        .merge(operations())
        .route("/v1/topics", pages.shared(get(contract::list)))
        .route(
            "/v1/topics/{topic}",
            get(contract::show)
                .put(contract::put)
                .delete(contract::remove),
        )
        .route("/v1/topics/{topic}/releases", get(contract::releases))
        .route("/v1/topics/{topic}/arrivals", post(arrivals::record))
        .route("/v1/handover", post(handover::take))
        .route(link::PROBE_PATH, post(probe::answer))
        .route("/v1/sharers", get(sharers::list))
        .route("/v1/sharers/{address}", delete(sharers::forget))
        .route("/v1/memory", get(memory::memory))
        .route("/v1/tasks", pages.shared(get(tasks::tasks)))
        .route(
            "/v1/announcements",
            pages.shared(get(announcements::announcements)),
        )
        .route("/metrics", pages.shared(get(metrics::metrics)))
        .fallback(async || Failure::new(404, "NOT_FOUND"))
        .method_not_allowed_fallback(async || Failure::new(405, "METHOD_NOT_ALLOWED"))
        .with_state(service)
}

/// `/topic/create` … `/channel/unpause`.
fn operations() -> Router<Arc<Service>> {
    let named = [
        ("create", Operation::Create),
        ("delete", Operation::Delete),
        ("empty", Operation::Empty),
        ("pause", Operation::Pause),
        ("unpause", Operation::Unpause),
    ];
    named
        .into_iter()
        .fold(Router::new(), |router, (name, operation)| {
            router
                .route(
                    &format!("/topic/{name}"),
                    post(async move |s, uri| topics::topic(s, uri, operation).await),
                )
                .route(
                    &format!("/channel/{name}"),
                    post(async move |s, uri| topics::channel(s, uri, operation).await),
                )
        })
}

#[cfg(test)]
mod tests;
