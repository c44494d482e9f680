//! Changes on their way to the store, one commit at a time. Those that it cannot take wait and are
//! tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use serde_json::Value;
use tokio::sync::watch;

use super::writer::Writer;
use crate::ControlError;
use crate::core::publisher_key;
use crate::handle::StoreState;
use crate::store::{Change, Table};

/// The first pause before changes are tried again; each is twice as long as the one before.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The way to the store, and what it could not take.
pub(super) struct Keeping {
    writer: Box<dyn Writer>,
    /// A commit is under way.
    is_writing: bool,
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
    pub(super) fn new(writer: Box<dyn Writer>) -> (Keeping, watch::Receiver<StoreState>) {
        let (state, seen) = watch::channel(StoreState::default());
        let keeping = Keeping {
            writer,
            is_writing: false,
            unwritten: None,
            state,
        };
        (keeping, seen)
    }

    /// Whether the store cannot be written, and anything waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.unwritten.is_some()
    }

    /// Whether a commit is under way.
    pub(super) fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Begins a commit; none is under way.
    pub(super) fn write(&mut self, changes: Vec<Change>) {
        self.is_writing = true;
        self.writer.write(changes);
    }

    /// The commit that was under way has ended.
    pub(super) fn has_written(&mut self) {
        self.is_writing = false;
    }

    /// These changes could not be made durable: they wait from now on, but for those of [`Table::Shares`], which the core takes back.
    pub(super) fn begin_waiting(
        &mut self,
        changes: Vec<Change>,
        error: &ControlError,
        now: Instant,
    ) {
        tracing::error!(
            "the store cannot be written: {error}; changes are refused, and decisions wait to be kept; the next attempt is in {RETRY_MIN:?}"
        );
        self.failed(error);
        self.unwritten = Some(Unwritten {
            records: BTreeMap::new(),
            pause: RETRY_MIN,
            next_at: now + RETRY_MIN,
        });
        self.wait(changes);
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

    /// Tries again what waits, if it is time.
    pub(super) fn retry(&mut self, now: Instant) {
        let due = self.unwritten.as_ref().filter(|each| now >= each.next_at);
        let Some(unwritten) = due.filter(|_| !self.is_writing) else {
            return;
        };
        let records = unwritten.records.iter();
        let changes = records.map(|((table, key), value)| Change {
            table: *table,
            key: key.clone(),
            value: value.clone(),
        });
        let changes = changes.collect();
        self.write(changes);
    }

    /// What waited was tried again. Once it is written: what has come since, which waits no longer than for the next commit.
    pub(super) fn retried(
        &mut self,
        changes: Vec<Change>,
        result: Result<(), ControlError>,
        now: Instant,
    ) -> Option<Vec<Change>> {
        let unwritten = self.unwritten.as_mut()?;
        if let Err(error) = result {
            unwritten.pause = (unwritten.pause * 2).min(RETRY_MAX);
            unwritten.next_at = now + unwritten.pause;
            let pause = unwritten.pause;
            tracing::warn!(
                "the store still cannot be written: {error}; the next attempt is in {pause:?}"
            );
            self.failed(&error);
            return None;
        }
        let kept = changes.len();
        let mut records = self.unwritten.take()?.records;
        for Change { table, key, value } in changes {
            let record = (table, key);
            if records.get(&record) == Some(&value) {
                records.remove(&record);
            }
        }
        self.state.send_modify(|state| state.failure = None);
        tracing::info!("the store can be written again: {kept} records that waited are kept");
        let since = records.into_iter();
        let since = since.map(|((table, key), value)| Change { table, key, value });
        Some(since.collect())
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
