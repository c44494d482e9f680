//! Limits that brokers share by gossip: who takes part, and by which number gossip knows a limit.
//!
//! Such a limit has no ledger, and nothing is granted: brokers agree among themselves. They are
//! told one list of all brokers that may serve such topics, and again when it changes. A broker is
//! on the list once it has answered at its addresses for clients and for gossip, and until it is
//! known to be dead: an unreachable one leaves its N-th part unused, which keeps the sum within the
//! limit when a network partitions.

use std::collections::BTreeSet;

use link::{Door, Sharers, ToBroker};
use serde_json::Value;

use super::BrokerNumber;
use super::outbox::Outbox;
use super::registry::Brokers;
use super::settings::Rules;
use crate::ControlError;
use crate::store::Table;

/// Record of the key that brokers sign gossip with.
pub(super) const KEY_RECORD: &str = "gossip-key";

/// The list as it was told last.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    generation: u64,
    addresses: Vec<String>,
    pub(super) key: Option<String>,
    last_number: u16,
    /// Those in use.
    numbers: BTreeSet<u16>,
}

impl Sharing {
    /// Tells all brokers who shares limits by gossip, if that has changed and there are such limits.
    pub(super) fn drive(&mut self, rules: &Rules, brokers: &Brokers, out: &mut Outbox) {
        let addresses = if self.numbers.is_empty() {
            Vec::new()
        } else {
            gossip_addresses(brokers)
        };
        if addresses == self.addresses {
            return;
        }
        self.generation = (self.generation + 1).max(rules.epoch << GENERATION_BITS);
        self.addresses = addresses;
        for (number, broker) in brokers.numbered() {
            if broker.link.is_some() {
                self.send(number, rules, brokers, out);
            }
        }
    }

    /// Tells a broker who shares limits by gossip, if anybody does.
    pub(super) fn send(
        &self,
        number: BrokerNumber,
        rules: &Rules,
        brokers: &Brokers,
        out: &mut Outbox,
    ) {
        if self.addresses.is_empty() {
            return;
        }
        let broker = &brokers[number];
        if broker.gossip_address.is_none() {
            let text = format!(
                "{} has no gossip address: topics that brokers share by gossip pass nothing there; \
                 start it with --gossip-address IP:PORT",
                broker.name
            );
            out.tell("problem", None, Some(broker), text);
        }
        let list = Sharers {
            generation: self.generation,
            addresses: self.addresses.clone(),
            key: self.key.clone(),
            branches: rules.settings.gossip_branches,
            interval_ms: rules.settings.gossip_interval.as_millis() as u64,
        };
        out.send(number, ToBroker::Sharers(list));
    }

    /// Hands out `key` from now on, 64 hexadecimal digits that nobody can guess; kept over restarts.
    pub(super) fn set_key(&mut self, key: String, out: &mut Outbox) {
        out.keep(Table::Meta, KEY_RECORD, Some(Value::from(key.clone())));
        self.key = Some(key);
    }

    /// A limit that had number `former` has `next` from now on.
    pub(super) fn renumber(&mut self, former: Option<u16>, next: Option<u16>) {
        if let Some(number) = former.filter(|_| next.is_none()) {
            self.numbers.remove(&number);
        }
        if let Some(number) = next
            && self.numbers.insert(number)
        {
            self.last_number = number;
        }
    }

    /// A limit had this number in a former life.
    pub(super) fn restore(&mut self, number: Option<u16>) {
        self.numbers.extend(number);
        self.last_number = self.last_number.max(number.unwrap_or(0));
    }

    /// A number for a limit that has none: the next that no other has.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where all are taken.
    pub(super) fn free_number(&self) -> Result<u16, ControlError> {
        let from = self.last_number;
        // In turn, so that one that a cut-off broker still believes in is not used again soon.
        let free = (1..=GOSSIPED_MAX).map(|step| (from + step) % GOSSIPED_MAX);
        let free = free
            .into_iter()
            .find(|number| !self.numbers.contains(number));
        free.ok_or_else(|| {
            ControlError::Unavailable(format!(
                "{} topics share their limits by gossip, which is the most; declare some with sharing lease",
                self.numbers.len()
            ))
        })
    }
}

fn gossip_addresses(brokers: &Brokers) -> Vec<String> {
    let counted = brokers.iter().filter(|broker| broker.counts());
    let mut addresses: Vec<String> = counted
        .filter_map(|broker| broker.answering(Door::Gossip).cloned())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Topics whose limits brokers share by gossip, at most: as many as a broker keeps apart.
const GOSSIPED_MAX: u16 = 1024;

/// Lists in one life of the controller: as many as fit.
const GENERATION_BITS: u32 = 32;
