//! The thread that keeps segments: it carries out orders on a shelf on disk, and syncs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use clock::Instant;
use disk::{Contents, DiskError, Folder, Shelf};
use topics::{BacklogAnswer, BacklogOrder, BacklogOutcome, QueueName};

use super::kept_message::{Anchor, owner_of};
use super::state::BacklogHealth;
use super::{BacklogConfig, Work};
use crate::reactor::{Inbox, Mail};
use crate::sys;

/// See the module.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shelf: Shelf<Folder>,
    pub(super) anchor: Anchor,
    pub(super) config: BacklogConfig,
    pub(super) health: BacklogHealth,
    pub(super) inboxes: Arc<[Arc<Inbox>]>,
    /// When what is not synced is to be.
    pub(super) sync_at: Option<Instant>,
}

impl Keeper {
    /// Works until nobody can order anything more, then ends the files in order. False where the disk did not take all of that.
    pub(super) fn run(mut self, ordered: &Receiver<Work>) -> bool {
        loop {
            let work = match self.sync_at {
                None => ordered.recv().map_err(RecvTimeoutError::from),
                Some(at) => ordered.recv_timeout(at.saturating_since(sys::monotonic_now())),
            };
            match work {
                Ok(work) => self.work(work),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.sync_if_due(sys::monotonic_now());
            self.health
                .note_extent(self.shelf.bytes(), self.shelf.files());
        }
        let ended = self.shelf.end();
        self.health.note(&ended, usize::MAX);
        ended.is_ok()
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Order(reactor, order) => {
                if let Some(answer) = self.carry_out(order)
                    && let Some(inbox) = self.inboxes.get(reactor)
                {
                    inbox.post(&mut vec![Mail::Backlog(answer)]);
                }
            }
            Work::Save(order, reply) => {
                let answer = self.carry_out(order);
                let is_kept =
                    answer.is_none_or(|answer| matches!(answer.outcome, BacklogOutcome::Written));
                // Who asked waits for it.
                let _ = reply.send(is_kept);
            }
        }
    }

    fn carry_out(&mut self, order: BacklogOrder) -> Option<BacklogAnswer> {
        let (key, number, outcome) = match order {
            BacklogOrder::Write(queue, number, segment) => {
                let anchor = self.anchor;
                let bytes = segment.memory();
                let messages = segment.messages();
                let messages = messages.map(|(head, body)| anchor.message(head, body));
                let put = self.shelf.put(&owner_of(&queue.name), number, messages);
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                self.health.note(&put, bytes);
                let outcome = match put {
                    Ok(()) => BacklogOutcome::Written,
                    Err(_) => BacklogOutcome::NotWritten,
                };
                (queue.key, number, outcome)
            }
            BacklogOrder::Read(queue, number) => {
                let outcome = self.read(&queue.name, number);
                (queue.key, number, outcome)
            }
            BacklogOrder::Forget(queue, number) => {
                let noted = self.shelf.forget(&owner_of(&queue.name), number);
                if let Err(error) = noted {
                    self.health.note(&Err(error), 0);
                }
                return None;
            }
            BacklogOrder::ForgetAll(queue) => {
                self.shelf.forget_all(&owner_of(&queue.name));
                return None;
            }
        };
        Some(BacklogAnswer {
            queue: key,
            number,
            outcome,
        })
    }

    fn read(&mut self, queue: &QueueName, number: u64) -> BacklogOutcome {
        match self.shelf.read(&owner_of(queue), number) {
            Ok(contents) => {
                self.tell_damages(queue, &contents);
                let segment = self
                    .anchor
                    .segment(contents.messages(), contents.is_of_before());
                BacklogOutcome::Read(segment)
            }
            Err(DiskError::Missing(_)) => {
                tracing::error!("segment {number} of {queue:?} is not on disk any more");
                BacklogOutcome::Read(topics::Segment::default())
            }
            Err(error) => {
                self.health.note(&Err(error), 0);
                BacklogOutcome::NotRead
            }
        }
    }

    fn tell_damages(&self, queue: &QueueName, contents: &Contents) {
        let mut count = 0;
        for damage in contents.damages() {
            count += 1;
            tracing::error!(
                "{}: {} bytes at {} are damaged, and what they held of {} is lost",
                contents.file(),
                damage.bytes,
                damage.offset,
                owner_of(queue)
            );
        }
        if count > 0 {
            self.health.note_damages(count);
        }
    }

    fn sync_if_due(&mut self, now: Instant) {
        if !self.shelf.is_unsynced() {
            self.sync_at = None;
            return;
        }
        let timeout = self.config.sync_timeout.max(Duration::from_millis(1));
        let at = *self.sync_at.get_or_insert(now + timeout);
        if now < at && self.shelf.unsynced_messages() < self.config.sync_every {
            return;
        }
        self.sync_at = None;
        if let Err(error) = self.shelf.sync() {
            self.health.note(&Err(error), 0);
        }
        if self.shelf.is_unsynced() {
            self.sync_at = Some(now + timeout);
        }
    }
}
