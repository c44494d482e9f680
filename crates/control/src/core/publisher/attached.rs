//! Where publishers are connected, as brokers report it: in any order, and sometimes late.

use super::super::BrokerNumber;
use super::super::parts::Sizes;
use super::super::tally::Loads;
use super::{Looked, Publishers, Row};

/// Places that a publisher may have left without a word, at most; beyond that the one of longest ago is forgotten.
pub(super) const FORMER_MAX: usize = 8;

impl Publishers {
    /// One is connected there now, as this link says.
    pub(in crate::core) fn attach(
        &mut self,
        index: usize,
        at: (BrokerNumber, u64),
        loads: &mut Loads,
    ) {
        let row = &self.rows[index];
        let before = row.attached.map(|before| (before, row.attached_link));
        self.forget_former(index, at.0);
        if let Some(before) = before.filter(|before| before.0 != at.0) {
            let former = self.former.entry(index as u32).or_default();
            if former.len() == FORMER_MAX {
                former.remove(0);
            }
            former.push(before);
        }
        self.change(index, loads, |row| {
            (row.attached, row.told_at) = (Some(at.0), None);
            row.attached_link = at.1;
        });
    }

    /// One is not connected there any more: then where it was before, unless it has left there too.
    pub(in crate::core) fn detach(&mut self, index: usize, from: BrokerNumber, loads: &mut Loads) {
        self.forget_former(index, from);
        if self.rows[index].attached != Some(from) {
            return;
        }
        let former = self.former.get(&(index as u32));
        let former = former.and_then(|former| former.last().copied());
        if let Some((former, _)) = former {
            self.forget_former(index, former);
        }
        let (attached, link) = former.unzip();
        self.change(index, loads, |row| {
            (row.attached, row.told_at) = (attached, None);
            row.attached_link = link.unwrap_or(0);
        });
    }

    fn forget_former(&mut self, index: usize, broker: BrokerNumber) {
        let index = index as u32;
        if let Some(former) = self.former.get_mut(&index) {
            former.retain(|former| former.0 != broker);
            if former.is_empty() {
                self.former.remove(&index);
            }
        }
    }

    /// Publishers connected to this broker through another link than its present one, now or
    /// before, are no longer connected. Looks at as many of those `below` an index as fit into one
    /// part; returns below which index the others are.
    pub(in crate::core) fn detach_stale(
        &mut self,
        broker: BrokerNumber,
        link: Option<u64>,
        (below, sizes): (usize, Sizes),
        loads: &mut Loads,
    ) -> Looked {
        let is_stale = |row: &Row| row.attached == Some(broker) && Some(row.attached_link) != link;
        let looked = match self.at(broker).is_none_or(|at| at.attached.number() == 0) {
            true => self.pass_over(below, sizes),
            false => self.look_below(below, sizes, is_stale),
        };
        let part = looked.rows_left.map_or(0, |left| left as u32)..below as u32;
        let mut left_for_good = Vec::new();
        for (&index, former) in self.former.range_mut(part) {
            former.retain(|&(of, by)| of != broker || Some(by) == link);
            if former.is_empty() {
                left_for_good.push(index);
            }
        }
        for index in left_for_good {
            self.former.remove(&index);
        }
        for &index in &looked.found {
            self.detach(index, broker, loads);
        }
        looked
    }

    /// Publishers that seem to be connected to this broker, are not heard of any more, and were
    /// elsewhere before are there again: the broker may have reported last what it had heard first.
    /// Looks at as many of those `below` an index as fit into one part; returns below which index
    /// the others are.
    pub(in crate::core) fn recall(
        &mut self,
        broker: BrokerNumber,
        (below, sizes): (usize, Sizes),
        loads: &mut Loads,
    ) -> Looked {
        let mut looked = self.pass_over(below, sizes);
        let part = looked.rows_left.map_or(0, |left| left as u32)..below as u32;
        let before = self.former.range(part).map(|(&index, _)| index as usize);
        let seems_there = |index: &usize| self.rows[*index].attached == Some(broker);
        looked.found = before.filter(seems_there).collect();
        for &index in &looked.found {
            self.detach(index, broker, loads);
        }
        looked
    }

    /// Nobody is to be looked at, but for those who were elsewhere before.
    fn pass_over(&self, below: usize, sizes: Sizes) -> Looked {
        let mut before = self.former.range(..below as u32).rev();
        let part = before.by_ref().take(sizes.looks);
        let (rows, lowest) = part.fold((0, 0), |(rows, _), (&index, _)| (rows + 1, index as usize));
        Looked {
            found: Vec::new(),
            rows,
            rows_left: before.next().is_some().then_some(lowest),
        }
    }
}
