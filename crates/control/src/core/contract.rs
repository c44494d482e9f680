//! Contracts on their way to the brokers: each broker says when one is in force.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use link::ToBroker;

use super::{BrokerNumber, Core, Effect, Liveness};
use crate::view::TopicSpec;

/// Brokers that do not confirm within this time are named to whoever waits.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

/// A contract that a broker has otherwise is told again after so many of its reports.
const REFRESH_REPORTS: u64 = 10;

/// A contract that not all brokers have confirmed.
#[derive(Debug)]
pub(super) struct Pending {
    ticket: u64,
    waiting: Vec<BrokerNumber>,
    until: Instant,
}

impl Core {
    /// Sends a topic's contract to all brokers that are up.
    pub(super) fn announce_contract(&mut self, name: &str, now: Instant) -> u64 {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        if let Some(topic) = self.topics.get_mut(name) {
            topic.ticket = ticket;
        }
        let contract = self.contract_of(name, ticket);
        let up = (0u32..)
            .zip(&self.brokers)
            .filter(|(_, broker)| broker.link.is_some() && broker.liveness == Liveness::Up);
        let waiting: Vec<BrokerNumber> = up.map(|(number, _)| number).collect();
        for &number in &waiting {
            self.send(number, contract.clone());
        }
        self.contracts.push(Pending {
            ticket,
            waiting,
            until: now + CONFIRM_TIMEOUT,
        });
        self.settle_contracts(|_| false);
        ticket
    }

    /// Sends a broker that joins all contracts.
    pub(super) fn send_contracts(&mut self, number: BrokerNumber) {
        let told = self
            .topics
            .iter()
            .filter(|(_, topic)| topic.spec.is_told_to_brokers());
        let contracts: Vec<ToBroker> = told
            .map(|(name, topic)| self.contract_of(name, topic.ticket))
            .collect();
        for contract in contracts {
            self.send(number, contract);
        }
    }

    /// Tells a broker again what it has otherwise than declared by its report numbered `report`: contracts that were
    /// removed or changed while it was away, and shares of topics that were deleted there. A topic's contract is not told
    /// again with every report, for the order may be under way, or cannot be carried out.
    pub(super) fn refresh_contracts(&mut self, number: BrokerNumber, report: u64) {
        let broker = self.broker(number);
        let mut orders = Vec::new();
        let mut told_again = BTreeMap::new();
        for said in broker.topics.values().map(|carried| &carried.report) {
            let spec = self.topics.get(&said.topic).map(|topic| &topic.spec);
            let (limit, cpu_share) = spec.map_or((None, None), |spec| (spec.limit, spec.cpu_share));
            if said.cpu_share == cpu_share && (limit.is_some() || !said.is_limited) {
                continue;
            }
            // A broker that has dialled anew counts its reports from 1.
            let told = broker.told_again.get(&said.topic).copied();
            let told = told.filter(|&told| told < report && report - told < REFRESH_REPORTS);
            told_again.insert(said.topic.clone(), told.unwrap_or(report));
            if told.is_none() {
                let ticket = self.topics.get(&said.topic).map_or(0, |topic| topic.ticket);
                orders.push((
                    cpu_share > said.cpu_share,
                    self.contract_of(&said.topic, ticket),
                ));
            }
        }
        // Those that give up time make room for those that get some.
        orders.sort_by_key(|(gets_more, _)| *gets_more);
        self.brokers[number as usize].told_again = told_again;
        for (_, order) in orders {
            self.send(number, order);
        }
    }

    pub(super) fn contract_in_force(&mut self, number: BrokerNumber, ticket: u64) {
        for pending in self
            .contracts
            .iter_mut()
            .filter(|pending| pending.ticket <= ticket)
        {
            // Contracts travel in order, so a later one of the broker confirms those before it.
            pending.waiting.retain(|&waiting| waiting != number);
        }
        self.settle_contracts(|_| false);
    }

    pub(super) fn expire_contracts(&mut self, now: Instant) {
        self.settle_contracts(|pending| now >= pending.until);
    }

    pub(super) fn contract_of(&self, name: &str, ticket: u64) -> ToBroker {
        let spec = self.topics.get(name).map(|topic| &topic.spec);
        ToBroker::Contract {
            topic: name.to_owned(),
            limit: spec.and_then(|spec| spec.limit),
            cpu_share: spec.and_then(|spec| spec.cpu_share),
            limit_number: self.topics.get(name).and_then(|topic| topic.limit_number),
            ticket,
        }
    }

    fn settle_contracts(&mut self, is_over: impl Fn(&Pending) -> bool) {
        let (settled, waiting) = std::mem::take(&mut self.contracts)
            .into_iter()
            .partition(|pending| pending.waiting.is_empty() || is_over(pending));
        self.contracts = waiting;
        for Pending {
            ticket, waiting, ..
        } in settled
        {
            let name = |number: BrokerNumber| self.broker(number).name.clone();
            let missing = waiting.into_iter().map(name).collect();
            self.effects
                .push(Effect::ContractSettled { ticket, missing });
        }
    }
}

impl TopicSpec {
    /// Whether there is anything in it that brokers keep.
    pub(super) fn is_told_to_brokers(&self) -> bool {
        self.limit.is_some() || self.cpu_share.is_some()
    }
}
