//! Brokers that are drained hand over what waits there: to whom, as brokers come and go.

use link::{Door, ToBroker};

use super::{BrokerNumber, Core};

impl Core {
    /// Hands out `pass` to brokers from now on: by it they know each other when one hands queues over. Nobody must be able to guess it.
    pub fn set_handover_pass(&mut self, pass: String) {
        self.handover_pass = Some(pass);
    }

    /// Tells a broker whose link has just begun the cluster's pass; it takes itself for one that keeps its queues.
    pub(super) fn send_handover_pass(&mut self, number: BrokerNumber) {
        self.brokers[number as usize].takers.clear();
        if let Some(pass) = self.handover_pass.clone() {
            self.send(number, ToBroker::TakeOver { pass });
        }
    }

    /// Tells brokers that are drained who takes their queues, where that has changed; those that are resumed, that nobody does.
    /// What a broker has is known before, so that nothing is taken from a topic that has not been answered for.
    pub(super) fn drive_handovers(&mut self) {
        for number in 0..self.brokers.len() as BrokerNumber {
            let broker = self.broker(number);
            if broker.link.is_none() || !broker.inventory.is_whole {
                continue;
            }
            let takers = match broker.is_draining {
                true => self.takers(),
                false => Vec::new(),
            };
            let broker = &mut self.brokers[number as usize];
            if takers != broker.takers {
                broker.takers.clone_from(&takers);
                self.send(number, ToBroker::HandOver { to: takers });
            }
        }
    }

    /// HTTP addresses of the brokers that stay and have answered there.
    fn takers(&self) -> Vec<String> {
        let stay = self.brokers.iter();
        let stay = stay.filter(|broker| broker.takes_publishers() && broker.link.is_some());
        let mut takers: Vec<String> = stay
            .filter_map(|broker| broker.answering(Door::Http).cloned())
            .collect();
        takers.sort();
        takers
    }
}
