//! Where orders to brokers go, including those that wait for a store that cannot be written.

use std::collections::HashMap;

use link::{Order, ToBroker};
use tokio::sync::mpsc;

use super::keeping::Keeping;
use super::waiting::Waiting;
use crate::core::{BrokerNumber, publisher_key};
use crate::store::Table;

/// Links of brokers.
#[derive(Debug)]
pub(super) struct Links {
    /// Number of the life in which all orders are given.
    epoch: u64,
    open: HashMap<u64, (BrokerNumber, mpsc::Sender<Order>)>,
    of: HashMap<BrokerNumber, u64>,
    held_back: Waiting,
}

impl Links {
    /// None yet, of a controller in the life of this number.
    pub(super) fn new(epoch: u64) -> Links {
        Links {
            epoch,
            open: HashMap::new(),
            of: HashMap::new(),
            held_back: Waiting::default(),
        }
    }

    /// Answers a hello with a refusal; there is room for a first message.
    pub(super) fn refuse(&self, to: &mpsc::Sender<Order>, order: ToBroker) {
        let epoch = self.epoch;
        let _ = to.try_send(Order { epoch, order });
    }

    /// Closes all: nothing more is ordered.
    pub(super) fn close_all(&mut self) {
        *self = Links::new(self.epoch);
    }

    /// A broker has said hello on a link: what waited for it is said anew.
    pub(super) fn joined(&mut self, broker: BrokerNumber, link: u64, to: mpsc::Sender<Order>) {
        self.held_back.forget(broker);
        self.open.insert(link, (broker, to));
        self.of.insert(broker, link);
    }

    /// The link that a broker said hello on last.
    pub(super) fn of(&self, broker: BrokerNumber) -> Option<u64> {
        self.of.get(&broker).copied()
    }

    /// The broker whose link this is, unless it has another one by now.
    pub(super) fn broker(&self, link: u64) -> Option<BrokerNumber> {
        let &(broker, _) = self.open.get(&link)?;
        (self.of(broker) == Some(link)).then_some(broker)
    }

    /// A link is to be closed, or is.
    pub(super) fn close(&mut self, link: u64) {
        self.open.remove(&link);
    }

    /// Sends an order, or lets it wait for what it rests on.
    pub(super) fn order(&mut self, keeping: &Keeping, broker: BrokerNumber, order: ToBroker) {
        match self.held_back.is_behind(broker, &order) || rests_on_waiting(keeping, &order) {
            true => self.held_back.push(broker, order),
            false => self.send(broker, order),
        }
    }

    /// The store can be written again: the orders that have waited. Brokers that had too many dial anew.
    pub(super) fn release(&mut self) -> Vec<(BrokerNumber, ToBroker)> {
        let (orders, overrun) = std::mem::take(&mut self.held_back).end();
        for broker in overrun {
            if let Some(link) = self.of(broker) {
                self.close(link);
            }
        }
        orders
    }

    /// A broker that does not take its orders is as good as away: the link is closed, leases do the rest.
    fn send(&mut self, broker: BrokerNumber, order: ToBroker) {
        let Some(link) = self.of(broker) else {
            return;
        };
        let Some((_, orders)) = self.open.get(&link) else {
            return;
        };
        let epoch = self.epoch;
        if orders.try_send(Order { epoch, order }).is_err() {
            self.close(link);
        }
    }
}

/// What brokers have made rests on their own word, which they say again, and what a request says is kept before it comes into
/// force.
fn rests_on_waiting(keeping: &Keeping, order: &ToBroker) -> bool {
    match order {
        ToBroker::Change { topic, change } => {
            change.is_deletion()
                && (keeping.holds(Table::Channels, topic) || keeping.holds_any(Table::Owed))
        }
        ToBroker::Migrate { topic, moves } => moves
            .iter()
            .any(|each| keeping.holds(Table::Publishers, &publisher_key(topic, &each.publisher))),
        // That a broker is drained, or is not any more.
        ToBroker::HandOver { .. } => keeping.holds_any(Table::Brokers),
        // Grants that rest on what waits are not made.
        ToBroker::Grant { .. }
        | ToBroker::Renewed { .. }
        | ToBroker::Contract { .. }
        | ToBroker::Topic { .. }
        | ToBroker::Complete
        | ToBroker::TakeOver { .. }
        | ToBroker::Welcome { .. }
        | ToBroker::Refused { .. }
        | ToBroker::NotLeading { .. }
        | ToBroker::Sharers(_)
        | ToBroker::Round(_)
        | ToBroker::Measure { .. } => false,
    }
}
