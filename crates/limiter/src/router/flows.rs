//! An account of flows for records of experiments: a bounded number of them, the others added up.

use clock::Instant;
use limit::sharing::Verdict;
use rustc_hash::FxHashMap;

use crate::packet::Header;
use crate::site::Passed;

/// The most flows that are counted one by one.
pub(crate) const FLOWS_MAX: usize = 65_536;

/// Counts of packets by flow.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: FxHashMap<u64, Flow>,
    others: Passed,
}

/// What became of one flow's packets.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) header: Header,
    pub(crate) site: usize,
    pub(crate) class: usize,
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) passed: Passed,
}

impl Flows {
    pub(crate) fn count(
        &mut self,
        now: Instant,
        flow: u64,
        (site, class): (usize, usize),
        header: &Header,
        verdict: Verdict,
    ) {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&flow) {
            self.others.count(verdict, header.length);
            return;
        }
        let flow = self.flows.entry(flow).or_insert_with(|| Flow {
            header: *header,
            site,
            class,
            first: now,
            last: now,
            passed: Passed::default(),
        });
        flow.last = now;
        flow.passed.count(verdict, header.length);
    }

    /// The flows that are counted one by one, in no order.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }

    /// The counts of all other flows together.
    pub(crate) const fn others(&self) -> Passed {
        self.others
    }
}
