//! Whether the catalog can be written, for operators.

use std::sync::{Arc, Mutex, PoisonError};

use crate::BrokerError;

/// How the writes of the catalog fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogState {
    /// Why not, since a write has failed and none has succeeded.
    pub failure: Option<String>,
    /// Writes that have failed so far.
    pub failures: u64,
}

/// The state, for the writer and for all who look.
#[derive(Clone, Debug, Default)]
pub(super) struct CatalogHealth(Arc<Mutex<CatalogState>>);

impl CatalogHealth {
    pub(super) fn state(&self) -> CatalogState {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Takes note of how a write went; what changes is logged.
    pub(super) fn note(&self, written: &Result<(), BrokerError>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = written.as_ref().err().map(BrokerError::to_string);
        match (&state.failure, &failure) {
            (None, Some(why)) => tracing::error!(
                "the catalog cannot be written: {why}; new contracts are refused, everything else goes on, and it is tried again"
            ),
            (Some(_), None) => tracing::info!("the catalog can be written again"),
            _ => {}
        }
        state.failures += u64::from(failure.is_some());
        state.failure = failure;
    }
}
