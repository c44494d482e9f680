//! Keeps segments and logs: carries out orders on a shelf on disk and on logs, writes and syncs. It reads no clock: the backlog's thread
//! drives it on folders, the simulation of the whole cluster on simulated disks.

use std::time::Duration;

use clock::{Instant, WallTime};
use disk::{DiskError, FileReport, Opened, Volume};
use topics::{
    BacklogAnswer, BacklogOrder, BacklogOutcome, KnownLog, LogAnswer, LogOrder, LogStep, Outside,
    QueueName,
};
use wire::TopicName;

use super::journal::Journal;
use super::kept_message::{Anchor, owner_of, queue_of};
use super::segments::{self, Contents, Segments};
use super::state::BacklogHealth;
use super::{BacklogConfig, Found, adoption, found};

/// See the module.
#[derive(Debug)]
pub struct Keeper<V> {
    shelf: Segments<V>,
    journal: Journal<V>,
    anchor: Anchor,
    config: BacklogConfig,
    health: BacklogHealth,
    /// When what is not synced is to be.
    sync_at: Option<Instant>,
    /// Answers to reactors that came up since the last commit.
    answers: Vec<(usize, LogAnswer)>,
}

/// What was there when a keeper began.
#[derive(Debug)]
pub struct Recovered {
    /// Queues with what they have outside of memory.
    pub found: Vec<Found>,
    /// The logs of durable topics.
    pub known: Vec<KnownLog>,
    /// The highest id that a message has.
    pub highest_id: u64,
}

impl<V: Volume> Keeper<V> {
    /// Opens what is on two volumes, of segments and of logs; it is now that instant, and that time of day. `seed` is what the salts of
    /// new files are drawn from; who publishes must not know it.
    ///
    /// # Errors
    /// [`DiskError`], where a volume cannot be used, or a log not be read.
    pub fn open(
        (shelf, logs): (V, V),
        config: &BacklogConfig,
        seed: u64,
        (now, wall): (Instant, WallTime),
        health: BacklogHealth,
    ) -> Result<(Keeper<V>, Recovered), DiskError> {
        let (mut shelf, mut opened) = segments::open(shelf, config, config.bytes_max, seed)?;
        let (mut logs, mut logged) = found::open_logs(logs, config, seed.rotate_left(32))?;
        found::refuse_unread(&logged)?;
        let anchor = Anchor { now, wall };
        let wall_ns = anchor.wall_ns(now);
        adoption::finish(&mut shelf, &opened, &mut logs, &mut logged, wall_ns)?;
        found::forget_logged(&mut shelf, &mut opened, &logged);
        health.note_bound(config.bytes_max);
        health.note_extent(shelf.bytes(), shelf.files());
        tell(config, &opened, &health);
        let highest_id = opened.highest_id.max(logged.highest_id);
        let mut recovered = found::recover(config, logged, &health);
        let outside = std::mem::take(&mut recovered.outside);
        let keeper = Keeper {
            shelf,
            journal: Journal::new(logs, anchor, health.clone(), config.sync_timeout, outside),
            anchor,
            config: config.clone(),
            health,
            sync_at: None,
            answers: Vec::new(),
        };
        let found = opened.owners.into_iter().map(|(owner, kept)| {
            let outside = kept.into_iter().map(|each| Outside {
                number: each.number,
                messages: each.messages,
                bytes: each.body_bytes,
            });
            (queue_of(owner), outside.collect())
        });
        let recovered = Recovered {
            found: found.chain(recovered.found).collect(),
            known: recovered.known,
            highest_id,
        };
        Ok((keeper, recovered))
    }

    /// When it is to [commit](Keeper::commit) again, if nothing comes.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.sync_at.into_iter().chain(self.journal.due()).min()
    }

    /// Has logs written and synced, and segments where it is time; gives what reactors are to hear.
    pub fn commit(&mut self, now: Instant) -> Vec<(usize, LogAnswer)> {
        self.write_logs(now);
        self.sync_if_due(now);
        let (shelf, logs) = (&self.shelf, &self.journal.logs);
        self.health
            .note_extent(shelf.bytes() + logs.bytes(), shelf.files() + logs.files());
        std::mem::take(&mut self.answers)
    }

    /// Whether something waits that the disk has not taken.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.journal.is_any_behind()
    }

    /// Writes and syncs all that there is, and ends the files in order. False where the disk did not take all of that.
    #[must_use]
    pub fn end(mut self) -> bool {
        let is_logged = self.journal.end();
        let ended = self.shelf.end();
        self.health.note(&ended, usize::MAX);
        is_logged && ended.is_ok()
    }

    /// Topics with messages that the disk has not taken, and how many.
    #[must_use]
    pub fn unwritten(&mut self, now: Instant) -> Vec<(TopicName, u64)> {
        self.journal.touch_all();
        self.write_logs(now);
        self.journal.unwritten()
    }

    fn write_logs(&mut self, now: Instant) {
        self.journal.logs.set_beside(self.shelf.bytes());
        let mut answers = self.journal.commit(now);
        self.answers.append(&mut answers);
        self.shelf.set_beside(self.journal.logs.bytes());
    }

    /// Takes an order about a log. What queues have outside of memory is logged at once, before any of it may be read back. Where that
    /// fails the log is not whole: the next start does it.
    pub fn log(&mut self, reactor: usize, mut order: LogOrder, now: Instant) {
        if let LogOrder::Write(batch) = &mut order
            && !batch.adopted.is_empty()
        {
            let adopted = std::mem::take(&mut batch.adopted);
            // What the topic has in memory comes first.
            self.write_logs(now);
            let is_whole = self.adopt(&batch.name, adopted, now).unwrap_or_else(|reason| {
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
    fn adopt(
        &mut self,
        topic: &TopicName,
        queues: Vec<(u32, QueueName)>,
        now: Instant,
    ) -> Result<bool, String> {
        if self.journal.is_behind(topic) {
            return Err(String::from("the disk takes nothing now"));
        }
        let wall_ns = self.anchor.wall_ns(now);
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

    /// Carries out an order about a segment; gives the answer to it, if there is one.
    pub fn carry_out(&mut self, order: BacklogOrder) -> Option<BacklogAnswer> {
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

/// Logs what was found.
fn tell(config: &BacklogConfig, opened: &Opened, health: &BacklogHealth) {
    let segments = opened.owners.iter().flat_map(|(_, segments)| segments);
    let messages: usize = segments.map(|each| each.messages).sum();
    if messages > 0 {
        let (queues, folder) = (opened.owners.len(), config.folder.display());
        tracing::info!("{messages} messages of {queues} queues are in {folder}");
    }
    for report in &opened.reports {
        tell_of_file(report);
        health.note_damages(report.damages.len());
    }
}

pub(super) fn tell_of_file(report: &FileReport) {
    let file = &report.file;
    for damage in &report.damages {
        let (bytes, offset) = (damage.bytes, damage.offset);
        tracing::error!(
            "{file}: {bytes} bytes at {offset} are damaged, and what they held is lost"
        );
    }
    if report.messages_missing > 0 {
        let missing = report.messages_missing;
        tracing::error!("{file}: {missing} messages are missing");
    }
    if let Some(cut) = report.cut {
        let (bytes, offset) = (cut.bytes, cut.offset);
        tracing::warn!(
            "{file}: the last {bytes} bytes, from {offset} on, were not written whole and are cut off"
        );
    }
    if report.is_unended {
        tracing::info!("{file} was not ended in order: its broker was killed, or the file was cut");
    }
    if report.is_nobodys {
        tracing::error!(
            "{file}: whose messages these are cannot be read; it is left as it is, move it away"
        );
    }
    if let Some(failure) = &report.failure {
        tracing::error!("{file} cannot be read and is left as it is: {failure}");
    }
}
