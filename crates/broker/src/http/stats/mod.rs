//! `GET /stats`: everything the broker knows, as nsqd's text or as nsqd's JSON with ours added.

mod document;
mod text;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use super::Shared;
use super::answer::{self, Failure};
use super::query::Query;
use crate::stats::{Stats, StatsFilter};
use crate::sys;
use document::Document;

/// `GET /stats?format=json|text&topic=T&channel=C&include_clients=B&include_mem=B`.
pub(super) async fn stats(State(service): Shared, uri: Uri) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let word = |key| query.get(key).unwrap_or_default().to_owned();
    let clients_asked = query.flag("include_clients", true);
    let filter = StatsFilter {
        topic: word("topic"),
        channel: word("channel"),
        include_clients: clients_asked,
    };
    let (topic_asked, channel_asked) = (!filter.topic.is_empty(), !filter.channel.is_empty());
    let mut stats = service.handle.stats(filter).await?;
    let is_unknown = topic_asked && stats.topics.is_empty();
    if channel_asked {
        // As nsqd has it: a topic without the channel asked for is not told of at all.
        stats.topics.retain(|topic| !topic.channels.is_empty());
    }
    let memory = query.flag("include_mem", true).then(|| Memory::now(&stats));
    let mut document = Document::new(&service.info, &stats, memory, is_unknown, clients_asked);
    document.health = super::info::health(&service.handle);
    Ok(match query.get("format") {
        Some("json") => answer::json(&document),
        _ => answer::text(text::render(&service.info, &document, sys::wall_now())),
    })
}

/// nsqd's memory section, filled with what corresponds in a process without a garbage collector.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct Memory {
    /// Messages held by the store.
    heap_objects: u64,
    heap_idle_bytes: u64,
    /// Resident memory of the process.
    heap_in_use_bytes: u64,
    heap_released_bytes: u64,
    gc_pause_usec_100: u64,
    gc_pause_usec_99: u64,
    gc_pause_usec_95: u64,
    next_gc_bytes: u64,
    gc_total_runs: u32,
}

impl Memory {
    fn now(stats: &Stats) -> Memory {
        Memory {
            heap_objects: stats
                .reactors
                .iter()
                .map(|reactor| reactor.messages_stored)
                .sum(),
            heap_in_use_bytes: super::info::resident_bytes(),
            ..Memory::default()
        }
    }
}
