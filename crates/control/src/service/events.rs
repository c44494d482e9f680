//! Events for users, sent to whoever listens.

use tokio::sync::broadcast;

use crate::core::Event;
use crate::view::EventView;

/// Events that a slow reader may lag behind.
const EVENTS_MAX: usize = 4096;

/// Tells of events, numbered.
#[derive(Debug)]
pub(super) struct Events {
    listeners: broadcast::Sender<EventView>,
    number: u64,
}

impl Events {
    /// Of which nothing was told; the sender lets others listen.
    pub(super) fn new() -> (Events, broadcast::Sender<EventView>) {
        let (listeners, _) = broadcast::channel(EVENTS_MAX);
        let events = Events {
            listeners: listeners.clone(),
            number: 0,
        };
        (events, listeners)
    }

    /// Tells of one that happened `at_ms` after 1970.
    pub(super) fn tell(&mut self, event: Event, at_ms: u64) {
        self.number += 1;
        tracing::info!(
            kind = event.kind,
            topic = event.topic,
            broker = event.broker,
            "{}",
            event.text
        );
        // Nobody may be listening.
        let _ = self.listeners.send(EventView {
            number: self.number,
            at_ms,
            kind: event.kind.to_owned(),
            topic: event.topic,
            broker: event.broker,
            text: event.text,
        });
    }
}
