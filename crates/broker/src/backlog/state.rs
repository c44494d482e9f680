//! The state of the backlog's disk, for operators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disk::DiskError;

/// What there is, and what has gone wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BacklogState {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// Bytes that they may have.
    pub bytes_max: u64,
    /// Why the disk takes nothing, since something failed and nothing has succeeded.
    pub failure: Option<String>,
    /// Failures so far.
    pub failures: u64,
    /// The budget is used up: publishers wait.
    pub is_full: bool,
    /// Damaged places that were come upon.
    pub damages: u64,
    /// Of durable topics.
    pub logs: LogsState,
}

/// What there is of the logs of durable topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogsState {
    /// Bytes of their files.
    pub bytes: u64,
    /// Messages that were written.
    pub appended: u64,
    /// Of these, the ones that had to be confirmed by the disk and were.
    pub synced: u64,
    /// Syncs, each for all messages of a topic that waited for it.
    pub syncs: u64,
    /// Messages that the disk does not take: their publishers wait.
    pub waiting: u64,
    /// Messages of queues that were found when the broker began.
    pub recovered: u64,
}

/// The budget counts as used up until there is room for this many segments like the one that was
/// refused: at the bound segments come and go one by one.
const ROOMY_SEGMENTS: u64 = 2;

/// The state, for the thread and for all who look.
#[derive(Clone, Debug, Default)]
pub struct BacklogHealth(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    state: BacklogState,
    /// How long what failed was: on a full disk what is shorter may still fit.
    failed_bytes: usize,
    /// How long what the budget refused was.
    refused_bytes: u64,
}

impl BacklogHealth {
    /// As it is.
    #[must_use]
    pub fn state(&self) -> BacklogState {
        self.noted().state.clone()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what there is.
    pub(super) fn note_extent(&self, bytes: u64, files: usize) {
        let noted = &mut *self.noted();
        let wanted = noted.refused_bytes.saturating_mul(ROOMY_SEGMENTS);
        let state = &mut noted.state;
        (state.bytes, state.files) = (bytes, files as u64);
        if state.is_full && bytes.saturating_add(wanted) <= state.bytes_max {
            state.is_full = false;
            tracing::info!("messages on disk are within the disk budget again");
        }
    }

    pub(super) fn note_bound(&self, bytes_max: u64) {
        self.noted().state.bytes_max = bytes_max;
    }

    /// Notes what there is of logs.
    pub(super) fn note_logs(&self, bytes: u64, waiting: u64) {
        let logs = &mut self.noted().state.logs;
        (logs.bytes, logs.waiting) = (bytes, waiting);
    }

    pub(super) fn note_appended(&self, messages: usize) {
        self.noted().state.logs.appended += messages as u64;
    }

    pub(super) fn note_recovered(&self, messages: usize) {
        self.noted().state.logs.recovered += messages as u64;
    }

    /// Notes that so many messages were synced in one go.
    pub(super) fn note_synced(&self, messages: usize) {
        let logs = &mut self.noted().state.logs;
        logs.syncs += 1;
        logs.synced += messages as u64;
    }

    pub(super) fn note_damages(&self, count: usize) {
        self.noted().state.damages += count as u64;
    }

    /// Records the outcome of an operation on this many bytes; a change of state is logged.
    pub(super) fn note(&self, outcome: &Result<(), DiskError>, bytes: usize) {
        let noted = &mut *self.noted();
        let state = &mut noted.state;
        match outcome {
            Ok(()) => {
                if bytes >= noted.failed_bytes && state.failure.take().is_some() {
                    noted.failed_bytes = 0;
                    tracing::info!("messages can be written to disk again");
                }
            }
            Err(DiskError::Budget(budget)) => {
                noted.refused_bytes = bytes as u64;
                if !std::mem::replace(&mut state.is_full, true) {
                    tracing::warn!(
                        "messages on disk have their part of the {budget} bytes of the disk budget: publishers to queues that are full, \
                         and of durable topics, wait; \
                         consume what waits, or allow more with --disk-budget"
                    );
                }
            }
            // Its topic says so, and nothing else is concerned.
            Err(DiskError::Share(_)) => {}
            Err(error) => {
                state.failures += 1;
                noted.failed_bytes = match state.failure {
                    Some(_) => noted.failed_bytes.min(bytes),
                    None => bytes,
                };
                if state.failure.replace(error.to_string()).is_none() {
                    tracing::error!(
                        "messages cannot be kept on disk: {error}; publishers to queues that are full, and of durable topics, wait, \
                         everything else goes on, and it is tried again"
                    );
                }
            }
        }
    }
}
