//! The list that is gone by at present.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::AccessList;

/// An [`AccessList`] that may be replaced while it is used. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct InForce(Arc<Cell>);

#[derive(Debug, Default)]
struct Cell {
    list: RwLock<Arc<AccessList>>,
    edition: AtomicU64,
}

impl InForce {
    /// With its first list.
    #[must_use]
    pub fn new(list: AccessList) -> InForce {
        let in_force = InForce::default();
        in_force.replace(list);
        in_force
    }

    /// The list.
    #[must_use]
    pub fn list(&self) -> Arc<AccessList> {
        let list = self.0.list.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&list)
    }

    /// Another number after each [`InForce::replace`]. No lock is taken for it; whoever has decided by an older list decides again.
    #[inline]
    #[must_use]
    pub fn edition(&self) -> u64 {
        self.0.edition.load(Ordering::Acquire)
    }

    /// Goes by another list from now on.
    pub fn replace(&self, list: AccessList) {
        let mut former = self.0.list.write().unwrap_or_else(PoisonError::into_inner);
        *former = Arc::new(list);
        self.0.edition.fetch_add(1, Ordering::AcqRel);
    }
}
