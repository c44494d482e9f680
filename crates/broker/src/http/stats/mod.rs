//! `GET /stats`: everything the broker knows, as nsqd's text or as nsqd's JSON with SRTM's fields
//! added.

mod document;
mod text;

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use http::nsq::{self, Failure};
use http::{Query, rendered};

use super::memory::MemoryView;
use super::{Service, Shared};
use crate::stats::{Stats, StatsFilter};
use crate::sys;
use document::Document;
use topics::MemoryBudget;

/// The parameters of a request; equal requests at the same time get one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    filter: StatsFilter,
    as_json: bool,
    with_memory: bool,
}

/// `GET /stats?format=json|text&topic=T&channel=C&include_clients=B&include_mem=B`.
pub(super) async fn stats(State(service): Shared, uri: Uri) -> Result<Response, Failure> {
    let query = Query::of(&uri)?;
    let word = |key| query.get(key).unwrap_or_default().to_owned();
    let asked = Asked {
        filter: StatsFilter {
            topic: word("topic"),
            channel: word("channel"),
            include_clients: query.flag("include_clients", true),
        },
        as_json: query.get("format") == Some("json"),
        with_memory: query.flag("include_mem", true),
    };
    let made = make(Arc::clone(&service), asked.clone());
    let StatsFilter { topic, channel, .. } = &asked.filter;
    Ok(match (topic.is_empty(), channel.is_empty()) {
        // One topic is soon told of.
        (false, _) => made.await,
        (true, true) => service.everything.ask(asked, made).await,
        (true, false) => service.channels.ask(asked, made).await,
    })
}

async fn make(service: Arc<Service>, asked: Asked) -> Response {
    match service.handle.stats(asked.filter.clone()).await {
        Ok(stats) => rendered(move || render(&service, &asked, stats)).await,
        Err(error) => Failure::from(error).into_response(),
    }
}

fn render(service: &Service, asked: &Asked, mut stats: Stats) -> Response {
    let filter = &asked.filter;
    let is_unknown = !filter.topic.is_empty() && stats.topics.is_empty();
    if !filter.channel.is_empty() {
        // As nsqd has it: a topic without the channel asked for is not told of at all.
        stats.topics.retain(|topic| !topic.channels.is_empty());
    }
    let memory = asked
        .with_memory
        .then(|| Memory::now(&stats, &service.handle.memory));
    let clients_asked = filter.include_clients;
    let mut document = Document::new(&service.info, &stats, memory, is_unknown, clients_asked);
    document.health = super::info::health(&service.handle);
    match asked.as_json {
        true => nsq::json(&document),
        false => nsq::text(text::render(&service.info, &document, sys::wall_now())),
    }
}

/// nsqd's memory section, filled with what corresponds in a process without a garbage collector.
#[derive(Clone, Debug, serde::Serialize)]
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
    /// What nsqd does not know: the budget.
    srtm: MemoryView,
}

impl Memory {
    fn now(stats: &Stats, budget: &MemoryBudget) -> Memory {
        Memory {
            heap_objects: stats
                .reactors
                .iter()
                .map(|reactor| reactor.messages_stored)
                .sum(),
            heap_in_use_bytes: super::info::resident_bytes(),
            heap_idle_bytes: 0,
            heap_released_bytes: 0,
            gc_pause_usec_100: 0,
            gc_pause_usec_99: 0,
            gc_pause_usec_95: 0,
            next_gc_bytes: 0,
            gc_total_runs: 0,
            srtm: MemoryView::of(budget),
        }
    }
}
