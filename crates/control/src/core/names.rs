//! The name service: the number of each topic on Tempo's data path.
//!
//! Messages there carry four bytes instead of a name ("Toward scalable real-time messaging").
//! Identifiers are given out in turn and never taken back, so one that is still in use never comes
//! to mean another topic. Their top bit is clear: identifiers with it set are those that peers
//! without a controller derive from hashes.

use std::collections::BTreeMap;
use std::ops::Bound;

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::check;
use super::outbox::Outbox;
use crate::ControlError;
use crate::store::{Store, Table};
use crate::view::{NameView, NameViews};

/// Names that are given an identifier at most.
pub const NAMES_MAX: usize = 1_000_000;

/// The greatest identifier: the top bit is not the name service's.
const ID_MAX: u32 = u32::MAX >> 1;

/// Names in one answer at most.
const PAGE_NAMES: usize = 10_000;

/// Identifiers by name.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: BTreeMap<String, u32>,
    last: u32,
}

impl Names {
    /// The identifier of a topic's name, which is given one unless it has one. It may be told once the changes are kept.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no name; [`ControlError::Unavailable`] at the bound.
    pub(super) fn put(&mut self, topic: &str, out: &mut Outbox) -> Result<NameView, ControlError> {
        let Some(id) = self.id_for(topic)? else {
            return self.view(topic);
        };
        self.last = id;
        self.ids.insert(topic.to_owned(), id);
        out.keep(Table::Names, topic, Some(Value::from(id)));
        Ok(view(topic, id))
    }

    /// The identifier that a name would be given; nothing where it has one.
    pub(super) fn id_for(&self, topic: &str) -> Result<Option<u32>, ControlError> {
        check::topic(topic)?;
        if self.ids.contains_key(topic) {
            return Ok(None);
        }
        if self.ids.len() >= NAMES_MAX || self.last >= ID_MAX {
            return Err(ControlError::Unavailable(format!(
                "{NAMES_MAX} names have identifiers, which is the most; no identifier is ever taken back"
            )));
        }
        Ok(Some(self.last + 1))
    }

    /// The identifier of a topic's name.
    ///
    /// # Errors
    /// [`ControlError::Invalid`]; [`ControlError::NotFound`] where it has none.
    pub(super) fn view(&self, topic: &str) -> Result<NameView, ControlError> {
        check::topic(topic)?;
        let id = self.ids.get(topic).copied();
        id.map(|id| view(topic, id)).ok_or_else(|| {
            ControlError::NotFound(format!(
                "{topic:?} has no identifier; PUT /v1/names/{topic} gives it one"
            ))
        })
    }

    /// Names with identifiers in order of name, those behind `after` only; 10,000 at most.
    #[must_use]
    pub(super) fn views(&self, after: Option<&str>) -> NameViews {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.ids.range::<str, _>((begin, Bound::Unbounded));
        let page = behind.by_ref().take(PAGE_NAMES);
        NameViews {
            names: page.map(|(topic, &id)| view(topic, id)).collect(),
            has_more: behind.next().is_some(),
        }
    }

    /// How many names have identifiers.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Reads back what was given out.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the store cannot be read, or an identifier is none or stands for two names:
    /// to go on would mix up topics.
    pub(super) fn restore(store: &dyn Store) -> Result<Names, ControlError> {
        let mut names = Names::default();
        let mut given = FxHashSet::default();
        for (topic, value) in store.load(Table::Names)? {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.filter(|id| (1..=ID_MAX).contains(id) && given.insert(*id));
            let id = id.ok_or_else(|| {
                ControlError::Unavailable(format!(
                    "the store's identifier {value} of {topic:?} is not within 1 to {ID_MAX} or stands for another name too; \
                     restore the store from a copy"
                ))
            })?;
            names.last = names.last.max(id);
            names.ids.insert(topic, id);
        }
        Ok(names)
    }
}

fn view(topic: &str, id: u32) -> NameView {
    NameView {
        topic: topic.to_owned(),
        id,
    }
}
