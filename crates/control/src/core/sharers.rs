//! Limits that brokers share by gossip: who takes part, and by which number gossip knows a limit.
//!
//! Of such a limit no ledger is kept and nothing is granted: brokers agree among themselves. They are told one list of
//! all that may serve such topics, and again when it changes. A broker is on it once it has answered where clients connect and where it gossips, and
//! until it is dead for certain: one that cannot be reached leaves its N-th part unused, which is what keeps the sum within the limit when a network parts.

use std::collections::BTreeSet;

use link::{Door, Sharers, ToBroker};
use serde_json::Value;

use super::{BrokerNumber, Core};
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
    pub(super) last_number: u16,
    /// Those in use.
    pub(super) numbers: BTreeSet<u16>,
}

impl Core {
    /// Whether a key is known that brokers sign gossip with.
    #[must_use]
    pub fn has_gossip_key(&self) -> bool {
        self.sharing.key.is_some()
    }

    /// Hands out `key` from now on, 64 hexadecimal digits that nobody can guess; kept over restarts.
    pub fn set_gossip_key(&mut self, key: String) {
        self.keep(Table::Meta, KEY_RECORD, Some(Value::from(key.clone())));
        self.sharing.key = Some(key);
    }

    /// Tells all brokers who shares limits by gossip, if that has changed and there are such limits.
    pub(super) fn drive_sharers(&mut self) {
        let addresses = if self.sharing.numbers.is_empty() {
            Vec::new()
        } else {
            self.gossip_addresses()
        };
        if addresses == self.sharing.addresses {
            return;
        }
        self.sharing.generation = (self.sharing.generation + 1).max(self.epoch << GENERATION_BITS);
        self.sharing.addresses = addresses;
        for number in 0..self.brokers.len() as BrokerNumber {
            if self.broker(number).link.is_some() {
                self.send_sharers(number);
            }
        }
    }

    /// Tells a broker who shares limits by gossip, if anybody does.
    pub(super) fn send_sharers(&mut self, number: BrokerNumber) {
        if self.sharing.addresses.is_empty() {
            return;
        }
        let broker = self.broker(number);
        if broker.gossip_address.is_none() {
            let text = format!(
                "{} has no gossip address: topics that brokers share by gossip pass nothing there; \
                 start it with --gossip-address IP:PORT",
                broker.name
            );
            self.tell("problem", None, Some(number), text);
        }
        let list = Sharers {
            generation: self.sharing.generation,
            addresses: self.sharing.addresses.clone(),
            key: self.sharing.key.clone(),
            branches: self.settings.gossip_branches,
            interval_ms: self.settings.gossip_interval.as_millis() as u64,
        };
        self.send(number, ToBroker::Sharers(list));
    }

    /// A number for a limit that has none: the next that no other has.
    pub(super) fn free_limit_number(&self) -> Result<u16, ControlError> {
        let taken = &self.sharing.numbers;
        let from = self.sharing.last_number;
        // In turn, so that one that a cut-off broker still believes in is not used again soon.
        let free = (1..=GOSSIPED_MAX).map(|step| (from + step) % GOSSIPED_MAX);
        let free = free.into_iter().find(|number| !taken.contains(number));
        free.ok_or_else(|| {
            ControlError::Unavailable(format!(
                "{} topics share their limits by gossip and that is the most; declare some with sharing static",
                taken.len()
            ))
        })
    }

    fn gossip_addresses(&self) -> Vec<String> {
        let counted = self.brokers.iter().filter(|broker| broker.counts());
        let mut addresses: Vec<String> = counted
            .filter_map(|broker| broker.answering(Door::Gossip).cloned())
            .collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }
}

/// Topics whose limits brokers share by gossip, at most: as many as a broker keeps apart.
const GOSSIPED_MAX: u16 = 1024;

/// Lists in one life of the controller: as many as fit.
const GENERATION_BITS: u32 = 32;
