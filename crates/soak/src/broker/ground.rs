//! What all parts of a process stand on: who it is, its clock, and its topics.

use std::time::Duration;

use clock::Instant;
use link::Identity;
use topics::TopicTable;
use topics::stats::CatalogTopic;

use crate::event::Actor;
use crate::laws::delivery::Memory;

/// Who a process is, and its topics.
pub(super) struct Ground {
    pub(super) me: Actor,
    pub(super) place: usize,
    pub(super) life: u64,
    pub(super) name: String,
    pub(super) identity: Identity,
    /// The process's clock is so far from the simulation's: no two machines have one.
    pub(super) offset: Duration,
    pub(super) table: TopicTable,
}

impl Ground {
    /// The process's own clock.
    pub(super) fn local(&self, now: Instant) -> Instant {
        now + self.offset
    }

    /// An instant of that clock in the simulation's time.
    pub(super) fn outer(&self, local: Instant) -> Instant {
        let nanos = self.offset.as_nanos() as u64;
        Instant::from_nanos(local.as_nanos().saturating_sub(nanos))
    }

    /// This life of the process, as the laws name it.
    pub(super) fn memory(&self) -> Memory {
        (self.place, self.life)
    }

    /// Topics and channels as a catalog keeps them.
    pub(super) fn catalog(&self) -> Vec<CatalogTopic> {
        let slots = 0..self.table.topic_slots();
        let keys = slots.filter_map(|slot| self.table.topic_at(slot));
        keys.filter_map(|key| self.table.catalog_topic(key))
            .collect()
    }
}
