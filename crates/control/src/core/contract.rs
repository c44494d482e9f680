//! Contracts on their way to the brokers: each broker says when one is in force.

use clock::Instant;
use link::{ToBroker, TopicReport};
use std::time::Duration;

use super::{BrokerNumber, Core, Effect, Liveness};

/// Brokers that do not confirm within this time are named to whoever waits.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

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
        let limit = match self.topics.get_mut(name) {
            Some(topic) => {
                topic.ticket = ticket;
                topic.spec.limit
            }
            None => None,
        };
        let up = (0u32..)
            .zip(&self.brokers)
            .filter(|(_, broker)| broker.link.is_some() && broker.liveness == Liveness::Up);
        let waiting: Vec<BrokerNumber> = up.map(|(number, _)| number).collect();
        for &number in &waiting {
            let topic = name.to_owned();
            self.send(
                number,
                ToBroker::Contract {
                    topic,
                    limit,
                    ticket,
                },
            );
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
        let contracts: Vec<ToBroker> = self
            .topics
            .iter()
            .filter(|(_, topic)| topic.spec.limit.is_some())
            .map(|(name, topic)| ToBroker::Contract {
                topic: name.clone(),
                limit: topic.spec.limit,
                ticket: topic.ticket,
            })
            .collect();
        for contract in contracts {
            self.send(number, contract);
        }
    }

    /// A broker that has a contract which is no more, for it was away when it was removed, is told so.
    pub(super) fn refresh_contract(&mut self, number: BrokerNumber, report: &TopicReport) {
        let topic = self.topics.get(&report.topic);
        let has_limit = topic.is_some_and(|topic| topic.spec.limit.is_some());
        if report.is_limited && !has_limit {
            let ticket = topic.map_or(0, |topic| topic.ticket);
            let topic = report.topic.clone();
            self.send(
                number,
                ToBroker::Contract {
                    topic,
                    limit: None,
                    ticket,
                },
            );
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
