//! What was decided is written, then done; what cannot be written waits, and with it what rests on it.

use clock::Instant;
use link::{ToBroker, TopicChange};

use super::keeping::Keeping;
use super::{Service, answer};
use crate::ControlError;
use crate::core::{BrokerNumber, Event};
use crate::handle::Command;
use crate::store::{Change, Table};
use crate::view::EventView;

impl Service {
    /// Writes what is to be kept, then does what is to be done. What rests on what cannot be written waits.
    ///
    /// # Errors
    /// [`ControlError::NotKept`] where anything was to be written and waits now.
    pub(super) fn settle(&mut self) -> Result<(), ControlError> {
        let changes = self.core.take_changes();
        let mut kept = Ok(());
        if self.keeping.is_waiting() {
            self.keeping.wait(changes);
        } else if !changes.is_empty() {
            kept = self.keep(changes);
        }
        for effect in self.core.take_effects() {
            self.carry_out(effect);
        }
        kept
    }

    fn keep(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        let now = self.now();
        let Err(error) = self.keeping.commit(changes, now) else {
            return Ok(());
        };
        let error = Keeping::put_off(&error);
        let effects = self.core.take_effects();
        let effects = self.core.hold(effects);
        let changes = self.core.take_changes();
        self.keeping.wait(changes);
        self.placing.refuse(&error);
        for effect in effects {
            self.carry_out(effect);
        }
        Err(error)
    }

    /// Tries again to write what waits; once it is written, what waited for it is done.
    pub(super) fn retry(&mut self, now: Instant) {
        if !self.keeping.retry(now) {
            return;
        }
        self.core.release();
        let waiting = std::mem::take(&mut self.held_back);
        let (orders, overrun, events) = waiting.end();
        for (number, order) in orders {
            self.send(number, order);
        }
        for number in overrun {
            if let Some(link) = self.link_of.get(&number) {
                self.links.remove(link);
            }
        }
        for event in events {
            self.tell(event);
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

    /// What brokers have made rests on their own word, which they say again.
    fn rests_on_waiting(&self, order: &ToBroker) -> bool {
        let (core, keeping) = (&self.core, &self.keeping);
        match order {
            ToBroker::Contract { topic, .. } => core.is_undecided(topic),
            // It says that a topic without a contract has none.
            ToBroker::Topic { state, .. } => core.is_undecided(&state.topic),
            ToBroker::Complete => core.has_undecided(),
            ToBroker::Change { topic, change } => {
                let is_deletion = matches!(
                    change,
                    TopicChange::TopicDeleted | TopicChange::ChannelDeleted { .. }
                );
                is_deletion
                    && (keeping.holds(Table::Channels, topic) || keeping.holds_any(Table::Owed))
            }
            ToBroker::Migrate { topic, moves } => moves.iter().any(|each| {
                keeping.holds(Table::Publishers, &format!("{topic}/{}", each.publisher))
            }),
            // That a broker is drained, or is not any more.
            ToBroker::HandOver { .. } => keeping.holds_any(Table::Brokers),
            // Grants that rest on what waits are not made.
            ToBroker::Grant { .. }
            | ToBroker::Renewed { .. }
            | ToBroker::TakeOver { .. }
            | ToBroker::Welcome { .. }
            | ToBroker::Refused { .. }
            | ToBroker::Sharers(_)
            | ToBroker::Round(_)
            | ToBroker::Measure { .. } => false,
        }
    }

    /// While nothing can be kept: whoever has a place that is kept is told it, everything else is refused.
    pub(super) fn refuse(&mut self, change: Command) {
        match change {
            Command::Publisher {
                topic, id, reply, ..
            } => {
                let is_kept = !self
                    .keeping
                    .holds(Table::Publishers, &format!("{topic}/{id}"));
                let mut views = self.core.publishers_named(&topic, &[id]);
                match views.pop().filter(|_| is_kept) {
                    Some(view) => answer(reply, Ok(view)),
                    None => answer(reply, self.refused()),
                }
            }
            Command::PutTopic(_, _, reply) => answer(reply, self.refused()),
            Command::PutPublishers(_, _, reply) => answer(reply, self.refused()),
            Command::DrainBroker(_, reply) | Command::ResumeBroker(_, reply) => {
                answer(reply, self.refused());
            }
            Command::DeleteTopic(_, reply)
            | Command::DeletePublisher(_, _, reply)
            | Command::RemoveBroker(_, reply)
            | Command::ChangeTopic(_, _, reply) => answer(reply, self.refused()),
            Command::PutName(topic, reply) => match self.keeping.holds(Table::Names, &topic) {
                true => answer(reply, self.refused()),
                // It may have one already.
                false => answer(
                    reply,
                    self.core.name_view(&topic).or_else(|_| self.refused()),
                ),
            },
            // The others change nothing that is kept.
            _ => {}
        }
    }

    pub(super) fn refused<T>(&self) -> Result<T, ControlError> {
        Err(self.keeping.refusal())
    }
}
