//! Departed instances: the number of the last announcement of each, so that a replay of it is
//! refused.
//!
//! Bounded: beyond the bound each new one displaces the oldest.

use std::collections::{BTreeMap, VecDeque};

use wire::announce::InstanceId;

#[derive(Clone, Debug)]
pub(super) struct Departed {
    bound: usize,
    sequences: BTreeMap<InstanceId, u32>,
    /// Instances in the order of their departure.
    order: VecDeque<InstanceId>,
}

impl Departed {
    pub(super) fn new(bound: usize) -> Departed {
        Departed {
            bound,
            sequences: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn put(&mut self, instance: InstanceId, sequence: u32) {
        if self.sequences.insert(instance, sequence).is_some() {
            return;
        }
        self.order.push_back(instance);
        if self.order.len() > self.bound
            && let Some(first) = self.order.pop_front()
        {
            self.sequences.remove(&first);
        }
    }

    pub(super) fn of(&self, instance: InstanceId) -> Option<u32> {
        self.sequences.get(&instance).copied()
    }
}
