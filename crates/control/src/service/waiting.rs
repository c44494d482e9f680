//! Orders that wait until the store has what they rest on.

use std::collections::{BTreeMap, BTreeSet};

use link::ToBroker;

use crate::core::BrokerNumber;

/// Orders that wait at most.
const ORDERS_MAX: usize = 65_536;

/// What waits, in order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: BTreeMap<BrokerNumber, Line>,
    count: usize,
    /// Brokers whose orders were too many: they are to dial anew, and are told everything then.
    overrun: BTreeSet<BrokerNumber>,
}

/// Of one broker.
#[derive(Debug, Default)]
struct Line {
    orders: Vec<ToBroker>,
    /// Their subjects.
    topics: BTreeSet<String>,
}

impl Waiting {
    /// Whether an order to a broker has to wait behind others: those about its topic, and what says that all is said behind all.
    /// Grants are ordered by their own numbers.
    pub(super) fn is_behind(&self, broker: BrokerNumber, order: &ToBroker) -> bool {
        if matches!(order, ToBroker::Grant { .. }) {
            return false;
        }
        let line = self.lines.get(&broker);
        self.overrun.contains(&broker)
            || line.is_some_and(|line| match topic_of(order) {
                Some(topic) => line.topics.contains(topic),
                None => matches!(order, ToBroker::Complete),
            })
    }

    /// Lets an order wait.
    pub(super) fn push(&mut self, broker: BrokerNumber, order: ToBroker) {
        if self.overrun.contains(&broker) {
            return;
        }
        if self.count >= ORDERS_MAX {
            self.forget(broker);
            self.overrun.insert(broker);
            return;
        }
        let line = self.lines.entry(broker).or_default();
        if let Some(topic) = topic_of(&order) {
            line.topics.insert(topic.to_owned());
        }
        line.orders.push(order);
        self.count += 1;
    }

    /// A broker has dialled anew: what was to be said to it on the connection before is said anew.
    pub(super) fn forget(&mut self, broker: BrokerNumber) {
        self.overrun.remove(&broker);
        let line = self.lines.remove(&broker);
        self.count -= line.map_or(0, |line| line.orders.len());
    }

    /// What has waited: orders, and brokers that are to dial anew.
    pub(super) fn end(self) -> (Vec<(BrokerNumber, ToBroker)>, BTreeSet<BrokerNumber>) {
        let lines = self.lines.into_iter();
        let orders = lines.flat_map(|(broker, line)| {
            let orders = line.orders.into_iter();
            orders.map(move |order| (broker, order))
        });
        (orders.collect(), self.overrun)
    }
}

/// The topic that an order is about.
fn topic_of(order: &ToBroker) -> Option<&str> {
    match order {
        ToBroker::Contract { topic, .. }
        | ToBroker::Change { topic, .. }
        | ToBroker::Grant { topic, .. }
        | ToBroker::Measure { topic, .. }
        | ToBroker::Migrate { topic, .. } => Some(topic),
        ToBroker::Topic { state, .. } => Some(&state.topic),
        ToBroker::Welcome { .. }
        | ToBroker::Refused { .. }
        | ToBroker::NotLeading { .. }
        | ToBroker::Sharers(_)
        | ToBroker::Round(_)
        | ToBroker::HandOver { .. }
        | ToBroker::TakeOver { .. }
        | ToBroker::Renewed { .. }
        | ToBroker::Complete => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_with_too_many_orders_is_to_dial_anew_and_the_others_keep_theirs() {
        let mut waiting = Waiting::default();
        waiting.push(1, ToBroker::Complete);
        for _ in 0..ORDERS_MAX {
            waiting.push(2, ToBroker::Complete);
        }
        assert_eq!(waiting.count, 1);
        let is_behind = |waiting: &Waiting, broker| waiting.is_behind(broker, &ToBroker::Complete);
        assert!(is_behind(&waiting, 1) && is_behind(&waiting, 2) && !is_behind(&waiting, 3));
        waiting.push(2, ToBroker::Complete);
        assert_eq!((waiting.count, waiting.overrun.len()), (1, 1));
        waiting.forget(2);
        waiting.push(2, ToBroker::Complete);
        assert_eq!((waiting.count, waiting.overrun.len()), (2, 0));
        waiting.forget(1);
        waiting.forget(3);
        assert_eq!((waiting.count, is_behind(&waiting, 1)), (1, false));
    }

    #[test]
    fn orders_wait_behind_those_of_their_topic_and_the_end_of_all_behind_all() {
        let migrate = |topic: &str| ToBroker::Migrate {
            topic: topic.to_owned(),
            moves: Vec::new(),
        };
        let mut waiting = Waiting::default();
        waiting.push(1, migrate("a"));
        assert!(waiting.is_behind(1, &migrate("a")) && waiting.is_behind(1, &ToBroker::Complete));
        assert!(!waiting.is_behind(1, &migrate("b")) && !waiting.is_behind(2, &migrate("a")));
    }
}
