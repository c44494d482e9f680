//! What a request has kept, before the core acts on it.
//!
//! These records are made durable first; what follows from the request (places, shares, orders) is decided afterwards. So
//! there is nothing to undo where a request cannot be kept, and one that was kept is in force whatever fails later: a restart reads
//! it back and decides the rest anew. Pure: each question is about the state as it is, and leaves it so.

use link::TopicChange;
use serde_json::Value;
use wire::TopicName;

use super::inventory::{Subject, subject_of, topic_name};
use super::persist::{broker_record, channels_record, owed_key, publisher_key, topic_record};
use super::publisher::Row;
use super::topic::no_publisher;
use super::{Broker, Core, Declared};
use crate::ControlError;
use crate::store::{Change, Table};
use crate::view::{PublisherSpec, TopicSpec};

impl Core {
    /// For [`Core::put_topic`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_put_topic(
        &self,
        name: &str,
        spec: &TopicSpec,
    ) -> Result<Vec<Change>, ControlError> {
        let limit_number = self.check_put_topic(name, spec)?;
        let record = topic_record(spec, limit_number);
        let mut changes = vec![change(Table::Topics, name, record)];
        let topic = self.topics.get(name);
        if !topic.is_some_and(|topic| topic.keeps_ledger(spec)) {
            // Shares of another unit mean nothing beside this limit.
            changes.push(change(Table::Shares, name, None));
        }
        Ok(changes)
    }

    /// For [`Core::delete_topic`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_delete_topic(&self, name: &str) -> Result<Vec<Change>, ControlError> {
        let rows = self.topic(name)?.publishers.rows().iter();
        let publishers = rows.map(|row| publisher_key(name, &row.spec.id));
        let publishers = publishers.map(|key| change(Table::Publishers, &key, None));
        let own = [Table::Topics, Table::Shares].map(|table| change(table, name, None));
        Ok(publishers.chain(own).collect())
    }

    /// For [`Core::declare`]: those that are new or declared anew, where they are.
    ///
    /// # Errors
    /// Its own.
    pub fn asks_declare(
        &self,
        name: &str,
        publishers: &Declared,
    ) -> Result<Vec<Change>, ControlError> {
        self.check_declare(name, publishers)?;
        let specs = publishers.specs();
        let topic = self.topics.get(name);
        let row = |spec: &PublisherSpec| -> Option<&Row> {
            let publishers = &topic?.publishers;
            publishers.rows().get(publishers.find(&spec.id)?)
        };
        let mut changes = Vec::new();
        if topic.is_none() {
            let record = topic_record(&TopicSpec::default(), None);
            changes.push(change(Table::Topics, name, record));
        }
        let known = specs.iter().map(|spec| (spec, row(spec)));
        let changed = known.filter(|(spec, row)| row.is_none_or(|row| row.spec != **spec));
        changes.extend(changed.map(|(spec, row)| self.publisher_as(name, spec, row)));
        Ok(changes)
    }

    /// For [`Core::delete_publisher`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_delete_publisher(&self, name: &str, id: &str) -> Result<Vec<Change>, ControlError> {
        let found = self.topic(name)?.publishers.find(id);
        let key = publisher_key(name, id);
        found.ok_or_else(|| no_publisher(name, id))?;
        Ok(vec![change(Table::Publishers, &key, None)])
    }

    /// For [`Core::drain_broker`] and [`Core::resume_broker`].
    ///
    /// # Errors
    /// Theirs.
    pub fn asks_drain_broker(
        &self,
        name: &str,
        is_draining: bool,
    ) -> Result<Vec<Change>, ControlError> {
        let broker = self.broker(self.broker_number(name)?);
        let record = broker_record(broker, is_draining);
        Ok(vec![change(Table::Brokers, name, record)])
    }

    /// For [`Core::remove_broker`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_remove_broker(&self, name: &str) -> Result<Vec<Change>, ControlError> {
        let broker = self.broker(self.check_remove_broker(name)?);
        let owed = broker.inventory.owed().iter();
        let owed = owed.map(|subject| owed_change(broker, subject, false));
        let own = change(Table::Brokers, name, None);
        Ok(owed.chain([own]).collect())
    }

    /// For [`Core::put_name`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_put_name(&self, topic: &str) -> Result<Vec<Change>, ControlError> {
        let id = self.id_for(topic)?;
        let named = id.map(|id| change(Table::Names, topic, Some(Value::from(id))));
        Ok(named.into_iter().collect())
    }

    /// For [`Core::change_topic`]: what is known of the topic afterwards, and of a deletion whom it is still to be told.
    ///
    /// # Errors
    /// Its own.
    pub fn asks_change_topic(
        &self,
        topic: &str,
        asked: &TopicChange,
    ) -> Result<Vec<Change>, ControlError> {
        let topic: TopicName = topic_name(topic).map_err(ControlError::Invalid)?;
        let subject = subject_of(&topic, asked).map_err(ControlError::Invalid)?;
        let after = self.catalog.after(&topic, asked);
        let after = after.map_err(ControlError::Unavailable)?;
        let mut changes = Vec::new();
        if let Some(known) = after.filter(|_| !topic.is_ephemeral()) {
            let record = channels_record(&topic, known.as_ref());
            changes.push(change(Table::Channels, topic.as_str(), record));
        }
        if asked.is_deletion() {
            let brokers = self.brokers.iter().filter(|broker| broker.has_name());
            let away = brokers.filter(|broker| !broker.inventory.is_whole);
            let owing = away.filter(|broker| broker.inventory.may_owe(&subject));
            changes.extend(owing.map(|broker| owed_change(broker, &subject, true)));
        }
        Ok(changes)
    }
}

fn owed_change(broker: &Broker, subject: &Subject, is_owed: bool) -> Change {
    let key = owed_key(&broker.name, subject);
    change(Table::Owed, &key, is_owed.then_some(Value::Bool(true)))
}

fn change(table: Table, key: &str, value: Option<Value>) -> Change {
    Change {
        table,
        key: key.to_owned(),
        value,
    }
}
