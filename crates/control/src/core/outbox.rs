//! Effects to carry out and changes to keep, in order, until the shell takes them.

use std::any::Any;

use link::ToBroker;
use serde_json::Value;

use super::held::Held;
use super::{Broker, BrokerNumber, Effect, Event};
use crate::store::{Change, Table};

/// Work for the shells.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    effects: Vec<Effect>,
    changes: Vec<Change>,
    /// Values no longer needed that take long to drop.
    rubbish: Vec<Box<dyn Any + Send>>,
    /// What may not be kept yet.
    pub(super) held: Held,
}

impl Outbox {
    /// Takes the effects to carry out.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes what is to be made durable.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        self.held.taken();
        std::mem::take(&mut self.changes)
    }

    /// How many changes have to be made durable.
    pub(super) fn changes_count(&self) -> usize {
        self.changes.len()
    }

    /// Takes what is not needed any more.
    pub(super) fn take_rubbish(&mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.rubbish)
    }

    /// Something is to be done.
    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// A broker is to be told something.
    pub(super) fn send(&mut self, broker: BrokerNumber, message: ToBroker) {
        self.effects.push(Effect::Send(broker, Box::new(message)));
    }

    /// Users may want to know.
    pub(super) fn tell(
        &mut self,
        kind: &'static str,
        topic: Option<&str>,
        broker: Option<&Broker>,
        text: String,
    ) {
        self.effects.push(Effect::Tell(Event {
            kind,
            topic: topic.map(str::to_owned),
            broker: broker.map(|broker| broker.name.clone()),
            text,
        }));
    }

    /// Says that something a broker said is not believed.
    pub(super) fn distrust(&mut self, broker: &Broker, what: &str) {
        let text = format!("not believed: {what}");
        self.tell("problem", None, Some(broker), text);
    }

    /// A record is to be made durable, or removed.
    pub(super) fn keep(&mut self, table: Table, key: &str, value: Option<Value>) {
        self.keep_change(Change {
            table,
            key: key.to_owned(),
            value,
        });
    }

    /// The same, put together already.
    pub(super) fn keep_change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// To be dropped where nobody waits for it.
    pub(super) fn discard(&mut self, thing: impl Any + Send) {
        self.rubbish.push(Box::new(thing));
    }
}
