//! `GET /v1/memory`: the memory budget and what each part of it holds.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use http::nsq::json;
use serde::Serialize;

use super::Shared;
use topics::{MemoryBudget, Part};

/// The budget as it stands; also `srtm` in the `memory` of `/stats`. Sizes are bytes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemoryView {
    /// The most that the broker may hold.
    budget_bytes: u64,
    /// What it holds in all parts together.
    used_bytes: u64,
    /// By name.
    parts: BTreeMap<&'static str, PartView>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PartView {
    limit_bytes: u64,
    used_bytes: u64,
    /// Times that somebody waited for room in it, or was refused.
    waits: u64,
}

impl MemoryView {
    /// As things are.
    pub(super) fn of(memory: &MemoryBudget) -> MemoryView {
        let view = |part| PartView {
            limit_bytes: memory.limit(part),
            used_bytes: memory.used(part),
            waits: memory.waits(part),
        };
        MemoryView {
            budget_bytes: memory.bytes(),
            used_bytes: memory.used_all(),
            parts: Part::ALL.map(|part| (part.name(), view(part))).into(),
        }
    }
}

/// Asks no reactor.
pub(super) async fn memory(State(service): Shared) -> Response {
    json(&MemoryView::of(&service.handle.memory))
}
