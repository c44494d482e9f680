//! The catalog file of a running broker: every change is written soon, a contract before it is in
//! force.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, sleep};

use super::health::CatalogHealth;
use super::{CatalogFile, CatalogState};
use crate::stats::Catalog;
use crate::{BrokerError, Handle};

/// Changes that follow each other this closely are written once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Writing takes at most one part in this many of the time: with many topics it takes long.
const WRITING_PART: u32 = 20;
/// And is never further apart than this.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Pause after a write that failed; the next one holds everything that changed meanwhile.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The catalog file, for all who write to it: one at a time.
#[derive(Clone, Debug, Default)]
pub struct KeptCatalog {
    pub(super) keeping: Arc<Mutex<Keeping>>,
    health: CatalogHealth,
    /// Counts writes of the whole catalog, and its end.
    saves: watch::Sender<u64>,
}

impl KeptCatalog {
    /// Keeps contracts in `file` from now on, and everything else once [`keep`] runs.
    pub(crate) async fn keep_in(&self, mut file: CatalogFile) {
        file.health = self.health.clone();
        *self.keeping.lock().await = Keeping::In(Box::new(file));
    }

    /// Completes once all topics and channels that are here by now, and no others, are in the file, or at once where there is
    /// none. While the file cannot be written that waits. `changed` has it written.
    ///
    /// # Errors
    /// [`BrokerError::Exiting`].
    pub(crate) async fn wait_until_written(&self, changed: &Notify) -> Result<(), BrokerError> {
        let mut saves = self.saves.subscribe();
        match *self.keeping.lock().await {
            Keeping::Nowhere => return Ok(()),
            Keeping::Ended => return Err(BrokerError::Exiting),
            // The catalog is read and written under the lock: a write that ends behind this has seen what is here.
            Keeping::In(_) => saves.mark_unchanged(),
        }
        changed.notify_one();
        let is_counted = saves.changed().await.is_ok();
        match *self.keeping.lock().await {
            Keeping::In(_) if is_counted => Ok(()),
            _ => Err(BrokerError::Exiting),
        }
    }

    /// How its writes fare.
    pub(crate) fn state(&self) -> CatalogState {
        self.health.state()
    }
}

/// Whether there is a file.
#[derive(Debug, Default)]
pub(super) enum Keeping {
    /// The broker has no data folder: nothing is kept.
    #[default]
    Nowhere,
    /// Here.
    In(Box<CatalogFile>),
    /// The broker stops, and nothing is kept any more.
    Ended,
}

/// Writes every change of the broker's catalog to the file of [`Handle::keep_in`] until `stop` completes, and once more
/// then. A write that fails is logged and tried again.
pub async fn keep(handle: Handle, stop: impl Future<Output = ()>) {
    tokio::pin!(stop);
    let mut stopping = false;
    let (mut has_failed, mut pause) = (false, DEBOUNCE);
    while !stopping {
        tokio::select! {
            () = &mut stop => stopping = true,
            () = handle.changed() => {}
            // A failed write is tried again without waiting for a change.
            () = sleep(RETRY_PAUSE), if has_failed => {}
        }
        if !stopping && !has_failed {
            tokio::select! {
                () = &mut stop => stopping = true,
                () = sleep(pause) => {}
            }
        }
        let mut keeping = handle.kept.keeping.lock().await;
        let began = Instant::now();
        has_failed = !keeping.save_all(&handle).await;
        pause = (began.elapsed() * WRITING_PART).clamp(DEBOUNCE, INTERVAL_MAX);
        if stopping {
            *keeping = Keeping::Ended;
        }
        if stopping || !has_failed {
            handle.kept.saves.send_modify(|saves| *saves += 1);
        }
    }
}

impl Keeping {
    /// Writes the catalog as the reactors have it; says whether it is in the file.
    pub(super) async fn save_all(&mut self, handle: &Handle) -> bool {
        let catalog = handle.catalog().await;
        if let Err(error) = &catalog {
            tracing::error!(%error, "the catalog is not saved");
        }
        catalog.and_then(|catalog| self.save(catalog)).is_ok()
    }

    /// Writes the catalog; that may hold this thread for its moment.
    pub(super) fn save(&mut self, catalog: Catalog) -> Result<(), BrokerError> {
        match self {
            Keeping::Nowhere => Ok(()),
            Keeping::In(file) => tokio::task::block_in_place(|| file.save(catalog)),
            Keeping::Ended => Err(BrokerError::Exiting),
        }
    }
}
