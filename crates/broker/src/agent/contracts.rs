//! Contracts as the controller orders them: kept, put into force, confirmed, in this order. One that cannot be kept is in force
//! all the same, for the controller keeps it and tells it again.

use link::{ToBroker, ToController};

use super::orders::{Words, complain, name};
use crate::handle::Declaration;
use crate::{BrokerError, Handle};

/// Contracts that came one behind the other and are kept with one write.
#[derive(Debug, Default)]
pub(super) struct Contracts {
    contracts: Vec<Declaration>,
    tickets: Vec<u64>,
    wrong: Vec<String>,
}

impl Contracts {
    /// Takes an order in if it is a contract, and gives it back if not.
    pub(super) fn gather(&mut self, order: ToBroker) -> Option<ToBroker> {
        let ToBroker::Contract {
            topic,
            contract,
            limit_number: number,
            ticket,
        } = order
        else {
            return Some(order);
        };
        match name(&topic) {
            Ok(topic) => {
                self.contracts.push(Declaration {
                    topic,
                    contract,
                    number,
                });
                self.tickets.push(ticket);
            }
            Err(text) => self.wrong.push(text),
        }
        None
    }

    /// Puts what was gathered into force, and says of each whether it is.
    pub(super) async fn put_into_force(&mut self, handle: &Handle, words: &Words) {
        for text in self.wrong.drain(..) {
            complain(text, words).await;
        }
        if self.contracts.is_empty() {
            return;
        }
        let contracts = std::mem::take(&mut self.contracts);
        let (outcomes, unkept) = handle.obey(contracts.clone()).await;
        let tickets = self.tickets.drain(..);
        for ((contract, ticket), outcome) in contracts.into_iter().zip(tickets).zip(outcomes) {
            let is_empty = contract.contract.is_empty();
            let topic = contract.topic.to_string();
            match outcome {
                Ok(()) => {}
                // A topic that is not there has nothing declared.
                Err(BrokerError::TopicNotFound(_)) if is_empty => {}
                Err(error) => {
                    complain(format!("contract of {topic}: {error}"), words).await;
                    continue;
                }
            }
            if let Some(why) = &unkept {
                let text = format!("contract of {topic}: it is in force, but not kept yet: {why}");
                complain(text, words).await;
            }
            let in_force = ToController::ContractInForce { topic, ticket };
            // The link is lost if this fails, and with it the session.
            let _ = words.send(in_force).await;
        }
    }
}
