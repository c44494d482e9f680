//! Long lists of publishers, declared in parts: other requests are served between them.
//!
//! A list is checked and room for all of it is reserved before the first part, so all of it is
//! taken or none. Lists for one topic are taken in the order in which they came. The rest of a list
//! ends with its topic.

use std::collections::VecDeque;
use std::vec::IntoIter;

use rustc_hash::FxHashSet;

use super::topics::Topics;
use super::{PUBLISHERS_MAX, check};
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

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the first `at_most` of them, and gives the rest.
    #[must_use]
    pub fn split_off(&mut self, at_most: usize) -> Declared {
        Declared(self.0.split_off(at_most.min(self.0.len())))
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

/// A part of a list that is to be taken.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) specs: Vec<PublisherSpec>,
    list: List,
}

impl Part {
    /// Whose publishers they are.
    pub(super) fn topic(&self) -> &str {
        &self.list.topic
    }
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

    /// Whether there is room for a list, with what is known and what is awaited.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no topic's name; [`ControlError::Unavailable`] at a bound.
    pub(super) fn check(
        &self,
        topics: &Topics,
        name: &str,
        publishers: &Declared,
    ) -> Result<(), ControlError> {
        check::topic(name)?;
        let known = topics.publishers + self.awaited;
        if known + publishers.0.len() > PUBLISHERS_MAX {
            return Err(ControlError::Unavailable(format!(
                "{known} publishers are known, and at most {PUBLISHERS_MAX} may be; remove some first"
            )));
        }
        topics.has_room_for(name)
    }

    /// Takes a list in: gives its number, and whether it is the only one.
    pub(super) fn add(&mut self, name: &str, publishers: Declared) -> (u64, bool) {
        let Declared(specs) = publishers;
        self.last += 1;
        self.awaited += specs.len();
        self.lists.push_back(List {
            number: self.last,
            topic: name.to_owned(),
            specs: specs.into_iter(),
        });
        (self.last, self.lists.len() == 1)
    }

    /// The next `at_most` publishers of the list that came first.
    pub(super) fn next(&mut self, at_most: usize) -> Option<Part> {
        let mut list = self.lists.pop_front()?;
        let specs: Vec<PublisherSpec> = list.specs.by_ref().take(at_most).collect();
        self.awaited -= specs.len();
        Some(Part { specs, list })
    }

    /// A part was taken; gives the number of its list, if that was the last.
    pub(super) fn taken(&mut self, part: Part) -> Option<u64> {
        match part.list.specs.len() {
            0 => Some(part.list.number),
            _ => {
                self.put_back(part.list);
                None
            }
        }
    }

    /// Others are next, but for later lists of the same topic.
    fn put_back(&mut self, list: List) {
        let mut others = self.lists.iter();
        match others.any(|other| other.topic == list.topic) {
            true => self.lists.push_front(list),
            false => self.lists.push_back(list),
        }
    }

    /// The rest of a topic's lists is void.
    pub(super) fn give_up(&mut self, topic: &str) {
        for list in self.lists.iter_mut().filter(|list| list.topic == topic) {
            self.awaited -= list.specs.len();
            list.specs = Vec::new().into_iter();
        }
    }

    /// A publisher was removed, so lists that came before name it in vain. Says whether one did.
    pub(super) fn forget(&mut self, topic: &str, id: &str) -> bool {
        let awaited = self.awaited;
        for list in self.lists.iter_mut().filter(|list| list.topic == topic) {
            let left = std::mem::take(&mut list.specs).filter(|spec| spec.id != id);
            let left: Vec<PublisherSpec> = left.collect();
            list.specs = left.into_iter();
        }
        self.awaited = self.lists.iter().map(|list| list.specs.len()).sum();
        self.awaited < awaited
    }
}
