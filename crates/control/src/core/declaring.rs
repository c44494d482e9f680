//! Long lists of publishers, declared in parts: others are served between them.
//!
//! A list is checked and its room is kept as a whole before the first part, so that all of it is taken or none. Lists for one topic are
//! taken in the order in which they came. What is left of one ends with its topic.

use std::collections::VecDeque;
use std::vec::IntoIter;

use clock::Instant;
use rustc_hash::FxHashSet;

use super::{Core, Effect, PUBLISHERS_MAX, check};
use crate::ControlError;
use crate::view::PublisherSpec;

/// Publishers whose declarations can be believed, each id once.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared(Vec<PublisherSpec>);

impl Declared {
    /// Checks a list.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] naming the publisher and the field.
    pub fn new(specs: Vec<PublisherSpec>) -> Result<Declared, ControlError> {
        specs.iter().try_for_each(check::publisher)?;
        let mut seen = FxHashSet::default();
        if let Some(twice) = specs.iter().find(|spec| !seen.insert(spec.id.as_str())) {
            return Err(ControlError::Invalid(format!(
                "publisher {:?} is named twice; ids are unique within a topic",
                twice.id
            )));
        }
        Ok(Declared(specs))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn specs(&self) -> &[PublisherSpec] {
        &self.0
    }

    pub(super) fn into_specs(self) -> Vec<PublisherSpec> {
        self.0
    }

    /// Their ids, in the order of the list.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.0.iter().map(|spec| spec.id.clone()).collect()
    }
}

/// Lists that were not taken in whole.
#[derive(Debug, Default)]
pub(super) struct Declaring {
    lists: VecDeque<List>,
    /// Publishers that room is kept for.
    awaited: usize,
    last: u64,
}

#[derive(Debug)]
struct List {
    number: u64,
    topic: String,
    specs: IntoIter<PublisherSpec>,
}

impl Declaring {
    pub(super) fn is_busy(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Publishers that room is kept for.
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    /// Others are next, but for later lists of the same topic.
    fn put_back(&mut self, list: List) {
        let mut others = self.lists.iter();
        match others.any(|other| other.topic == list.topic) {
            true => self.lists.push_front(list),
            false => self.lists.push_back(list),
        }
    }

    /// What is left of a topic's lists is void.
    pub(super) fn give_up(&mut self, topic: &str) {
        for list in self.lists.iter_mut().filter(|list| list.topic == topic) {
            self.awaited -= list.specs.len();
            list.specs = Vec::new().into_iter();
        }
    }
}

impl Core {
    /// Adds publishers or takes their new declarations, all or none, and places them. Gives the number that
    /// [`Effect::Declared`] has once that is done.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no topic's name; [`ControlError::Unavailable`] at a bound.
    pub fn declare(
        &mut self,
        name: &str,
        publishers: Declared,
        now: Instant,
    ) -> Result<u64, ControlError> {
        self.check_declare(name, &publishers)?;
        let Declared(specs) = publishers;
        self.topic_or_new(name)?;
        let declaring = &mut self.declaring;
        declaring.last += 1;
        declaring.awaited += specs.len();
        let number = declaring.last;
        declaring.lists.push_back(List {
            number,
            topic: name.to_owned(),
            specs: specs.into_iter(),
        });
        if declaring.lists.len() == 1 {
            self.go_on_declaring(now);
        }
        Ok(number)
    }

    /// Takes the next part of the list that came first.
    pub(super) fn go_on_declaring(&mut self, now: Instant) {
        let Some(mut list) = self.declaring.lists.pop_front() else {
            return;
        };
        let part: Vec<PublisherSpec> = list.specs.by_ref().take(self.sizes.rows).collect();
        self.declaring.awaited -= part.len();
        self.take_declared(&list.topic, part, now);
        match list.specs.len() {
            0 => self.effects.push(Effect::Declared(list.number)),
            _ => self.declaring.put_back(list),
        }
    }

    /// Whether there is room for a list.
    pub(super) fn check_declare(
        &self,
        name: &str,
        publishers: &Declared,
    ) -> Result<(), ControlError> {
        check::topic(name)?;
        self.check_room_for(publishers.len())?;
        self.has_room_for_topic(name)
    }

    fn check_room_for(&self, more: usize) -> Result<(), ControlError> {
        let known = self.publishers + self.declaring.awaited();
        if known + more > PUBLISHERS_MAX {
            return Err(ControlError::Unavailable(format!(
                "{known} publishers are known and {PUBLISHERS_MAX} is the most; remove some first"
            )));
        }
        Ok(())
    }
}
