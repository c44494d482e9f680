//! Contracts on their way to the brokers: each broker says when one is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use link::ToBroker;

use super::{BrokerNumber, Core, Effect, Liveness};

/// Brokers that do not confirm within this time are named to whoever waits.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

/// A contract that a broker has otherwise is told again after so many of its reports.
const REFRESH_REPORTS: u64 = 10;

/// A contract that not all brokers have confirmed.
#[derive(Debug)]
pub(super) struct Pending {
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
            // Whether it takes it, later reports show, and those need not name the topic.
            let broker = &mut self.brokers[number as usize];
            if broker.topics.contains_key(name) {
                let told = broker.report_number;
                broker.told_again.insert(name.to_owned(), told);
            }
        }
        let until = now + CONFIRM_TIMEOUT;
        self.contracts.insert(ticket, Pending { waiting, until });
        self.settle_contract(ticket, false);
        ticket
    }

    /// Tells a broker again what it has otherwise than declared by its report numbered `report`: contracts that were
    /// removed or changed while it was away, and shares and words about full channels of topics that were deleted there. A topic's contract is not told
    /// again with every report, for the order may be under way, or cannot be carried out.
    pub(super) fn refresh_contracts(
        &mut self,
        number: BrokerNumber,
        report: u64,
        named: &[String],
    ) {
        let broker = self.broker(number);
        let mut orders = Vec::new();
        let mut told_again = BTreeMap::new();
        let watched = broker.told_again.keys();
        let watched: BTreeSet<&String> = watched.chain(named).collect();
        let words = watched
            .into_iter()
            .filter_map(|name| broker.topics.get(name));
        for said in words.map(|carried| &carried.report) {
            let spec = self.topics.get(&said.topic).map(|topic| &topic.spec);
            let cpu_share = spec.and_then(|spec| spec.cpu_share);
            let on_full = spec.and_then(|spec| spec.on_full);
            let is_limited = spec.is_some_and(|spec| spec.limit.is_some());
            if (said.cpu_share, said.on_full) == (cpu_share, on_full)
                && (is_limited || !said.is_limited)
            {
                continue;
            }
            // A report that is heard in parts comes here with each of them.
            let told = broker.told_again.get(&said.topic).copied();
            let told = told.filter(|&told| told <= report && report - told < REFRESH_REPORTS);
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

    /// A broker has a contract in force. Contracts travel in order, so that those before it are too.
    pub(super) fn contract_in_force(&mut self, number: BrokerNumber, ticket: u64) {
        let confirmed = &mut self.brokers[number as usize].confirmed_ticket;
        if ticket <= *confirmed {
            return;
        }
        let pending = self.contracts.range_mut(*confirmed + 1..=ticket);
        *confirmed = ticket.min(self.last_ticket);
        let mut settled = Vec::new();
        for (&ticket, pending) in pending {
            pending.waiting.retain(|&waiting| waiting != number);
            if pending.waiting.is_empty() {
                settled.push(ticket);
            }
        }
        for ticket in settled {
            self.settle_contract(ticket, false);
        }
    }

    /// Those whose time is over, the oldest first.
    pub(super) fn expire_contracts(&mut self, now: Instant) {
        while let Some((&ticket, oldest)) = self.contracts.first_key_value()
            && now >= oldest.until
        {
            self.settle_contract(ticket, true);
        }
    }

    pub(super) fn contract_of(&self, name: &str, ticket: u64) -> ToBroker {
        let spec = self.topics.get(name).map(|topic| &topic.spec);
        ToBroker::Contract {
            topic: name.to_owned(),
            contract: spec.map(api::view::TopicSpec::contract).unwrap_or_default(),
            limit_number: self.topics.get(name).and_then(|topic| topic.limit_number),
            ticket,
        }
    }

    fn settle_contract(&mut self, ticket: u64, is_over: bool) {
        let is_settled = |pending: &Pending| pending.waiting.is_empty() || is_over;
        if !self.contracts.get(&ticket).is_some_and(is_settled) {
            return;
        }
        let waiting = self
            .contracts
            .remove(&ticket)
            .map(|pending| pending.waiting);
        let name = |number: BrokerNumber| self.broker(number).name.clone();
        let missing = waiting.into_iter().flatten().map(name).collect();
        let settled = Effect::ContractSettled { ticket, missing };
        self.effects.push(settled);
    }
}
