//! Figures of the link, readable from any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::core::Agent;
use super::{EPOCH_NAME, EpochFile};

/// Bytes that went over the link, lengths included (headers of TCP and IP are not), whether it is missed for too long, and the
/// number that the controller gave to this process.
#[derive(Clone, Debug, Default)]
pub struct LinkBoard(Arc<LinkFigures>);

#[derive(Debug, Default)]
struct LinkFigures {
    sent: AtomicU64,
    received: AtomicU64,
    is_given_up: AtomicBool,
    life: AtomicU64,
    /// Where the controller's epoch outlives the process, if it does.
    epoch_file: Mutex<Option<EpochFile>>,
}

impl LinkBoard {
    /// Bytes said to the controller.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Bytes heard of it.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Whether topics flow without the controller's answer, which did not come in time.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Relaxed)
    }

    /// Number of this process's life, as the controller gave it; 0 before.
    pub(crate) fn life(&self) -> u64 {
        self.0.life.load(Ordering::Relaxed)
    }

    /// The latest life of a controller is kept in `file` from now on.
    pub(super) fn keep_epoch_in(&self, file: Option<EpochFile>) {
        let kept = self.0.epoch_file.lock();
        *kept.unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// Makes the latest life of a controller durable, before the first order of a link is carried out. Where that cannot be, it counts
    /// for this process, and is tried again with the next link.
    pub(super) async fn keep_epoch(&self, epoch: u64) {
        let board = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            let file = board.0.epoch_file.lock();
            let mut file = file.unwrap_or_else(PoisonError::into_inner);
            let file = file.as_mut().filter(|file| file.epoch() < epoch);
            file.map_or(Ok(()), |file| file.write(epoch))
        });
        // A runtime that ends keeps nothing.
        if let Ok(Err(error)) = written.await {
            tracing::warn!(
                "the controller's epoch is not kept in {EPOCH_NAME}: {error}; after a restart this broker may obey a controller that was deposed"
            );
        }
    }

    pub(super) fn show(&self, agent: &Agent) {
        self.0.life.store(agent.life(), Ordering::Relaxed);
        let is_given_up = agent.is_given_up();
        self.0.is_given_up.store(is_given_up, Ordering::Relaxed);
    }

    pub(super) fn note_sent(&self, bytes: usize) {
        self.0.sent.fetch_add(framed(bytes), Ordering::Relaxed);
    }

    pub(super) fn note_received(&self, bytes: usize) {
        self.0.received.fetch_add(framed(bytes), Ordering::Relaxed);
    }
}

/// A message with its length of four bytes.
fn framed(bytes: usize) -> u64 {
    bytes as u64 + 4
}
