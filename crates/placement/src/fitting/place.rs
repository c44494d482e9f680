//! Where publishers go between the rounds: distribution of what is left over, and waiting places.

use crate::{
    BrokerIndex, BrokerState, Distribution, OutOfBrokers, Policy, Publisher, Question, distribute,
};

/// The placement so far.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) policy: Policy,
    pub(super) publishers: Vec<Publisher>,
    pub(super) brokers: Vec<BrokerState>,
    /// Brokers that are known to hold no more.
    pub(super) full: Vec<bool>,
    /// By publisher: its broker; `None`: left over.
    pub(super) home: Vec<Option<BrokerIndex>>,
    /// By publisher: where it waits while it has no home.
    waits_at: Vec<Option<BrokerIndex>>,
}

/// A capacity that no topic reaches.
const UNLIMITED: f64 = 1e18;

impl Places {
    pub(super) fn new(
        policy: Policy,
        publishers: Vec<Publisher>,
        brokers: Vec<BrokerState>,
    ) -> Self {
        Places {
            policy,
            full: vec![false; brokers.len()],
            home: vec![None; publishers.len()],
            waits_at: vec![None; publishers.len()],
            publishers,
            brokers,
        }
    }

    /// Gives a home to all that are left over; those that have one stay.
    pub(super) fn settle(&mut self) -> Result<(), OutOfBrokers> {
        self.waits_at.fill(None);
        match self.distribute(&self.home, &self.brokers, &self.full, 0) {
            Ok(distribution) => {
                self.home = distribution.broker_of.into_iter().map(Some).collect();
                Ok(())
            }
            Err(out) => {
                self.home.clone_from(&out.best);
                Err(out)
            }
        }
    }

    /// As [`Places::settle`], but for the brokers to `avoid`. False where the others have no room for all.
    pub(super) fn settle_avoiding(&mut self, avoid: &[bool]) -> bool {
        let closed: Vec<bool> = (0..self.full.len())
            .map(|at| self.full[at] || avoid.get(at).copied().unwrap_or(false))
            .collect();
        let open = std::mem::replace(&mut self.full, closed);
        let is_settled = self.settle().is_ok();
        self.full = open;
        is_settled
    }

    /// All homes, and waiting places for the rest at brokers that are not measured: neither full nor
    /// `searching`. There they are spread as thinly as possible; who waits already, stays where it waits.
    /// `None` where no such broker has room.
    pub(super) fn with_waiting(&mut self, searching: &[BrokerIndex]) -> Vec<Option<BrokerIndex>> {
        let is_searching = |at: usize| searching.iter().any(|broker| broker.0 as usize == at);
        let closed: Vec<bool> = self
            .full
            .iter()
            .enumerate()
            .map(|(at, &full)| full || is_searching(at))
            .collect();
        for (waits_at, home) in self.waits_at.iter_mut().zip(&self.home) {
            let stays = |broker: &BrokerIndex| home.is_none() && !closed[broker.0 as usize];
            *waits_at = waits_at.filter(stays);
        }
        let homes = self.home.iter().zip(&self.waits_at);
        let placed: Vec<_> = homes.map(|(home, waits_at)| home.or(*waits_at)).collect();
        let places = match self.distribute(&placed, &self.brokers, &closed, self.brokers.len()) {
            Ok(distribution) => distribution.broker_of.into_iter().map(Some).collect(),
            Err(out) => out.best,
        };
        for ((waits_at, home), place) in self.waits_at.iter_mut().zip(&self.home).zip(&places) {
            *waits_at = if home.is_none() { *place } else { None };
        }
        places
    }

    /// All publishers distributed anew over all brokers, if the capacities allow it.
    pub(super) fn evenly(&self) -> Option<Vec<Option<BrokerIndex>>> {
        let nobody = vec![None; self.publishers.len()];
        let open = vec![false; self.brokers.len()];
        let even = self
            .distribute(&nobody, &self.brokers, &open, self.brokers.len())
            .ok()?;
        Some(even.broker_of.into_iter().map(Some).collect())
    }

    /// No available broker counts as full any more; gives the marks that were.
    pub(super) fn reopen(&mut self) -> Vec<bool> {
        let open = self
            .brokers
            .iter()
            .map(|broker| !broker.is_available)
            .collect();
        std::mem::replace(&mut self.full, open)
    }

    /// All homes; those left over are spread over all brokers whatever their capacity.
    pub(super) fn overfilled(&self) -> Vec<Option<BrokerIndex>> {
        let limitless = |broker: &BrokerState| BrokerState {
            mcap: UNLIMITED,
            ..*broker
        };
        let brokers: Vec<BrokerState> = self.brokers.iter().map(limitless).collect();
        let open = vec![false; brokers.len()];
        match self.distribute(&self.home, &brokers, &open, brokers.len()) {
            Ok(distribution) => distribution.broker_of.into_iter().map(Some).collect(),
            Err(out) => out.best,
        }
    }

    /// The publishers that live at `broker`.
    pub(super) fn members(&self, broker: BrokerIndex) -> Vec<u32> {
        let homes = (0u32..).zip(&self.home);
        homes
            .filter(|(_, home)| **home == Some(broker))
            .map(|(at, _)| at)
            .collect()
    }

    /// By broker: how many publishers live there.
    pub(super) fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.brokers.len()];
        for broker in self.home.iter().flatten() {
            counts[broker.0 as usize] += 1;
        }
        counts
    }

    /// Messages per second of those left over.
    pub(super) fn left_over_rate(&self) -> f64 {
        let homes = self.publishers.iter().zip(&self.home);
        homes
            .filter(|(_, home)| home.is_none())
            .map(|(publisher, _)| publisher.rate.get())
            .sum()
    }

    /// Nobody lives at `broker` any more, and nobody will.
    pub(super) fn lose(&mut self, broker: BrokerIndex) {
        self.brokers[broker.0 as usize].is_available = false;
        self.full[broker.0 as usize] = true;
        for place in self.home.iter_mut().chain(&mut self.waits_at) {
            *place = place.filter(|&at| at != broker);
        }
    }

    fn distribute(
        &self,
        placed: &[Option<BrokerIndex>],
        brokers: &[BrokerState],
        full: &[bool],
        k_min: usize,
    ) -> Result<Distribution, OutOfBrokers> {
        distribute(&Question {
            policy: self.policy,
            publishers: &self.publishers,
            placed,
            brokers,
            full,
            k_min,
        })
    }
}
