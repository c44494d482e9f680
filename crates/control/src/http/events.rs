//! `GET /v1/events`: what happens, as server-sent events.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::Shared;

/// Each event is `event: KIND` and one `data:` line of JSON; `lagged` tells a slow reader how many it missed.
#[utoipa::path(get, path = "/v1/events", responses((status = 200, content_type = "text/event-stream", body = crate::view::EventView)))]
pub(super) async fn events(
    State(service): Shared,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let begin = (service.handle.events(), service.is_stopping.clone());
    let stream = unfold(begin, |(mut events, mut is_stopping)| async move {
        let next = tokio::select! {
            event = events.recv() => event,
            _ = is_stopping.wait_for(|is_stopping| *is_stopping) => return None,
        };
        let event = match next {
            // An event is plain text and numbers, which JSON holds.
            Ok(event) => Event::default()
                .event(&event.kind)
                .json_data(&event)
                .unwrap_or_default(),
            Err(RecvError::Lagged(missed)) => {
                Event::default().event("lagged").data(missed.to_string())
            }
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), (events, is_stopping)))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
