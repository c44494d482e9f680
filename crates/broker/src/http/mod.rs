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
mod asker;
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

use access::Role::{Admin, Publish, Read};
use access::{InForce, Need};
use axum::Router;
use http::nsq::Failure;
use http::{Lane, Pages, Routes};

use crate::{Handle, Operation};
use arrivals::Recordings;
use body::BodyRoom;
use stats::Asked;

pub use config::LogLevel;
pub use http::hostname;
pub(crate) use info::resident_bytes;
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

/// Field of an error's JSON object that holds its text; nsqd's.
const TEXT_FIELD: &str = "message";

/// All routes over one broker.
pub(crate) fn router(handle: Handle, info: HttpInfo) -> Router {
    let room = BodyRoom::new(handle.config().max_body_size, handle.memory.clone());
    let pages = Pages::default();
    let routes = routes(handle.config().access.clone(), &pages);
    let service = Arc::new(Service {
        handle,
        info,
        room,
        recordings: Recordings::default(),
        everything: Lane::new(&pages),
        channels: Lane::new(&pages),
    });
    routes
        .into_router()
        .fallback(async || Failure::new(404, "NOT_FOUND"))
        .method_not_allowed_fallback(async || Failure::new(405, "METHOD_NOT_ALLOWED"))
        .with_state(service)
}

/// All routes, with what each takes.
fn routes(access: Option<InForce>, pages: &Pages) -> Routes<Arc<Service>> {
    let routes = Routes::new(access, TEXT_FIELD)
        .get("/ping", Need::Nothing, info::ping)
        .get("/info", Need::Token, info::info)
        .get("/stats", Need::Topic(Read), stats::stats)
        .get("/config/{option}", Need::Everything(Read), config::read)
        .put("/config/{option}", Need::Everything(Admin), config::write)
        .post("/pub", Need::Topic(Publish), publish::publish)
        .post("/mpub", Need::Topic(Publish), publish::publish_many);
    operations(routes)
        .get_shared(pages, "/v1/topics", Need::Everything(Read), contract::list)
        .get(TOPIC, Need::Topic(Read), contract::show)
        .put(TOPIC, Need::Topic(Admin), contract::put)
        .delete(TOPIC, Need::Topic(Admin), contract::remove)
        .get(
            "/v1/topics/{topic}/releases",
            Need::Topic(Read),
            contract::releases,
        )
        .post(
            "/v1/topics/{topic}/arrivals",
            Need::Topic(Admin),
            arrivals::record,
        )
        .post("/v1/handover", Need::Proof, handover::take)
        .post(link::PROBE_PATH, Need::Proof, probe::answer)
        .get("/v1/sharers", Need::Everything(Read), sharers::list)
        .delete(
            "/v1/sharers/{address}",
            Need::Everything(Admin),
            sharers::forget,
        )
        .get("/v1/memory", Need::Everything(Read), memory::memory)
        .get_shared(pages, "/v1/tasks", Need::Everything(Read), tasks::tasks)
        .get_shared(
            pages,
            "/v1/announcements",
            Need::Everything(Read),
            announcements::announcements,
        )
        .get_shared(pages, "/metrics", Need::Metrics, metrics::metrics)
}

const TOPIC: &str = "/v1/topics/{topic}";

/// `/topic/create` … `/channel/unpause`.
fn operations(routes: Routes<Arc<Service>>) -> Routes<Arc<Service>> {
    let named = [
        ("create", Operation::Create),
        ("delete", Operation::Delete),
        ("empty", Operation::Empty),
        ("pause", Operation::Pause),
        ("unpause", Operation::Unpause),
    ];
    let need = Need::Topic(Admin);
    named.into_iter().fold(routes, |routes, (name, operation)| {
        routes
            .post(
                &format!("/topic/{name}"),
                need,
                async move |s, asker, uri| topics::topic(s, asker, uri, operation).await,
            )
            .post(
                &format!("/channel/{name}"),
                need,
                async move |s, asker, uri| topics::channel(s, asker, uri, operation).await,
            )
    })
}

#[cfg(test)]
mod tests;
