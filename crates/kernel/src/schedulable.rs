//! SchedulableTasks: a concurrent priority queue of tasks by the credits they have left.
//!
//! Credits are divided into N steps; each step is a bucket with a FIFO queue. Buckets stand in
//! groups of √N, and both a bucket and a group count what is in them, so that the fullest bucket is
//! found by about √N comparisons instead of N/2 (Tempo, section on SchedulableTasks). One more
//! bucket, the last, holds tasks without credits. Everything is lock-free: between reading a
//! counter and taking a task somebody else may put a better task in, so "most credits" holds except
//! for what happens at the same instant.

use std::ops::Range;

use crate::fifo::{Fifo, NodeIndex, Nodes};
use crate::sync::{AtomicUsize, Ordering};

/// The queue. Numbers of tasks go in with a priority and come out, the highest first.
#[derive(Debug)]
pub struct SchedulableTasks {
    nodes: Nodes,
    /// The most credits first; the last one holds those that have none.
    buckets: Box<[Bucket]>,
    groups: Box<[AtomicUsize]>,
    group_size: usize,
    quantum_ns: u64,
}

#[derive(Debug)]
struct Bucket {
    count: AtomicUsize,
    tasks: Fifo,
}

impl SchedulableTasks {
    /// Room for `tasks` tasks with credits up to `period_ns`, told apart in `buckets` steps.
    pub fn new(tasks: usize, period_ns: u64, buckets: usize) -> SchedulableTasks {
        let group_size = buckets.isqrt().max(1);
        let bucket = |index: usize| Bucket {
            count: AtomicUsize::new(0),
            tasks: Fifo::new((tasks + index) as NodeIndex),
        };
        let all = buckets + 1;
        SchedulableTasks {
            nodes: Nodes::new(tasks + all),
            buckets: (0..all).map(bucket).collect(),
            groups: (0..all.div_ceil(group_size))
                .map(|_| AtomicUsize::new(0))
                .collect(),
            group_size,
            quantum_ns: period_ns.div_ceil(buckets as u64).max(1),
        }
    }

    /// The node that task `task` begins with.
    pub fn first_node(task: u32) -> NodeIndex {
        task
    }

    /// Credits are told apart no finer than this.
    pub fn quantum_ns(&self) -> u64 {
        self.quantum_ns
    }

    /// Puts a task in, with the node that it holds.
    pub fn put(&self, task: u32, node: NodeIndex, credits_ns: i64) {
        let index = self.bucket_of(credits_ns);
        let bucket = &self.buckets[index];
        // Counted before it is there: a taker may look in vain, but never overlooks one that is in.
        self.groups[index / self.group_size].fetch_add(1, Ordering::AcqRel);
        bucket.count.fetch_add(1, Ordering::AcqRel);
        bucket.tasks.push(&self.nodes, node, task);
    }

    /// Takes the task with the most credits, with the node that it holds from now on; `None` where nothing was found.
    pub fn take(&self) -> Option<(u32, NodeIndex)> {
        for (group, count) in self.groups.iter().enumerate() {
            if count.load(Ordering::Acquire) == 0 {
                continue;
            }
            let taken = self
                .buckets_of(group)
                .find_map(|index| self.take_from(index));
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Takes a task that has no credits.
    pub fn take_exhausted(&self) -> Option<(u32, NodeIndex)> {
        self.take_from(self.buckets.len() - 1)
    }

    /// Tasks without credits that are in, about.
    pub fn exhausted(&self) -> usize {
        self.buckets[self.buckets.len() - 1]
            .count
            .load(Ordering::Acquire)
    }

    /// Whether nothing is in. What is counted but not in yet does not matter: whoever is putting it in wakes a thread, or
    /// looks himself, when it is, and waiting for him would be waiting for a thread that may not be running.
    pub fn is_empty(&self) -> bool {
        !(0..self.groups.len()).any(|group| {
            self.groups[group].load(Ordering::Acquire) > 0
                && self.buckets_of(group).any(|index| self.has(index))
        })
    }

    fn buckets_of(&self, group: usize) -> Range<usize> {
        let first = group * self.group_size;
        first..(first + self.group_size).min(self.buckets.len())
    }

    fn has(&self, index: usize) -> bool {
        let bucket = &self.buckets[index];
        bucket.count.load(Ordering::Acquire) > 0 && !bucket.tasks.is_empty(&self.nodes)
    }

    fn take_from(&self, index: usize) -> Option<(u32, NodeIndex)> {
        let bucket = &self.buckets[index];
        if bucket.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let taken = bucket.tasks.pop(&self.nodes)?;
        bucket.count.fetch_sub(1, Ordering::AcqRel);
        self.groups[index / self.group_size].fetch_sub(1, Ordering::AcqRel);
        Some(taken)
    }

    fn bucket_of(&self, credits_ns: i64) -> usize {
        let last = self.buckets.len() - 1;
        match u64::try_from(credits_ns) {
            Ok(0) | Err(_) => last,
            Ok(credits_ns) => {
                let steps = usize::try_from((credits_ns - 1) / self.quantum_ns);
                (last - 1).saturating_sub(steps.unwrap_or(usize::MAX))
            }
        }
    }
}
