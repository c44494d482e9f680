//! The thread that keeps segments and logs: it carries out orders on a shelf on disk and on logs, and syncs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use clock::Instant;
use disk::DiskError;
use topics::{BacklogAnswer, BacklogOrder, BacklogOutcome, LogOrder, LogStep, QueueName};
use wire::TopicName;

use super::journal::Journal;
use super::kept_message::{Anchor, owner_of, queue_of};
use super::segments::{Contents, Segments};
use super::state::BacklogHealth;
use super::{BacklogConfig, Work, adoption};
use crate::reactor::{Inbox, Mail};
use crate::sys;

/// Works that are done between two commits of logs.
const WORKS_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shelf: Segments,
    pub(super) journal: Journal,
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
            let due = self.sync_at.into_iter().chain(self.journal.due()).min();
            let work = match due {
                None => ordered.recv().map_err(RecvTimeoutError::from),
                Some(at) => ordered.recv_timeout(at.saturating_since(sys::monotonic_now())),
            };
            match work {
                Ok(work) => {
                    self.work(work);
                    // What has come meanwhile is written and synced together.
                    ordered
                        .try_iter()
                        .take(WORKS_MAX)
                        .for_each(|work| self.work(work));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.commit();
            self.sync_if_due(sys::monotonic_now());
            let (shelf, logs) = (&self.shelf, &self.journal.logs);
            self.health
                .note_extent(shelf.bytes() + logs.bytes(), shelf.files() + logs.files());
        }
        let is_logged = self.journal.end();
        let ended = self.shelf.end();
        self.health.note(&ended, usize::MAX);
        is_logged && ended.is_ok()
    }

    /// Has logs written and synced, and those told who wait for it.
    fn commit(&mut self) {
        let beside = self.shelf.bytes();
        self.journal.logs.set_beside(beside);
        let answers = self.journal.commit(sys::monotonic_now());
        self.shelf.set_beside(self.journal.logs.bytes());
        let mut mail: Vec<Vec<Mail>> = Vec::new();
        mail.resize_with(self.inboxes.len(), Vec::new);
        for (reactor, answer) in answers {
            if let Some(mail) = mail.get_mut(reactor) {
                mail.push(Mail::Logged(answer));
            }
        }
        for (inbox, mail) in self.inboxes.iter().zip(&mut mail) {
            if !mail.is_empty() {
                inbox.post(mail);
            }
        }
    }

    /// Takes an order about a log. What queues have outside of memory is logged at once, before any of it may be read back. Where that
    /// fails the log is not whole: the next start does it.
    fn log(&mut self, reactor: usize, mut order: LogOrder) {
        if let LogOrder::Write(batch) = &mut order
            && !batch.adopted.is_empty()
        {
            let adopted = std::mem::take(&mut batch.adopted);
            // What the topic has in memory comes first.
            self.commit();
            let is_whole = self.adopt(&batch.name, adopted).unwrap_or_else(|reason| {
                tracing::error!(
                    "{}: {reason}; messages of its queues that are on disk already are copied into its log at the next start",
                    batch.name
                );
                false
            });
            if !is_whole {
                batch.steps.retain(|step| *step != LogStep::Whole);
            }
        }
        self.journal.take(reactor, order);
    }

    /// Says whether that is all that queues of the topic have; those that were not restored yet are to come.
    fn adopt(&mut self, topic: &TopicName, queues: Vec<(u32, QueueName)>) -> Result<bool, String> {
        if self.journal.is_behind(topic) {
            return Err(String::from("the disk takes nothing now"));
        }
        let wall_ns = self.anchor.wall_ns(sys::monotonic_now());
        let logs = &mut self.journal.logs;
        logs.begin(topic);
        for (number, queue) in &queues {
            adoption::adopt(&mut self.shelf, logs, &owner_of(queue), *number, wall_ns)
                .map_err(|error| error.to_string())?;
        }
        logs.sync(topic).map_err(|error| error.to_string())?;
        let adopted = self.journal.adopted(topic);
        adopted.extend(queues.into_iter().map(|(_, queue)| queue));
        let mut owners = self.shelf.owners_of(topic);
        Ok(owners.all(|owner| adopted.contains(&queue_of(owner.clone()))))
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
            Work::Log(reactor, order) => self.log(reactor, order),
            Work::Unwritten(reply) => {
                // Who asked waits for it.
                let _ = reply.send(self.journal.unwritten(sys::monotonic_now()));
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
                if self.journal.forget(&queue.name, number) {
                    return None;
                }
                let noted = self.shelf.forget(&owner_of(&queue.name), number);
                if let Err(error) = noted {
                    self.health.note(&Err(error), 0);
                }
                return None;
            }
            BacklogOrder::ForgetAll(queue) => {
                self.journal.forget_all(&queue.name);
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
        match self.journal.read(queue, number) {
            None => {}
            Some(Ok(segment)) => return BacklogOutcome::Read(segment),
            Some(Err(error)) => {
                self.health.note(&Err(error), 0);
                return BacklogOutcome::NotRead;
            }
        }
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
