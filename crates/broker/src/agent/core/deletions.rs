//! Deletions that were carried out here, and that the controller is told of once they are on disk:
//! until then they would be undone by a restart.

use link::{ToController, TopicChange};

use super::Asked;
use super::errand::Errand;
use super::outbox::Outbox;
use crate::BrokerError;

/// Deletions that wait at most; what is beyond, the controller says again on the next link.
const WAITING_MAX: usize = 4096;
/// Deletions that are said at once at most.
const AT_ONCE: usize = 256;

type Deletion = (String, TopicChange);

/// How far that is on the link that stands.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    waiting: Vec<Deletion>,
    /// Those that are on disk once the errand is done.
    covered: Vec<Deletion>,
    asked: Asked,
}

impl Deletions {
    /// An ordered deletion was carried out, or there was nothing to delete. One of the same name that is not on disk yet
    /// counts for nothing: something else of this name may have been there since.
    pub(super) fn followed(&mut self, topic: &str, change: &TopicChange) {
        let is_other = |deletion: &Deletion| deletion.0 != topic || deletion.1 != *change;
        self.covered.retain(is_other);
        self.waiting.retain(is_other);
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push((topic.to_owned(), change.clone()));
        }
    }

    /// The link is gone.
    pub(super) fn ends(&mut self) {
        (self.waiting, self.covered) = (Vec::new(), Vec::new());
        self.asked.ends();
    }

    /// Has what waits kept, unless something is being kept.
    pub(super) fn drive(&mut self, outbox: &mut Outbox) {
        if self.asked == Asked::Nothing && !self.waiting.is_empty() && outbox.has_room() {
            let count = self.waiting.len().min(AT_ONCE);
            self.covered = self.waiting.drain(..count).collect();
            self.asked = Asked::Now;
            outbox.ask(Errand::Keep);
        }
    }

    /// They are kept, or never will be, for the broker stops.
    pub(super) fn kept(&mut self, kept: Result<(), BrokerError>, outbox: &mut Outbox) {
        let covered = std::mem::take(&mut self.covered);
        if self.asked.is_answered() && kept.is_ok() {
            for (topic, change) in covered {
                outbox.say(ToController::DeletionKept { topic, change });
            }
        }
    }
}
