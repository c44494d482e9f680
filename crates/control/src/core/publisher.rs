//! A topic's publishers: what was declared, where each is to publish, where it is connected.

use clock::Instant;
use limit::Unit;
use rustc_hash::FxHashMap;

use super::BrokerNumber;
use crate::view::PublisherSpec;

/// One publisher.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was declared.
    pub spec: PublisherSpec,
    /// Correlation group found from its arrivals, where it names none.
    pub inferred_group: Option<u32>,
    /// Where it is to publish.
    pub broker: Option<BrokerNumber>,
    /// Where it is connected.
    pub attached: Option<BrokerNumber>,
    /// When it was told to move, if it has not moved yet.
    pub told_at: Option<Instant>,
    /// When it was told to move last.
    pub moved_at: Option<Instant>,
    /// The life of the controller in which it was placed elsewhere than where it was connected, last: kept, so that it rests after a move
    /// also where the controller has been started again meanwhile. 0: in none.
    pub moved_in: u64,
    /// Messages per second as brokers saw them, where that contradicts the declaration ([`super::rates`]).
    pub measured_rate: Option<f64>,
}

impl Row {
    /// Messages per second to reckon with: measured where known, else declared.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.measured_rate.unwrap_or(self.spec.rate)
    }
}

/// All publishers of a topic.
#[derive(Debug, Default)]
pub struct Publishers {
    rows: Vec<Row>,
    by_id: FxHashMap<String, u32>,
}

impl Publishers {
    /// All rows; an index is good until the next removal.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All rows, to be changed in place; ids must stay.
    pub fn rows_mut(&mut self) -> &mut [Row] {
        &mut self.rows
    }

    /// Index of a publisher.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).map(|&index| index as usize)
    }

    /// Adds a publisher, or takes its new declaration. Says what changed.
    pub fn put(&mut self, spec: PublisherSpec) -> Put {
        if let Some(index) = self.find(&spec.id) {
            let row = &mut self.rows[index];
            if row.spec == spec {
                return Put::Same(index);
            }
            row.spec = spec;
            row.measured_rate = None;
            return Put::Changed(index);
        }
        let index = self.rows.len();
        self.by_id.insert(spec.id.clone(), index as u32);
        self.rows.push(Row {
            spec,
            inferred_group: None,
            broker: None,
            attached: None,
            told_at: None,
            moved_at: None,
            moved_in: 0,
            measured_rate: None,
        });
        Put::New(index)
    }

    /// Removes a publisher.
    pub fn remove(&mut self, id: &str) -> Option<Row> {
        let index = self.by_id.remove(id)? as usize;
        let row = self.rows.swap_remove(index);
        if let Some(moved) = self.rows.get(index) {
            self.by_id.insert(moved.spec.id.clone(), index as u32);
        }
        Some(row)
    }

    /// Nobody is connected to this broker any more.
    pub fn detach_all(&mut self, broker: BrokerNumber) {
        for row in &mut self.rows {
            if row.attached == Some(broker) {
                row.attached = None;
                row.told_at = None;
            }
        }
    }

    /// Largest batch in tokens. A share's burst is never below it; of bytes nothing is declared.
    #[must_use]
    pub fn largest_batch_tokens(&self, unit: Option<Unit>) -> f64 {
        let batches = self.rows.iter().map(|row| row.spec.batch);
        match unit {
            Some(Unit::Messages) => f64::from(batches.max().unwrap_or(1)),
            _ => 1.0,
        }
    }

    /// Declared rate of all, messages per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        // An empty sum of floats is -0.
        self.rows.iter().map(|row| row.spec.rate).sum::<f64>() + 0.0
    }
}

/// What a declaration changed; with the publisher's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Nothing.
    Same(usize),
    /// Rate, batch or group.
    Changed(usize),
    /// It was not known.
    New(usize),
}

impl Put {
    /// The publisher's index.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Put::Same(index) | Put::Changed(index) | Put::New(index) => index,
        }
    }
}
