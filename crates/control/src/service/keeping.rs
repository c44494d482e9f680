//! Changes on their way to the store. Those that it cannot take wait, and are tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use serde_json::Value;
use tokio::sync::watch;

use crate::ControlError;
use crate::core::publisher_key;
use crate::handle::StoreState;
use crate::store::{Change, Store, Table};

/// The first pause before changes are tried again; each is twice as long as the one before.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The store, and what it could not take.
pub(super) struct Keeping {
    store: Box<dyn Store>,
    unwritten: Option<Unwritten>,
    state: watch::Sender<StoreState>,
}

/// What waits: of each record what it is to be. So there are no more than records.
struct Unwritten {
    records: BTreeMap<(Table, String), Option<Value>>,
    pause: Duration,
    next_at: Instant,
}

impl Keeping {
    /// A store that can be written; the receiver is told when that changes.
    pub(super) fn new(store: Box<dyn Store>) -> (Keeping, watch::Receiver<StoreState>) {
        let (state, seen) = watch::channel(StoreState::default());
        let keeping = Keeping {
            store,
            unwritten: None,
            state,
        };
        (keeping, seen)
    }

    /// Whether anything waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.unwritten.is_some()
    }

    /// Makes changes durable.
    ///
    /// # Errors
    /// Why they are not: they wait from now on, but for those of [`Table::Shares`], which the core takes back.
    pub(super) fn commit(
        &mut self,
        changes: Vec<Change>,
        now: Instant,
    ) -> Result<(), ControlError> {
        let kept = self.commit_or_forget(&changes, now);
        if kept.is_err() {
            self.wait(changes);
        }
        kept
    }

    /// Makes changes durable, or does not.
    ///
    /// # Errors
    /// Why not: from now on what is to be kept waits, but for these changes.
    pub(super) fn commit_or_forget(
        &mut self,
        changes: &[Change],
        now: Instant,
    ) -> Result<(), ControlError> {
        let Err(error) = self.store.commit(changes) else {
            return Ok(());
        };
        tracing::error!(
            "the store cannot be written: {error}; changes are refused, and what was decided waits; \
             it is tried again in {RETRY_MIN:?}"
        );
        self.failed(&error);
        self.unwritten = Some(Unwritten {
            records: BTreeMap::new(),
            pause: RETRY_MIN,
            next_at: now + RETRY_MIN,
        });
        Err(error)
    }

    /// Lets changes wait with the others.
    pub(super) fn wait(&mut self, changes: Vec<Change>) {
        let Some(unwritten) = &mut self.unwritten else {
            return;
        };
        for Change { table, key, value } in changes {
            if table != Table::Shares || value.is_none() {
                unwritten.records.insert((table, key), value);
            }
        }
    }

    /// Tries again what waits, if it is time; whether it has been written.
    pub(super) fn retry(&mut self, now: Instant) -> bool {
        let Some(unwritten) = self.unwritten.as_mut().filter(|each| now >= each.next_at) else {
            return false;
        };
        let records = unwritten.records.iter();
        let changes = records.map(|((table, key), value)| Change {
            table: *table,
            key: key.clone(),
            value: value.clone(),
        });
        let changes: Vec<Change> = changes.collect();
        if let Err(error) = self.store.commit(&changes) {
            unwritten.pause = (unwritten.pause * 2).min(RETRY_MAX);
            unwritten.next_at = now + unwritten.pause;
            let pause = unwritten.pause;
            tracing::warn!(
                "the store still cannot be written: {error}; it is tried again in {pause:?}"
            );
            self.failed(&error);
            return false;
        }
        let kept = unwritten.records.len();
        self.unwritten = None;
        self.state.send_modify(|state| state.failure = None);
        tracing::info!("the store can be written again: {kept} records that waited are kept");
        true
    }

    /// Why nothing can be written, while that is so.
    pub(super) fn failure(&self) -> Option<String> {
        self.state.borrow().failure.clone()
    }

    /// The answer to whoever wants a change now.
    pub(super) fn refusal(&self) -> ControlError {
        let reason = self.failure().unwrap_or_default();
        ControlError::NotKept(format!(
            "nothing can be kept just now ({reason}), so nothing was changed; make room and ask again"
        ))
    }

    /// Whether a record waits.
    pub(super) fn holds(&self, table: Table, key: &str) -> bool {
        let unwritten = self.unwritten.as_ref();
        unwritten.is_some_and(|unwritten| unwritten.records.contains_key(&(table, key.to_owned())))
    }

    /// Whether a publisher's record waits, with its place.
    pub(super) fn holds_publisher(&self, topic: &str, id: &str) -> bool {
        self.is_waiting() && self.holds(Table::Publishers, &publisher_key(topic, id))
    }

    /// Whether any record of a table waits.
    pub(super) fn holds_any(&self, table: Table) -> bool {
        let Some(unwritten) = &self.unwritten else {
            return false;
        };
        let mut from = unwritten.records.range((table, String::new())..);
        from.next().is_some_and(|((first, _), _)| *first == table)
    }

    fn failed(&self, error: &ControlError) {
        self.state.send_modify(|state| {
            state.failure = Some(error.to_string());
            state.failures += 1;
        });
    }
}
