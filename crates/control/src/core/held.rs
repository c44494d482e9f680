//! While the store cannot be written: what was decided waits for it, and what brokers hold already is renewed.
//!
//! A grant must not allow more than what is kept says, or a restart would give the same to somebody else. So grants that
//! rest on what was not kept are taken back, and until the store can be written again no share grows beyond what it has.
//! Of a topic whose contract itself is not kept nothing is granted: its brokers have the former one, and hold on to their
//! shares as they do while the controller is away.

use std::collections::{BTreeMap, BTreeSet};

use link::ToBroker;
use serde_json::Value;

use super::persist::{EPOCH, KeptShares};
use super::{Core, Effect};
use crate::store::Table;

/// What was decided and may not be kept yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    is_held: bool,
    /// Since changes were taken last.
    fresh: Decided,
    /// Among the changes that were taken last; while held, in all since.
    taken: Decided,
}

#[derive(Debug, Default)]
struct Decided {
    /// Topics whose contract is another one.
    contracts: BTreeSet<String>,
    /// By topic, what was kept of its shares before.
    shares: BTreeMap<String, KeptShares>,
}

impl Held {
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether a topic's contract waits to be kept.
    pub(super) fn is_undecided(&self, topic: &str) -> bool {
        let waiting = [&self.fresh, &self.taken];
        self.is_held
            && waiting
                .iter()
                .any(|decided| decided.contracts.contains(topic))
    }

    fn has_undecided(&self) -> bool {
        self.is_held && !(self.fresh.contracts.is_empty() && self.taken.contracts.is_empty())
    }

    pub(super) fn contract_decided(&mut self, topic: &str) {
        self.fresh.contracts.insert(topic.to_owned());
    }

    pub(super) fn shares_decided(&mut self, topic: &str, former: KeptShares) {
        self.fresh.shares.entry(topic.to_owned()).or_insert(former);
    }

    pub(super) fn taken(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if self.is_held {
            self.taken.contracts.extend(fresh.contracts);
        } else {
            self.taken = fresh;
        }
    }
}

impl Core {
    /// The changes that were taken last cannot be kept now. They are to be tried again until they are, those of
    /// [`Table::Shares`] excepted, which are taken back with the grants among `effects`; gives the other effects, of which
    /// those that rest on the changes are to wait. Until [`Core::release`] no change of shares is made.
    pub fn hold(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        self.held.is_held = true;
        for (name, former) in std::mem::take(&mut self.held.taken.shares) {
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

    /// Whether a topic's contract is another one than is kept, or waits to be removed.
    #[must_use]
    pub fn is_undecided(&self, topic: &str) -> bool {
        self.held.is_undecided(topic)
    }

    /// Whether any topic's is.
    #[must_use]
    pub fn has_undecided(&self) -> bool {
        self.held.has_undecided()
    }

    /// Everything that was taken is kept now: shares may grow again.
    pub fn release(&mut self) {
        self.held.is_held = false;
        self.held.taken = Decided::default();
    }
}
