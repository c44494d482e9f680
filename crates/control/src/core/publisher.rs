//! A topic's publishers: what was declared, where each is to publish, and where it is connected.
//!
//! Every change goes through here and updates the sums ([`super::tally`]), so no question costs
//! time in proportion to the number of publishers.

mod attached;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use clock::Instant;
use rustc_hash::FxHashMap;

use super::BrokerNumber;
use super::tally::{Bag, Count, Loads, Promised, Tally};
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
    /// Through which link that was said.
    pub(super) attached_link: u64,
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

    /// Whether it is connected elsewhere than it is to be.
    fn is_misplaced(&self) -> bool {
        self.broker.is_some() && self.attached.is_some() && self.broker != self.attached
    }
}

/// All publishers of a topic.
#[derive(Debug)]
pub struct Publishers {
    topic: Arc<str>,
    promise_us: Option<f64>,
    rows: Vec<Row>,
    by_id: BTreeMap<String, u32>,
    tallies: BTreeMap<BrokerNumber, Tally>,
    unplaced: BTreeSet<u32>,
    misplaced: BTreeSet<u32>,
    /// Where, and as which link said, some were connected before, latest last, as far as those brokers have not said that they are gone: what brokers say of one
    /// publisher comes in any order, and one that was stopped says of connections that are long gone that they came.
    former: BTreeMap<u32, Vec<(BrokerNumber, u64)>>,
    declared: Count,
    batches: Bag<u32>,
    /// Messages that the members of a group send at once, as declared.
    groups: FxHashMap<String, u64>,
    /// The same for every group and for all publishers without one.
    bursts: Bag<u64>,
}

impl Publishers {
    /// None of this topic, which is promised so much.
    pub(super) fn new(topic: &str, promise_us: Option<f64>) -> Publishers {
        Publishers {
            topic: Arc::from(topic),
            promise_us,
            rows: Vec::new(),
            by_id: BTreeMap::new(),
            tallies: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            misplaced: BTreeSet::new(),
            former: BTreeMap::new(),
            declared: Count::default(),
            batches: Bag::default(),
            groups: FxHashMap::default(),
            bursts: Bag::default(),
        }
    }

    /// All rows; an index is good until the next removal.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The topic's name.
    pub(super) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Those behind `after`, in order of id.
    pub fn behind(&self, after: Option<&str>) -> impl Iterator<Item = &Row> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.by_id.range::<str, _>((begin, Bound::Unbounded));
        behind.map(|(_, &index)| &self.rows[index as usize])
    }

    /// Index of a publisher.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).map(|&index| index as usize)
    }

    /// Adds a publisher, or takes its new declaration. Says what changed.
    pub(super) fn put(&mut self, spec: PublisherSpec, loads: &mut Loads) -> Put {
        if let Some(index) = self.find(&spec.id) {
            if self.rows[index].spec == spec {
                return Put::Same(index);
            }
            self.change(index, loads, |row| {
                row.spec = spec;
                row.measured_rate = None;
            });
            return Put::Changed(index);
        }
        let index = self.rows.len();
        self.by_id.insert(spec.id.clone(), index as u32);
        self.rows.push(Row {
            spec,
            inferred_group: None,
            broker: None,
            attached: None,
            attached_link: 0,
            told_at: None,
            moved_at: None,
            moved_in: 0,
            measured_rate: None,
        });
        self.count(index, true, loads);
        Put::New(index)
    }

    /// Removes a publisher; the last one takes its index.
    pub(super) fn remove(&mut self, id: &str, loads: &mut Loads) -> Option<Row> {
        let index = self.find(id)?;
        let last = self.rows.len() - 1;
        self.count(index, false, loads);
        if index != last {
            self.count(last, false, loads);
        }
        self.by_id.remove(id);
        let row = self.rows.swap_remove(index);
        self.former.remove(&(index as u32));
        if let Some(former) = self.former.remove(&(last as u32)) {
            self.former.insert(index as u32, former);
        }
        if let Some(moved) = self.rows.get(index) {
            self.by_id.insert(moved.spec.id.clone(), index as u32);
            self.count(index, true, loads);
        }
        Some(row)
    }

    /// All of them are gone: what they come to counts no more.
    pub(super) fn leave(&mut self, loads: &mut Loads) {
        self.set_promise(None, loads);
        let promised = Promised::new(&self.topic, None);
        for (number, tally) in std::mem::take(&mut self.tallies) {
            loads.change(false, number, &tally);
            loads.at_mut(number).topics.remove(&promised);
        }
    }

    /// The topic is promised something else.
    pub(super) fn set_promise(&mut self, promise_us: Option<f64>, loads: &mut Loads) {
        let (former, next) = (
            Promised::new(&self.topic, self.promise_us),
            Promised::new(&self.topic, promise_us),
        );
        let here = self.tallies.iter();
        for (&number, tally) in here.filter(|(_, tally)| tally.placed.number() > 0) {
            let load = loads.at_mut(number);
            load.promise(false, self.promise_us);
            load.promise(true, promise_us);
            if tally.present.number() > 0 {
                load.topics.remove(&former);
                load.topics.insert(next.clone());
            }
        }
        self.promise_us = promise_us;
    }

    /// One is to publish there from now on.
    pub(super) fn place(&mut self, index: usize, broker: Option<BrokerNumber>, loads: &mut Loads) {
        self.change(index, loads, |row| {
            (row.broker, row.told_at) = (broker, None);
        });
    }

    /// Notes the life of the controller in which one that is not where it is to be was placed.
    pub(super) fn note_placed_in(&mut self, index: usize, epoch: u64) {
        let row = &mut self.rows[index];
        if row.is_misplaced() {
            row.moved_in = epoch;
        }
    }

    /// Restores a publisher's last move: it rests from `rests_from` on, if it may have moved
    /// lately.
    pub(super) fn restore_move(
        &mut self,
        index: usize,
        moved_in: u64,
        rests_from: Option<Instant>,
    ) {
        let row = &mut self.rows[index];
        (row.moved_in, row.moved_at) = (moved_in, rests_from);
    }

    /// A publisher is told to move.
    pub(super) fn told(&mut self, index: usize, now: Instant) {
        let row = &mut self.rows[index];
        (row.told_at, row.moved_at) = (Some(now), Some(now));
    }

    /// What each is believed to send from now on; `None`: as before.
    pub(super) fn believe(
        &mut self,
        loads: &mut Loads,
        rate_of: impl Fn(usize, &Row) -> Option<f64>,
    ) {
        let mut is_changed = false;
        for (index, row) in self.rows.iter_mut().enumerate() {
            if let Some(rate) = rate_of(index, row) {
                row.measured_rate = Some(rate);
                is_changed = true;
            }
        }
        if is_changed {
            self.count_rates_anew(loads);
        }
    }

    /// Groups found from arrivals, by index.
    pub(super) fn infer(&mut self, group_of: impl Iterator<Item = Option<u32>>) {
        for (row, group) in self.rows.iter_mut().zip(group_of) {
            row.inferred_group = group.filter(|_| row.spec.group.is_none());
        }
    }

    fn change(&mut self, index: usize, loads: &mut Loads, change: impl FnOnce(&mut Row)) {
        self.count(index, false, loads);
        change(&mut self.rows[index]);
        self.count(index, true, loads);
    }

    /// Takes a row into the sums, or out of them.
    fn count(&mut self, index: usize, is_more: bool, loads: &mut Loads) {
        let (row, at) = (&self.rows[index], index as u32);
        let (rate, batch) = (row.rate(), u64::from(row.spec.batch));
        self.declared.change(is_more, row.spec.rate);
        self.batches.change(is_more, row.spec.batch);
        match row.spec.group.as_deref() {
            None => self.bursts.change(is_more, batch),
            Some(group) => regroup(&mut self.groups, &mut self.bursts, group, is_more, batch),
        }
        match (row.broker, is_more) {
            (None, true) => drop(self.unplaced.insert(at)),
            (None, false) => drop(self.unplaced.remove(&at)),
            (Some(number), _) => {
                let (tally, load) = (
                    self.tallies.entry(number).or_default(),
                    loads.at_mut(number),
                );
                let before = tally.placed.number();
                tally.placed.change(is_more, rate);
                load.placed.change(is_more, rate);
                if before.min(tally.placed.number()) == 0 {
                    load.promise(is_more, self.promise_us);
                }
                if row.attached.is_some() {
                    let before = tally.present.number();
                    tally.present.change(is_more, rate);
                    load.present.change(is_more, rate);
                    if before.min(tally.present.number()) == 0 {
                        let promised = Promised::new(&self.topic, self.promise_us);
                        match is_more {
                            true => drop(load.topics.insert(promised)),
                            false => drop(load.topics.remove(&promised)),
                        }
                    }
                }
                if row.attached == row.broker {
                    tally.settled.change(is_more, rate);
                    load.settled.change(is_more, rate);
                }
            }
        }
        if let Some(number) = row.attached {
            let tally = self.tallies.entry(number).or_default();
            tally.attached.change(is_more, rate);
            tally.batches.change(is_more, row.spec.batch);
            loads.at_mut(number).attached.change(is_more, rate);
        }
        if row.is_misplaced() {
            if is_more {
                self.misplaced.insert(at);
                if self.misplaced.len() == 1 {
                    loads.moving.insert(&self.topic);
                }
            } else {
                self.misplaced.remove(&at);
            }
        }
        if !is_more {
            for number in [row.broker, row.attached].into_iter().flatten() {
                if self.tallies.get(&number).is_some_and(Tally::is_empty) {
                    self.tallies.remove(&number);
                }
            }
        }
    }

    /// Rates of many have changed: one pass is less than taking each out and in.
    fn count_rates_anew(&mut self, loads: &mut Loads) {
        for (&number, tally) in &mut self.tallies {
            loads.change(false, number, tally);
            (tally.placed, tally.attached) = Default::default();
            (tally.present, tally.settled) = Default::default();
        }
        for row in &self.rows {
            let rate = row.rate();
            if let Some(tally) = row.broker.and_then(|number| self.tallies.get_mut(&number)) {
                tally.placed.change(true, rate);
                if row.attached.is_some() {
                    tally.present.change(true, rate);
                }
                if row.attached == row.broker {
                    tally.settled.change(true, rate);
                }
            }
            let at = row.attached;
            if let Some(tally) = at.and_then(|number| self.tallies.get_mut(&number)) {
                tally.attached.change(true, rate);
            }
        }
        for (&number, tally) in &self.tallies {
            loads.change(true, number, tally);
        }
    }
}

/// Publishers that were looked for in one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// Indices of those that were found, in order.
    pub(super) found: Vec<usize>,
    /// How many were looked at.
    pub(super) rows: usize,
    /// Those below this index are still to be looked at.
    pub(super) rows_left: Option<usize>,
}

fn regroup(
    groups: &mut FxHashMap<String, u64>,
    bursts: &mut Bag<u64>,
    group: &str,
    is_more: bool,
    batch: u64,
) {
    let before = groups.get(group).copied().unwrap_or(0);
    let after = if is_more {
        before + batch
    } else {
        before - batch
    };
    if before > 0 {
        bursts.change(false, before);
    }
    if after > 0 {
        bursts.change(true, after);
    }
    match groups.get_mut(group) {
        Some(_) if after == 0 => drop(groups.remove(group)),
        Some(sum) => *sum = after,
        None => drop(groups.insert(group.to_owned(), after)),
    }
}

/// The effect of a declaration; with the publisher's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
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
    pub(super) fn index(self) -> usize {
        match self {
            Put::Same(index) | Put::Changed(index) | Put::New(index) => index,
        }
    }
}

mod questions;
#[cfg(test)]
mod tests;
