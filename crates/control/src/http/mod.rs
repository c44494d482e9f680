//! The controller's HTTP API: contracts, publishers, placements, names, brokers, events, metrics.
//!
//! Handlers check what can be checked without the state, ask through [`ControlHandle`] and render
//! views. Every error is `{"error":"what, where, what to do"}` under its status.

#[macro_use]
mod routes;

mod answer;
mod body;
mod brokers;
mod channels;
mod events;
mod metrics;
mod names;
mod openapi;
mod pace;
mod publishers;
mod topics;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use access::Role::{Admin, Publish, Read};
use access::{InForce, Need};
use axum::Router;
use http::{Counts, Encryption, Pages, Places, Refusal, Room, Routes, Settings};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ControlHandle;
use events::EventCounts;

/// Event streams that are open at once, half of them at most to one address.
const EVENT_STREAMS_MAX: usize = 64;
/// Time that requests under way have when a port closes.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Field of an error's JSON object that holds its text.
const TEXT_FIELD: &str = "error";

/// By which names a controller's ports are asked to change something, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// Further names of this machine.
    pub hosts: Vec<String>,
    /// Who may do what; `None`: everybody may do everything.
    pub access: Option<InForce>,
}

/// What every handler gets.
#[derive(Debug)]
pub(crate) struct Service {
    handle: ControlHandle,
    room: Room,
    event_counts: EventCounts,
    event_streams: Arc<Places>,
    counts: Counts,
    /// Becomes true when the controller stops: streams end then.
    is_stopping: watch::Receiver<bool>,
}

type Shared = axum::extract::State<Arc<Service>>;

/// Serves, by HTTPS where there is `encryption`, until told to stop; then open streams end and requests under way have two seconds.
pub async fn serve(
    handle: ControlHandle,
    listener: TcpListener,
    admission: Admission,
    encryption: Option<Encryption>,
    stopped: impl Future<Output = ()>,
) {
    let (stop, is_stopping) = watch::channel(false);
    let told = async {
        stopped.await;
        // Streams end by themselves only when they hear of it.
        stop.send_replace(true);
    };
    let counts = Counts::default();
    let settings = Settings {
        encryption,
        ..Settings::new(admission.hosts, TEXT_FIELD, CLOSE_TIMEOUT, counts.clone())
    };
    let router = router(handle, admission.access, is_stopping, counts);
    http::serve(listener, router, settings, told).await;
}

/// All routes. To be called within a runtime: events are counted beside it.
fn router(
    handle: ControlHandle,
    access: Option<InForce>,
    is_stopping: watch::Receiver<bool>,
    counts: Counts,
) -> Router {
    let event_counts = EventCounts::default();
    let counting = event_counts.clone();
    tokio::spawn(counting.count(handle.events(), is_stopping.clone()));
    let service = Arc::new(Service {
        handle,
        room: body::room(),
        event_counts,
        event_streams: Places::new(EVENT_STREAMS_MAX),
        counts,
        is_stopping,
    });
    let pages = Pages::default();
    routes(access, &pages)
        .into_router()
        .fallback(async || Refusal::not_found("no such path; GET /v1/openapi.json lists them"))
        .method_not_allowed_fallback(async || answer::method_not_allowed())
        .with_state(service)
}

endpoints!(router_of);

#[cfg(test)]
mod tests;
