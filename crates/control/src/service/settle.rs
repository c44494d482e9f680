//! What a request says is written, then it comes into force; what was decided is written, then done. What cannot be written waits, and
//! with it what rests on it, but for requests: those are refused.

use std::collections::BTreeMap;

use clock::Instant;
use link::ToBroker;
use serde_json::Value;

use super::Service;
use super::step::Step;
use crate::ControlError;
use crate::core::{BrokerNumber, Event, publisher_key};
use crate::store::{Change, Table};
use crate::view::EventView;

impl Service {
    /// Writes what is to be kept, then does what is to be done. What rests on what cannot be written waits.
    pub(super) fn settle(&mut self) {
        let began = self.now();
        let asked = std::mem::take(&mut self.kept_first);
        let changes = without(self.core.take_changes(), &asked);
        if self.keeping.is_waiting() {
            self.keeping.wait(changes);
        } else if !changes.is_empty() {
            let now = self.now();
            if self.keeping.commit(changes, now).is_err() {
                self.hold();
            }
        }
        let began = self.note_step(Step::Store, began);
        for effect in self.core.take_effects() {
            self.carry_out(effect);
        }
        self.note_step(Step::Effects, began);
    }

    /// Keeps what a request says, before it comes into force.
    ///
    /// # Errors
    /// What is wrong with it; [`ControlError::NotKept`] where it cannot be kept: then nothing has changed, and nothing will.
    pub(super) fn keep_first(
        &mut self,
        asked: Result<Vec<Change>, ControlError>,
    ) -> Result<(), ControlError> {
        let asked = asked?;
        if asked.is_empty() {
            return Ok(());
        }
        // What was decided before is written before.
        self.settle();
        if self.keeping.is_waiting() {
            return Err(self.keeping.refusal());
        }
        let now = self.now();
        if self.keeping.commit_or_forget(&asked, now).is_err() {
            // Of what was decided before nothing is to be taken back.
            let nothing = self.core.take_changes();
            self.keeping.wait(nothing);
            self.hold();
            return Err(self.keeping.refusal());
        }
        self.kept_first = asked;
        Ok(())
    }

    /// The changes that were taken last are not kept.
    fn hold(&mut self) {
        let effects = self.core.take_effects();
        let effects = self.core.hold(effects);
        let changes = self.core.take_changes();
        self.keeping.wait(changes);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    /// Tries again to write what waits; once it is written, what waited for it is done.
    pub(super) fn retry(&mut self, now: Instant) {
        if !self.keeping.retry(now) {
            return;
        }
        self.core.release();
        let waiting = std::mem::take(&mut self.held_back);
        let (orders, overrun) = waiting.end();
        for (number, order) in orders {
            self.send(number, order);
        }
        for number in overrun {
            if let Some(link) = self.link_of.get(&number) {
                self.links.remove(link);
            }
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.event_number += 1;
        tracing::info!(
            kind = event.kind,
            topic = event.topic,
            broker = event.broker,
            "{}",
            event.text
        );
        // Nobody may be listening.
        let _ = self.events.send(EventView {
            number: self.event_number,
            at_ms: self.surroundings.wall_ms(),
            kind: event.kind.to_owned(),
            topic: event.topic,
            broker: event.broker,
            text: event.text,
        });
    }

    /// Sends an order, or lets it wait for what it rests on.
    pub(super) fn order(&mut self, number: BrokerNumber, order: ToBroker) {
        match self.held_back.is_behind(number, &order) || self.rests_on_waiting(&order) {
            true => self.held_back.push(number, order),
            false => self.send(number, order),
        }
    }

    /// What brokers have made rests on their own word, which they say again, and what a request says is kept before it comes into
    /// force.
    fn rests_on_waiting(&self, order: &ToBroker) -> bool {
        let keeping = &self.keeping;
        match order {
            ToBroker::Change { topic, change } => {
                change.is_deletion()
                    && (keeping.holds(Table::Channels, topic) || keeping.holds_any(Table::Owed))
            }
            ToBroker::Migrate { topic, moves } => moves.iter().any(|each| {
                keeping.holds(Table::Publishers, &publisher_key(topic, &each.publisher))
            }),
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
            | ToBroker::Sharers(_)
            | ToBroker::Round(_)
            | ToBroker::Measure { .. } => false,
        }
    }
}

/// Of some changes those that do more than was `kept` already; of each record the last word counts.
fn without(changes: Vec<Change>, kept: &[Change]) -> Vec<Change> {
    if kept.is_empty() {
        return changes;
    }
    let records = changes.into_iter();
    let mut last: BTreeMap<(Table, String), Option<Value>> = records
        .map(|Change { table, key, value }| ((table, key), value))
        .collect();
    for Change { table, key, value } in kept {
        let record = (*table, key.clone());
        if last.get(&record) == Some(value) {
            last.remove(&record);
        }
    }
    let rest = last.into_iter();
    rest.map(|((table, key), value)| Change { table, key, value })
        .collect()
}
