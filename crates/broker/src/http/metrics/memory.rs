//! The series of the memory budget.

use std::fmt;

use http::metrics::{Series, counter, float, gauge};
use prometheus_client::encoding::DescriptorEncoder;
use topics::{MemoryBudget, Part};

use super::put;

/// One part of the budget.
#[derive(Debug)]
pub(super) struct PartFigures {
    part: Part,
    used_bytes: u64,
    limit_bytes: u64,
    waits: u64,
}

/// What all parts hold now.
#[derive(Debug, Default)]
pub(super) struct MemoryFigures {
    budget_bytes: u64,
    parts: Vec<PartFigures>,
}

pub(super) const BUDGET: Series<MemoryFigures> = gauge(
    "srtm_memory_budget_bytes",
    "Memory that the broker may hold for messages and for what is on its way in and out.",
    |memory| float(memory.budget_bytes),
);

pub(super) const PARTS: &[Series<PartFigures>] = &[
    gauge(
        "srtm_memory_used_bytes",
        "Memory that is held, by part of the budget.",
        |part| float(part.used_bytes),
    ),
    gauge(
        "srtm_memory_limit_bytes",
        "Memory that may be held, by part of the budget.",
        |part| float(part.limit_bytes),
    ),
    counter(
        "srtm_memory_waits",
        "Times that somebody waited for memory or was refused, by part of the budget.",
        |part| float(part.waits),
    ),
];

impl MemoryFigures {
    /// As things are.
    pub(super) fn of(memory: &MemoryBudget) -> MemoryFigures {
        let figures = |part| PartFigures {
            part,
            used_bytes: memory.used(part),
            limit_bytes: memory.limit(part),
            waits: memory.waits(part),
        };
        MemoryFigures {
            budget_bytes: memory.bytes(),
            parts: Part::ALL.map(figures).into(),
        }
    }

    /// Puts the series of all parts.
    pub(super) fn put(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        put(encoder, &BUDGET, [([], self)])?;
        for series in PARTS {
            let parts = self.parts.iter();
            let labelled = parts.map(|part| ([("part", part.part.name())], part));
            put(encoder, series, labelled)?;
        }
        Ok(())
    }
}
