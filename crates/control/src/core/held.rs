//! While the store cannot be written: what brokers hold already is renewed, and nothing is given beyond it.
//!
//! A grant must not allow more than what is kept says, or a restart would give the same to somebody else. So grants that
//! rest on what was not kept are taken back, and until the store can be written again no share grows beyond what it has.

use std::collections::BTreeMap;

use link::ToBroker;
use serde_json::Value;

use super::persist::{EPOCH, KeptShares};
use super::{Core, Effect};
use crate::store::Table;

/// Shares that were decided and may not be kept yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    is_held: bool,
    /// Since changes were taken last: by topic, what was kept before.
    fresh: BTreeMap<String, KeptShares>,
    /// Among the changes that were taken last.
    taken: BTreeMap<String, KeptShares>,
}

impl Held {
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn shares_decided(&mut self, topic: &str, former: KeptShares) {
        self.fresh.entry(topic.to_owned()).or_insert(former);
    }

    pub(super) fn taken(&mut self) {
        self.taken = std::mem::take(&mut self.fresh);
    }
}

impl Core {
    /// The changes that were taken last cannot be kept now. They are to be tried again until they are, those of
    /// [`Table::Shares`] excepted, which are taken back with the grants among `effects`; gives the other effects, of which
    /// those that rest on the changes are to wait. Until [`Core::release`] no change of shares is made.
    pub fn hold(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        self.held.is_held = true;
        for (name, former) in std::mem::take(&mut self.held.taken) {
            if let Some(topic) = self.topics.get_mut(&name) {
                topic.kept_shares = former;
            }
        }
        // There is always something to try again with.
        self.keep(Table::Meta, EPOCH, Some(Value::from(self.epoch)));
        let mut others = Vec::with_capacity(effects.len());
        for effect in effects {
            match effect {
                Effect::Send(number, message) => match *message {
                    ToBroker::Grant { topic, grant } => {
                        let broker = &self.brokers[number as usize].name;
                        let Some(topic) = self.topics.get_mut(&topic) else {
                            continue;
                        };
                        let kept = topic.kept_shares.get(broker).copied().flatten();
                        if let Some(ledger) = &mut topic.shares {
                            ledger.take_back(number, grant.seq, kept);
                        }
                    }
                    message => others.push(Effect::Send(number, Box::new(message))),
                },
                effect => others.push(effect),
            }
        }
        others
    }

    /// Everything that was taken is kept now: shares may grow again.
    pub fn release(&mut self) {
        self.held.is_held = false;
    }
}
