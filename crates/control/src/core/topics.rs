//! All topics, and what is kept for them together.

use std::collections::{BTreeMap, BTreeSet};

use link::ToBroker;

use super::tally::Loads;
use super::{TOPICS_MAX, Topic};
use crate::ControlError;

/// Ledgers in one life of the controller: as many as fit.
const LEDGER_BITS: u32 = 32;

/// The topics that are declared or have publishers.
#[derive(Debug, Default)]
pub(super) struct Topics {
    by_name: BTreeMap<String, Topic>,
    /// Publishers of all of them.
    pub(super) publishers: usize,
    /// Those that something is promised of.
    pub(super) promised: BTreeSet<String>,
    /// The sums of the publishers of all topics, by broker.
    pub(super) loads: Loads,
    last_ledger: u64,
}

impl Topics {
    /// All of them, in order of name.
    pub(super) fn all(&self) -> &BTreeMap<String, Topic> {
        &self.by_name
    }

    pub(super) fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    /// A topic whose publishers are to be changed, with the sums that follow.
    pub(super) fn with_loads(&mut self, name: &str) -> Option<(&mut Topic, &mut Loads)> {
        let topic = self.by_name.get_mut(name)?;
        Some((topic, &mut self.loads))
    }

    /// A topic that somebody asks for.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn find(&self, name: &str) -> Result<&Topic, ControlError> {
        self.get(name).ok_or_else(|| no_topic(name))
    }

    /// The same, to change its publishers.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn find_with_loads(
        &mut self,
        name: &str,
    ) -> Result<(&mut Topic, &mut Loads), ControlError> {
        self.with_loads(name).ok_or_else(|| no_topic(name))
    }

    pub(super) fn insert(&mut self, name: &str, topic: Topic) {
        if topic.spec.slo.is_some() {
            self.promised.insert(name.to_owned());
        }
        self.by_name.insert(name.to_owned(), topic);
    }

    /// Notes whether anything is promised of a topic that was declared anew.
    pub(super) fn note_promise(&mut self, name: &str) {
        match self.get(name).and_then(|topic| topic.spec.slo) {
            Some(_) => drop(self.promised.insert(name.to_owned())),
            None => drop(self.promised.remove(name)),
        }
    }

    /// Takes a topic out; its publishers count no more.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn remove(&mut self, name: &str) -> Result<Topic, ControlError> {
        let mut topic = self.by_name.remove(name).ok_or_else(|| no_topic(name))?;
        self.publishers -= topic.publishers.rows().len();
        topic.publishers.leave(&mut self.loads);
        self.promised.remove(name);
        Ok(topic)
    }

    /// Whether there is room for a topic, or it is known.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`].
    pub(super) fn has_room_for(&self, name: &str) -> Result<(), ControlError> {
        match self.by_name.len() >= TOPICS_MAX && !self.by_name.contains_key(name) {
            false => Ok(()),
            true => Err(ControlError::Unavailable(format!(
                "{TOPICS_MAX} topics are declared, which is the most; remove some first"
            ))),
        }
    }

    /// Whether a publisher has no place.
    pub(super) fn is_unplaced(&self, name: &str, index: usize) -> bool {
        let topic = self.get(name);
        topic.is_some_and(|topic| topic.publishers.unplaced().contains(&(index as u32)))
    }

    /// A topic's contract as brokers are told it; for a topic that nobody declared, an empty one.
    pub(super) fn contract_of(&self, name: &str, ticket: u64) -> ToBroker {
        let topic = self.get(name);
        ToBroker::Contract {
            topic: name.to_owned(),
            contract: topic.map(|topic| topic.spec.contract).unwrap_or_default(),
            limit_number: topic.and_then(|topic| topic.limit_number),
            ticket,
        }
    }

    /// The epoch of a new ledger in this life: greater than that of any ledger before, so that its grants count.
    pub(super) fn next_ledger(&mut self, life: u64) -> u64 {
        self.last_ledger += 1;
        (life << LEDGER_BITS) + self.last_ledger
    }
}

fn no_topic(name: &str) -> ControlError {
    ControlError::NotFound(format!(
        "there is no topic {name:?}; PUT /v1/topics/{name} declares it"
    ))
}
