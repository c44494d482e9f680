//! Requests: answers to questions, and the records that a request keeps before the core acts on it.
//!
//! A request's records are made durable first; its consequences (places, shares, orders) are
//! decided afterwards. So there is nothing to undo when a request cannot be kept, and one that was
//! kept is in force whatever fails later: a restart reads it back and decides the rest anew. Pure:
//! a question only reads the current state.

use clock::Instant;
use link::TopicChange;
use serde_json::Value;
use wire::TopicName;

use super::inventory::{subject_of, topic_name};
use super::owed::owed_change;
use super::persist::{
    broker_record, channels_record, publisher_as, publisher_key, shares_record, topic_record,
};
use super::prepare::{may_all_be_told, may_be_told};
use super::publisher::Row;
use super::topic::no_publisher;
use super::{BrokerNumber, Core, Declared, Work, holdings};
use crate::ControlError;
use crate::handle::Holdings;
use crate::store::{Change, Table};
use crate::view::{
    BrokerView, ChannelViews, NameView, NameViews, PlacementView, PublisherSpec, PublisherView,
    TopicSpec, TopicView,
};

impl Core {
    /// Number of this life.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.rules.epoch
    }

    /// What has been looked at so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.due.work
    }

    /// One topic.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn topic_view(&self, name: &str) -> Result<TopicView, ControlError> {
        self.views().topic_view(name)
    }

    /// At most `at_most` topics behind `after`, ordered by name.
    #[must_use]
    pub fn topic_views(&self, after: Option<&str>, at_most: usize) -> Vec<TopicView> {
        self.views().topic_views(after, at_most)
    }

    /// How many topics there are.
    #[must_use]
    pub fn topics_count(&self) -> usize {
        self.topics.all().len()
    }

    /// At most `at_most` publishers of a topic behind `after`, ordered by id.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn publisher_views(
        &self,
        name: &str,
        after: Option<&str>,
        at_most: usize,
    ) -> Result<Vec<PublisherView>, ControlError> {
        self.views().publisher_views(name, after, at_most)
    }

    /// One publisher, by its index.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn publisher_view(&self, name: &str, index: usize) -> Result<PublisherView, ControlError> {
        self.views().publisher_view(name, index)
    }

    /// Publishers by id, in the order asked for.
    #[must_use]
    pub fn publishers_named(&self, name: &str, ids: &[String]) -> Vec<PublisherView> {
        self.views().publishers_named(name, ids)
    }

    /// Where a topic is; for one that nobody knows, where a first publisher would go. Of its publishers those behind `after`,
    /// `at_most` so many.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no topic's name.
    pub fn placement_view(
        &self,
        name: &str,
        after: Option<&str>,
        at_most: usize,
    ) -> Result<PlacementView, ControlError> {
        self.views().placement_view(name, after, at_most)
    }

    /// All brokers, ordered by name.
    #[must_use]
    pub fn broker_views(&self, now: Instant) -> Vec<BrokerView> {
        self.views().broker_views(now)
    }

    /// One broker.
    #[must_use]
    pub fn broker_view(&self, number: BrokerNumber, now: Instant) -> BrokerView {
        self.views().broker_view(number, now)
    }

    /// Topics and channels by broker, and those that no broker may have, in order of name behind
    /// `after`, at most `at_most`. Brokers that are known to be dead, or not yet seen to be where
    /// they say, have nothing; a drained one has what it holds messages of, or what is still
    /// published there.
    #[must_use]
    pub fn holdings(&self, after: Option<&TopicName>, at_most: usize, now: Instant) -> Holdings {
        let (topics, brokers) = (&self.topics, &self.brokers);
        holdings::holdings(topics, brokers, &self.catalog, (after, at_most), now)
    }

    /// Channels of a topic over all brokers.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no name; [`ControlError::NotFound`] where neither brokers nor the store know the
    /// topic.
    pub fn channel_views(&self, topic: &str) -> Result<ChannelViews, ControlError> {
        holdings::channel_views(&self.catalog, &self.brokers, topic)
    }

    /// The identifier of a topic's name.
    ///
    /// # Errors
    /// [`ControlError::Invalid`]; [`ControlError::NotFound`] where it has none.
    pub fn name_view(&self, topic: &str) -> Result<NameView, ControlError> {
        self.names.view(topic)
    }

    /// Names with identifiers in order of name, those behind `after` only; 10,000 at most.
    #[must_use]
    pub fn name_views(&self, after: Option<&str>) -> NameViews {
        self.names.views(after)
    }

    /// How many names have identifiers.
    #[must_use]
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// Whether a publisher, if it has a place, may be told of it.
    #[must_use]
    pub fn may_be_told(&self, name: &str, id: &str) -> bool {
        may_be_told(&self.topics, &self.brokers, &self.catalog, name, id)
    }

    /// Whether all of a topic's publishers that have a place may be told of it.
    #[must_use]
    pub fn may_all_be_told(&self, name: &str) -> bool {
        may_all_be_told(&self.topics, &self.brokers, &self.catalog, name)
    }

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

    /// For [`Core::delete_topic`]. Publishers of a topic that is not there are not, either: their records are removed afterwards.
    ///
    /// # Errors
    /// Its own.
    pub fn asks_delete_topic(&self, name: &str) -> Result<Vec<Change>, ControlError> {
        self.topics.find(name)?;
        Ok([Table::Topics, Table::Shares]
            .map(|table| change(table, name, None))
            .into())
    }

    /// Whether there is room for a list.
    ///
    /// # Errors
    /// Those of [`Core::declare`].
    pub fn check_declare(&self, name: &str, publishers: &Declared) -> Result<(), ControlError> {
        self.declaring.check(&self.topics, name, publishers)
    }

    /// Whether records of a removed topic of this name are still there.
    #[must_use]
    pub fn is_forgetting(&self, name: &str) -> bool {
        self.forgetting.holds(name)
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
        self.declaring.check(&self.topics, name, publishers)?;
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
        changes.extend(changed.map(|(spec, row)| publisher_as(&self.brokers, name, spec, row)));
        Ok(changes)
    }

    /// For [`Core::delete_publisher`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_delete_publisher(&self, name: &str, id: &str) -> Result<Vec<Change>, ControlError> {
        let found = self.topics.find(name)?.publishers.find(id);
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
        let broker = &self.brokers[self.brokers.number_of(name)?];
        let record = broker_record(broker, is_draining);
        Ok(vec![change(Table::Brokers, name, record)])
    }

    /// For [`Core::remove_broker`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_remove_broker(&self, name: &str) -> Result<Vec<Change>, ControlError> {
        let broker = &self.brokers[self.brokers.check_remove(name)?];
        let owed = broker.inventory.owed().iter();
        let owed = owed.map(|subject| owed_change(&broker.name, subject, false));
        let own = change(Table::Brokers, name, None);
        Ok(owed.chain([own]).collect())
    }

    /// For [`Core::put_name`].
    ///
    /// # Errors
    /// Its own.
    pub fn asks_put_name(&self, topic: &str) -> Result<Vec<Change>, ControlError> {
        let id = self.names.id_for(topic)?;
        let named = id.map(|id| change(Table::Names, topic, Some(Value::from(id))));
        Ok(named.into_iter().collect())
    }

    /// For [`Core::change_topic`]: what is known of the topic afterwards, and of a deletion who has not confirmed it.
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
            changes.extend(self.brokers.asks_owe(&subject));
        }
        Ok(changes)
    }
}

impl Core {
    /// A request has come into force, or could not: its records are replaced by the present state
    /// wherever that differs, because other things may have happened while it was being kept. Not
    /// for what [`Core::declare`] takes in parts.
    pub fn keep_as_is(&mut self, kept: &[Change]) {
        for Change { table, key, value } in kept {
            let present = self.record(*table, key);
            if present != *value {
                self.out.keep(*table, key, present);
            }
        }
    }

    /// The present form of a record that requests have kept.
    fn record(&self, table: Table, key: &str) -> Option<Value> {
        match table {
            Table::Topics => {
                let topic = self.topics.get(key)?;
                topic_record(&topic.spec, topic.limit_number)
            }
            Table::Shares => shares_record(&self.topics.get(key)?.shares.kept),
            Table::Publishers => {
                let (name, id) = key.split_once('/')?;
                let publishers = &self.topics.get(name)?.publishers;
                let row = publishers.rows().get(publishers.find(id)?)?;
                publisher_as(&self.brokers, name, &row.spec, Some(row)).value
            }
            Table::Brokers => {
                let broker = &self.brokers[self.brokers.number_of(key).ok()?];
                broker_record(broker, broker.is_draining)
            }
            Table::Names => Some(Value::from(self.name_view(key).ok()?.id)),
            Table::Channels => {
                let topic = topic_name(key).ok()?;
                channels_record(&topic, self.catalog.get(key))
            }
            Table::Owed => self.brokers.is_owed(key).then_some(Value::Bool(true)),
            Table::Meta => None,
        }
    }
}

fn change(table: Table, key: &str, value: Option<Value>) -> Change {
    Change {
        table,
        key: key.to_owned(),
        value,
    }
}
