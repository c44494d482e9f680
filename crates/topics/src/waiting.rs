//! What waits in a topic itself.

use clock::Instant;

use super::queue::Queue;
use super::service::Service;
use super::store::{MessageRef, Store};

/// See the module.
#[derive(Debug)]
pub(super) struct Waiting {
    /// In order.
    pub(super) queue: Queue<MessageRef>,
    /// Not yet put into their order of arrival.
    pub(super) fresh: Vec<Fresh>,
    /// Body bytes of both.
    pub(super) bytes: u64,
}

/// A message of a limited topic, or of any under emulated service, not yet put into its order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) at: Instant,
    pub(super) id: u64,
    pub(super) message: MessageRef,
    /// The first of its command.
    pub(super) is_first: bool,
}

impl Waiting {
    /// Nothing waits.
    pub(super) fn new(queue: Queue<MessageRef>) -> Waiting {
        Waiting {
            queue,
            fresh: Vec::new(),
            bytes: 0,
        }
    }

    /// Puts the limited messages read since the last run into the queue in their order of arrival, and has an emulated
    /// service take them in that order.
    /// One reactor reads its connections one after another, so reading order is not arrival order,
    /// and the bucket judges by arrival. Messages of one publisher keep their order.
    pub(super) fn sort_in(&mut self, mut service: Option<&mut Service>, store: &mut Store) {
        if self.fresh.is_empty() {
            return;
        }
        // With the id in the key an unstable sort keeps reading order, and it allocates nothing.
        self.fresh
            .sort_unstable_by_key(|fresh| (fresh.at, fresh.id));
        if let Some(service) = &mut service {
            for fresh in &self.fresh {
                store.get_mut(fresh.message).served = service.serve(fresh.at, fresh.is_first);
            }
        }
        self.queue
            .extend(self.fresh.drain(..).map(|fresh| fresh.message));
    }

    /// All that is in memory.
    pub(super) fn iter(&self) -> impl Iterator<Item = MessageRef> {
        let fresh = self.fresh.iter().map(|fresh| fresh.message);
        self.queue.iter().copied().chain(fresh)
    }

    /// Takes all that is in memory.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = MessageRef> {
        let fresh = self.fresh.drain(..).map(|fresh| fresh.message);
        self.queue.drain().chain(fresh)
    }
}
