//! The controller's disk: commits are whole, and sometimes nothing can be written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::ControlError;
use control::store::{Change, MemoryStore, Store, Table};
use serde_json::Value;

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
