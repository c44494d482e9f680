//! The store's own thread: only those who depend on a write wait for the disk.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use crate::ControlError;
use crate::store::{Change, Store};

/// Makes changes durable away from the loop; one commit is under way at a time.
pub trait Writer: Send {
    /// Begins a commit; its outcome comes as [`super::Next::Written`].
    fn write(&mut self, changes: Vec<Change>);
}

/// The outcome of a commit.
#[derive(Debug)]
pub struct Written {
    /// The changes that it was to make durable.
    pub changes: Vec<Change>,
    /// Whether they are, all of them; otherwise none is.
    pub result: Result<(), ControlError>,
}

/// A thread that writes to a store.
pub(super) struct StoreThread {
    commits: Option<Sender<Vec<Change>>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Begins the thread; the receiver closes should it ever end by itself.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the system gives none.
    pub(super) fn begin(
        mut store: Box<dyn Store>,
    ) -> Result<(StoreThread, mpsc::UnboundedReceiver<Written>), ControlError> {
        let (commits, taken) = channel::<Vec<Change>>();
        // One at a time.
        let (answers, written) = mpsc::unbounded_channel();
        let write = move || {
            for changes in taken {
                let result = store.commit(&changes);
                if answers.send(Written { changes, result }).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(String::from("store"));
        let thread = thread.spawn(write).map_err(|error| {
            ControlError::Unavailable(format!("the store has no thread of its own: {error}"))
        })?;
        let writer = StoreThread {
            commits: Some(commits),
            thread: Some(thread),
        };
        Ok((writer, written))
    }
}

impl Writer for StoreThread {
    fn write(&mut self, changes: Vec<Change>) {
        if let Some(commits) = &self.commits {
            // That the thread has ended is seen where its answers are waited for.
            let _ = commits.send(changes);
        }
    }
}

impl Drop for StoreThread {
    /// The store is closed before anybody opens it again.
    fn drop(&mut self) {
        self.commits = None;
        if let Some(thread) = self.thread.take() {
            // It tells of its own panic.
            let _ = thread.join();
        }
    }
}
