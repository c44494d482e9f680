//! The common ground of all parts of a process: its identity, its clock, and its topics.

use std::time::Duration;

use clock::Instant;
use link::{Durability, Identity};
use topics::stats::{CatalogTopic, ClientStats, StatsFilter, TopicStats};
use topics::{Step, TopicKey, TopicTable, Walk};

use super::waiters::Waiters;
use crate::event::Actor;
use crate::laws::delivery::Memory;

/// A process's identity, and its topics.
pub(super) struct Ground {
    pub(super) me: Actor,
    pub(super) place: usize,
    pub(super) life: u64,
    pub(super) name: String,
    pub(super) identity: Identity,
    /// The process's clock is so far from the simulation's: no two machines have one.
    pub(super) offset: Duration,
    pub(super) table: TopicTable,
    /// Who waits until what its topics have taken is durable.
    pub(super) waiters: Waiters,
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

    /// What a topic is declared to outlive.
    pub(super) fn durability(&self, topic: TopicKey) -> Durability {
        let topic = self.table.topic(topic);
        topic.map_or(Durability::Memory, |topic| topic.declared.durability)
    }

    /// What is in force of a topic, as of now.
    pub(super) fn topic(&mut self, topic: &str, now: Instant) -> Option<TopicStats> {
        let now = self.local(now);
        let filter = StatsFilter {
            topic: topic.to_owned(),
            ..StatsFilter::default()
        };
        let mut walk = Walk::new(filter);
        loop {
            match self.table.walk(&mut walk, now, |_| ClientStats::default()) {
                Step::Topic(stats) => return Some(*stats),
                Step::Part => {}
                Step::End => return None,
            }
        }
    }

    /// Topics and channels as a catalog keeps them.
    pub(super) fn catalog(&self) -> Vec<CatalogTopic> {
        let slots = 0..self.table.topic_slots();
        let keys = slots.filter_map(|slot| self.table.topic_at(slot));
        keys.filter_map(|key| self.table.catalog_topic(key))
            .collect()
    }
}
