//! Disks: what was written whole is there after a crash, and sometimes nothing can be written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::ControlError;
use control::store::{Change, MemoryStore, Store, Table};
use serde_json::Value;
use topics::stats::CatalogTopic;

/// The controller's; outlives its processes.
#[derive(Clone, Default)]
pub struct StoreDisk(Arc<Mutex<Medium>>);

#[derive(Default)]
struct Medium {
    kept: MemoryStore,
    is_full: bool,
}

impl StoreDisk {
    /// Whether nothing can be written.
    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// Whether nothing can be written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().is_full
    }

    fn lock(&self) -> MutexGuard<'_, Medium> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for StoreDisk {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.lock().kept.load(table)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        let mut medium = self.lock();
        match medium.is_full {
            true => Err(ControlError::Unavailable(String::from("the disk is full"))),
            false => medium.kept.commit(changes),
        }
    }
}

/// A broker's data folder: its catalog. Its identity is there too, and never lost.
#[derive(Debug, Default)]
pub struct Folder {
    catalog: BTreeMap<String, CatalogTopic>,
    /// Nothing can be written.
    pub is_full: bool,
}

impl Folder {
    /// Replaces the catalog as a whole; says whether it could be written.
    pub fn save(&mut self, catalog: impl IntoIterator<Item = CatalogTopic>) -> bool {
        if self.is_full {
            return false;
        }
        let topics = catalog.into_iter().map(|topic| (topic.name.clone(), topic));
        self.catalog = topics.collect();
        true
    }

    /// What is in it.
    pub fn catalog(&self) -> impl Iterator<Item = &CatalogTopic> {
        self.catalog.values()
    }
}
