//! One iteration of the Load Distributor, steps 1 and 2: on how many brokers, and which publisher
//! where.
//!
//! Step 1 (SRTM-long, section 4.2) takes the fewest brokers whose residual capacities hold what is
//! to be placed: those that already carry the topic come first, since they are paid for, then the
//! emptiest. Step 2 divides the rate over them by the [`Policy`] and then picks publishers for
//! every broker's quota, for [`Policy::Srtm`] from every correlation group in proportion (section
//! 4.3).
//!
//! Publishers are indivisible. When those chosen do not fit into the capacities, they are packed
//! tightly; when that fails too, one more broker is taken.
//!
//! Latency is not considered here: whether a broker keeps its SLO with its publishers is for the
//! fitting to find out. Publishers that are placed stay where they are, whatever the policy would
//! prefer.

use thiserror::Error;

use crate::choose::{Choice, Work, choose};
use crate::quota::{unit_fill, water_fill};
use crate::{BrokerIndex, BrokerState, Policy, Publisher};

mod account;

use account::{Demand, Supply};

/// The question of one iteration: which publishers are to be placed, which are placed, which
/// brokers are full.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The rule.
    pub policy: Policy,
    /// All publishers of the topic. Group-blind policies take them in this order, so number them
    /// independently of their groups wherever policies are compared.
    pub publishers: &'a [Publisher],
    /// Where each is now; `None`: to be placed. Those placed stay.
    pub placed: &'a [Option<BrokerIndex>],
    /// All brokers.
    pub brokers: &'a [BrokerState],
    /// Brokers that get no more of this topic, found full by the fitting.
    pub full: &'a [bool],
    /// Use at least this many brokers in all, as far as there are any; 0 or 1: as few as possible.
    pub k_min: usize,
}

/// The answer: every publisher has its broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The broker of each publisher.
    pub broker_of: Vec<BrokerIndex>,
    /// Brokers that carry the topic now.
    pub k: usize,
    /// What each broker was newly asked to take, in messages per second: its share before publishers were
    /// found to be indivisible.
    pub quotas: Vec<f64>,
}

/// The residual capacities do not hold what is to be placed.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "no broker has room for {missing} messages/s of publishers: {asked} messages/s are to be placed, \
     brokers have {residual} messages/s left"
)]
pub struct OutOfBrokers {
    /// The rate that was to be placed, in messages per second.
    pub asked: f64,
    /// The residual capacity of all brokers that may be used, in messages per second.
    pub residual: f64,
    /// The rate of the publishers that `best` leaves out, in messages per second. It can be positive with
    /// `residual` above `asked`: capacity in pieces that hold no whole publisher.
    pub missing: f64,
    /// The best partial answer: the broker of each publisher, `None` for those that fit nowhere.
    pub best: Vec<Option<BrokerIndex>>,
}

/// Answers one iteration's question.
///
/// Deterministic: equal questions have equal answers.
///
/// # Errors
/// [`OutOfBrokers`] when no broker is left and publishers are.
///
/// # Panics
/// If `placed` is not as long as `publishers`, `full` not as long as `brokers`, or a publisher is placed
/// at a broker that does not exist.
pub fn distribute(question: &Question<'_>) -> Result<Distribution, OutOfBrokers> {
    distribute_counting(question, &mut Work::default())
}

/// [`distribute`], and how many steps it took.
pub(crate) fn distribute_counting(
    question: &Question<'_>,
    work: &mut Work,
) -> Result<Distribution, OutOfBrokers> {
    let demand = Demand::new(question, work);
    let supply = Supply::new(question, &demand);
    let everything = supply.order.len();
    let (fewest, is_enough) = match question.policy.takes_all_brokers() {
        true => (everything, supply.holds(everything, demand.rate)),
        false => supply.fewest(demand.rate, question.k_min),
    };
    let mut attempt = |count: usize| Attempt::new(question, &demand, &supply, count, work);
    if !is_enough {
        return Err(attempt(everything).into_error(question, &demand, &supply));
    }
    match least_that_succeeds(fewest, everything, |count| attempt(count).into_complete()) {
        Some(complete) => Ok(complete.into_distribution(question, &demand, &supply)),
        None => Err(attempt(everything).into_error(question, &demand, &supply)),
    }
}

/// Publishers chosen for the first brokers of the supply's order.
struct Attempt {
    /// By broker in that order.
    quotas: Vec<f64>,
    /// By waiting publisher: its broker's place in that order.
    chosen: Vec<Option<u32>>,
}

impl Attempt {
    fn new(
        question: &Question<'_>,
        demand: &Demand,
        supply: &Supply,
        count: usize,
        work: &mut Work,
    ) -> Self {
        let brokers = &supply.order[..count];
        let base_of = |&broker: &usize| match question.policy.levels_total_load() {
            true => supply.carried[broker] + question.brokers[broker].load,
            false => supply.carried[broker],
        };
        let bases: Vec<f64> = brokers.iter().map(base_of).collect();
        let rooms: Vec<f64> = brokers
            .iter()
            .map(|&broker| supply.usable[broker])
            .collect();
        let quotas = water_fill(&bases, &rooms, demand.rate);
        // Of equal publishers every broker's share can be met exactly, in whole publishers.
        let exact: Option<Vec<f64>> = demand.unit().map(|unit| {
            let caps: Vec<u64> = rooms
                .iter()
                .map(|room| (room / unit).round() as u64)
                .collect();
            let shares = unit_fill(&bases, &caps, unit, demand.waiting.len() as u64, work);
            shares.iter().map(|&share| share as f64 * unit).collect()
        });
        let choice = Choice {
            rates: &demand.rates,
            groups: &demand.groups,
            targets: exact.as_ref().unwrap_or(&quotas),
            rooms: &rooms,
            is_exact: exact.is_some(),
        };
        let chosen = choose(&choice, work);
        Attempt { quotas, chosen }
    }

    fn into_complete(self) -> Option<Self> {
        self.chosen.iter().all(Option::is_some).then_some(self)
    }

    /// Where everybody is: those placed before and those chosen.
    fn places(
        &self,
        question: &Question<'_>,
        demand: &Demand,
        supply: &Supply,
    ) -> Vec<Option<BrokerIndex>> {
        let mut places = question.placed.to_vec();
        for (&publisher, chosen) in demand.waiting.iter().zip(&self.chosen) {
            let broker = chosen.map(|at| BrokerIndex(supply.order[at as usize] as u32));
            places[publisher as usize] = broker;
        }
        places
    }

    fn into_distribution(
        self,
        question: &Question<'_>,
        demand: &Demand,
        supply: &Supply,
    ) -> Distribution {
        let places = self.places(question, demand, supply);
        let broker_of: Vec<BrokerIndex> = places.into_iter().flatten().collect();
        debug_assert_eq!(broker_of.len(), question.publishers.len());
        let mut quotas = vec![0.0; question.brokers.len()];
        for (&broker, &quota) in supply.order.iter().zip(&self.quotas) {
            quotas[broker] = quota;
        }
        let mut carries = vec![false; question.brokers.len()];
        for broker in &broker_of {
            carries[broker.0 as usize] = true;
        }
        Distribution {
            broker_of,
            k: carries.into_iter().filter(|&carries| carries).count(),
            quotas,
        }
    }

    fn into_error(self, question: &Question<'_>, demand: &Demand, supply: &Supply) -> OutOfBrokers {
        let left_out = demand.rates.iter().zip(&self.chosen);
        OutOfBrokers {
            asked: demand.rate,
            residual: supply.residual,
            missing: left_out
                .filter(|(_, chosen)| chosen.is_none())
                .map(|(rate, _)| rate)
                .sum(),
            best: self.places(question, demand, supply),
        }
    }
}

/// What the least count in `first..=last` yields for which `attempt` yields something, found with a number
/// of attempts logarithmic in the range: strides that double, then bisection. The count below the one found
/// has failed.
fn least_that_succeeds<T>(
    first: usize,
    last: usize,
    mut attempt: impl FnMut(usize) -> Option<T>,
) -> Option<T> {
    let (mut failed, mut count, mut stride) = (None, first, 1);
    let mut found = loop {
        if let Some(found) = attempt(count) {
            break found;
        }
        if count >= last {
            return None;
        }
        failed = Some(count);
        count = last.min(count + stride);
        stride *= 2;
    };
    while let Some(low) = failed.filter(|low| low + 1 < count) {
        let middle = low.midpoint(count);
        match attempt(middle) {
            Some(better) => (found, count) = (better, middle),
            None => failed = Some(middle),
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
