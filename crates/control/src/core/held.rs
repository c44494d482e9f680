//! While the store cannot be written, existing leases are renewed and nothing is given beyond them.
//!
//! A grant must not allow more than the store records, or a restart would give the same to somebody
//! else. So grants that rest on unwritten records are taken back, and until the store can be
//! written again no share grows.

use std::collections::BTreeMap;

use link::ToBroker;
use serde_json::Value;

use super::Effect;
use super::outbox::Outbox;
use super::persist::{EPOCH, KeptShares};
use super::registry::Brokers;
use super::topics::Topics;
use crate::store::Table;

/// Shares that were decided and may not be kept yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    is_held: bool,
    /// Since changes were taken last: by topic, what was kept before.
    fresh: BTreeMap<String, KeptShares>,
    /// Among the changes that were taken last, of which it is not known yet whether they are kept.
    taken: BTreeMap<String, KeptShares>,
}

impl Held {
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn shares_decided(&mut self, topic: &str, former: KeptShares) {
        self.fresh.entry(topic.to_owned()).or_insert(former);
    }

    /// Everything that was taken is kept now: shares may grow again.
    pub(super) fn release(&mut self) {
        self.is_held = false;
    }

    /// A topic's shares mean nothing any more.
    pub(super) fn shares_void(&mut self, topic: &str) {
        self.fresh.remove(topic);
        self.taken.remove(topic);
    }

    pub(super) fn taken(&mut self) {
        self.taken = std::mem::take(&mut self.fresh);
    }

    /// Takes back decisions that may not be kept; returns, for each topic, what the store has of
    /// its shares.
    fn take_back(&mut self) -> BTreeMap<String, KeptShares> {
        let mut shares = std::mem::take(&mut self.fresh);
        // What was kept before is older.
        shares.append(&mut self.taken);
        shares
    }
}

/// The changes that were taken last cannot be kept now, nor those since. They are to be tried again until they are, those of
/// [`Table::Shares`] excepted, which are taken back with the grants among `effects`: all that were not carried out. Gives the
/// other effects, of which those that rest on the changes are to wait. Until [`Held::release`] no change of shares is made.
pub(super) fn hold(
    effects: Vec<Effect>,
    topics: &mut Topics,
    brokers: &Brokers,
    epoch: u64,
    out: &mut Outbox,
) -> Vec<Effect> {
    out.held.is_held = true;
    for (name, former) in out.held.take_back() {
        if let Some(topic) = topics.get_mut(&name) {
            topic.shares.kept = former;
        }
    }
    // There is always something to try again with.
    out.keep(Table::Meta, EPOCH, Some(Value::from(epoch)));
    let mut others = Vec::with_capacity(effects.len());
    for effect in effects {
        match effect {
            Effect::Send(number, message) => match *message {
                ToBroker::Grant { topic, grant } => {
                    let broker = &brokers[number].name;
                    let Some(topic) = topics.get_mut(&topic) else {
                        continue;
                    };
                    let kept = topic.shares.kept.get(broker).copied().flatten();
                    if let Some(ledger) = &mut topic.shares.ledger {
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
