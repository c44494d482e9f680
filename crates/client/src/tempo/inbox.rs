//! The events of one task in order, with their number reported to the kernel.
//!
//! Putting an event in and posting it are one step for every writer, before and after the task has
//! got its identifier. Each writer has its own bound: a socket and an alarm have at most one event
//! in it, a publication one for everything in its buffer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kernel::{Kernel, TaskId};

use super::monotonic::now;
use super::poller::{Signal, Target};

/// Events of type `E` on their way to one task.
pub(super) struct Inbox<E> {
    kernel: Weak<Kernel>,
    state: Mutex<State<E>>,
}

struct State<E> {
    events: VecDeque<E>,
    task: Option<TaskId>,
}

impl<E> Inbox<E> {
    /// An inbox without a task: what is put in waits for one.
    pub(super) fn new(kernel: &Arc<Kernel>) -> Arc<Inbox<E>> {
        Arc::new(Inbox {
            kernel: Arc::downgrade(kernel),
            state: Mutex::new(State {
                events: VecDeque::new(),
                task: None,
            }),
        })
    }

    /// Names the task that serves it, and posts what waits already.
    pub(super) fn bind(&self, task: TaskId) {
        let mut state = self.state();
        state.task = Some(task);
        let waiting = state.events.len();
        drop(state);
        self.post(task, waiting);
    }

    /// The task that serves it.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.state().task
    }

    /// Puts an event in and makes the task schedulable.
    pub(super) fn put(&self, event: E) {
        let mut state = self.state();
        state.events.push_back(event);
        let task = state.task;
        drop(state);
        if let Some(task) = task {
            self.post(task, 1);
        }
    }

    /// Takes the oldest event, for the task alone.
    pub(super) fn take(&self) -> Option<E> {
        self.state().events.pop_front()
    }

    /// Notes that a writer found no room.
    pub(super) fn note_full(&self) {
        if let (Some(task), Some(kernel)) = (self.task(), self.kernel.upgrade()) {
            kernel.note_full(task);
        }
    }

    /// Ends the task.
    pub(super) fn close(&self) {
        let task = self.state().task.take();
        if let (Some(task), Some(kernel)) = (task, self.kernel.upgrade()) {
            // It is gone where its handler panicked.
            let _gone = kernel.remove(task);
        }
    }

    fn post(&self, task: TaskId, events: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.post(task, events, now());
        }
    }

    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: From<Signal> + Send> Target for Inbox<E> {
    fn signal(&self, signal: Signal) {
        self.put(signal.into());
    }
}
