//! Orders and events that wait until the store has what they rest on.

use std::collections::{BTreeMap, BTreeSet};

use link::ToBroker;

use crate::core::{BrokerNumber, Event};

/// Orders that wait at most.
const ORDERS_MAX: usize = 65_536;
/// Events that wait at most; further ones are told to nobody.
const EVENTS_MAX: usize = 4096;

/// What waits, in order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) orders: BTreeMap<BrokerNumber, Vec<ToBroker>>,
    count: usize,
    /// Brokers whose orders were too many: they are to dial anew, and are told everything then.
    pub(super) overrun: BTreeSet<BrokerNumber>,
    pub(super) events: Vec<Event>,
}

impl Waiting {
    /// Whether an order to a broker waits: what is said to it later waits behind it.
    pub(super) fn is_behind(&self, broker: BrokerNumber) -> bool {
        self.orders.contains_key(&broker) || self.overrun.contains(&broker)
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
        self.orders.entry(broker).or_default().push(order);
        self.count += 1;
    }

    /// Lets an event wait.
    pub(super) fn tell_later(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// A broker has dialled anew: what was to be said to it on the connection before is said anew.
    pub(super) fn forget(&mut self, broker: BrokerNumber) {
        self.overrun.remove(&broker);
        let orders = self.orders.remove(&broker);
        self.count -= orders.map_or(0, |orders| orders.len());
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
        assert!(waiting.is_behind(1) && waiting.is_behind(2) && !waiting.is_behind(3));
        waiting.push(2, ToBroker::Complete);
        assert_eq!((waiting.count, waiting.overrun.len()), (1, 1));
        waiting.forget(2);
        waiting.push(2, ToBroker::Complete);
        assert_eq!((waiting.count, waiting.overrun.len()), (2, 0));
        waiting.forget(1);
        waiting.forget(3);
        assert_eq!((waiting.count, waiting.is_behind(1)), (1, false));
    }
}
