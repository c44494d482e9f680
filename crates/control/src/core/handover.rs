//! To whom drained brokers hand over their messages, as brokers come and go.

use link::{Door, ToBroker};

use super::BrokerNumber;
use super::outbox::Outbox;
use super::registry::Brokers;

/// What brokers hand queues over by.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    /// By it brokers know each other when one hands queues over. Nobody must be able to guess it.
    pub(super) pass: Option<String>,
}

impl Handovers {
    /// Tells a broker whose link has just begun the cluster's pass; it takes itself for one that keeps its queues.
    pub(super) fn welcome(&self, number: BrokerNumber, brokers: &mut Brokers, out: &mut Outbox) {
        brokers[number].takers.clear();
        if let Some(pass) = self.pass.clone() {
            out.send(number, ToBroker::TakeOver { pass });
        }
    }
}

/// Tells drained brokers who takes their queues, where that has changed, and resumed ones that
/// nobody does. A broker's inventory is known before that, so nothing is taken from a topic that
/// has not been answered for.
pub(super) fn drive(brokers: &mut Brokers, out: &mut Outbox) {
    for number in brokers.numbers() {
        let broker = &brokers[number];
        if broker.link.is_none() || !broker.inventory.is_whole {
            continue;
        }
        let takers = match broker.is_draining {
            true => takers(brokers),
            false => Vec::new(),
        };
        let broker = &mut brokers[number];
        if takers != broker.takers {
            broker.takers.clone_from(&takers);
            out.send(number, ToBroker::HandOver { to: takers });
        }
    }
}

/// HTTP addresses of the brokers that stay and have answered there.
fn takers(brokers: &Brokers) -> Vec<String> {
    let stay = brokers.iter();
    let stay = stay.filter(|broker| broker.takes_publishers() && broker.link.is_some());
    let mut takers: Vec<String> = stay
        .filter_map(|broker| broker.answering(Door::Http).cloned())
        .collect();
    takers.sort();
    takers
}
