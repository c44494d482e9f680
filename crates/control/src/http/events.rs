//! `GET /v1/events`: events as they happen, as server-sent events, and how often each kind has
//! happened.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use http::{Place, Refusal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::{Shared, answer};
use crate::view::EventView;

/// Kinds that are counted; the control plane has about a dozen.
const KINDS_MAX: usize = 64;

/// Events by kind since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct EventCounts(Arc<Mutex<BTreeMap<String, u64>>>);

/// Each event has `id:`, its number, `event:`, its kind, and one `data:` line of JSON. `lagged` tells a slow reader how many
/// it missed; one that takes next to nothing for ten seconds is left. A comment every 15 s keeps the connection open.
#[cfg_attr(test, utoipa::path(get, path = "/v1/events", responses((status = 200, content_type = "text/event-stream", body = EventView),
    (status = 503, description = "too many streams are open"))))]
pub(super) async fn events(
    State(service): Shared,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let place = service.event_streams.enter(peer.ip()).filter(Place::serve);
    let place = place.ok_or_else(answer::too_many_streams)?;
    let begin = (service.handle.events(), service.is_stopping.clone(), place);
    let stream = unfold(begin, |(mut events, mut is_stopping, place)| async move {
        let event = match next(&mut events, &mut is_stopping).await? {
            // An event is plain text and numbers, which JSON holds.
            Ok(event) => Event::default()
                .id(event.number.to_string())
                .event(&event.kind)
                .json_data(&event)
                .unwrap_or_default(),
            Err(missed) => Event::default()
                .event("lagged")
                .json_data(serde_json::json!({ "missed": missed }))
                .unwrap_or_default(),
        };
        Some((Ok(event), (events, is_stopping, place)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

impl EventCounts {
    /// Counts until the controller stops.
    pub(super) async fn count(
        self,
        mut events: Receiver<EventView>,
        mut is_stopping: watch::Receiver<bool>,
    ) {
        while let Some(event) = next(&mut events, &mut is_stopping).await {
            match event {
                Ok(event) => self.add(&event.kind, 1),
                Err(missed) => self.add("missed", missed),
            }
        }
    }

    /// Kinds in order, with their counts.
    pub(super) fn read(&self) -> BTreeMap<String, u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    fn add(&self, kind: &str, more: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() < KINDS_MAX || counts.contains_key(kind) {
            *counts.entry(kind.to_owned()).or_default() += more;
        }
    }
}

/// The next event, or how many were missed; `None` at the end.
async fn next(
    events: &mut Receiver<EventView>,
    is_stopping: &mut watch::Receiver<bool>,
) -> Option<Result<EventView, u64>> {
    let received = tokio::select! {
        received = events.recv() => received,
        _ = is_stopping.wait_for(|is_stopping| *is_stopping) => return None,
    };
    match received {
        Ok(event) => Some(Ok(event)),
        Err(RecvError::Lagged(missed)) => Some(Err(missed)),
        Err(RecvError::Closed) => None,
    }
}
