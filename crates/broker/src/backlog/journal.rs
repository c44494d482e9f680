//! Logs of durable topics on disk: batches are written as they come, synced together, and answered once they are durable.
//!
//! What comes while the thread is busy is written and synced in one go: each topic has one sync for all who wait for it. A batch that the
//! disk does not take waits, with those of its topic that come behind it, and is tried again; steps about messages that are there
//! already do not wait for it, so consumers make room. What a failed sync may have lost is written anew to another file.

mod book;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use clock::Instant;
use disk::{DiskError, Entry, Logs, Message, OWN_QUEUE, ReadMessage, Volume};
use rustc_hash::{FxHashMap, FxHashSet};
use topics::{LogAnswer, LogOrder, QueueName, Segment};
use wire::TopicName;

use self::book::{Book, Page};
use super::kept_message::Anchor;
use super::state::BacklogHealth;

/// What the disk does not take is tried again after so long.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Pieces of a log that are carried to its end between two commits.
const PIECES_MAX: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Journal<V> {
    pub(super) logs: Logs<V>,
    pub(super) anchor: Anchor,
    pub(super) health: BacklogHealth,
    /// What is not asked for sooner is synced after so long.
    sync_timeout: Duration,
    books: FxHashMap<TopicName, Book>,
    /// Topics with something to write or to sync.
    touched: FxHashSet<TopicName>,
    /// What queues have outside of memory that is in logs and nowhere else, by the numbers of segments.
    outside: FxHashMap<QueueName, BTreeMap<u64, Vec<u64>>>,
    /// When all that is written is to be synced.
    sync_at: Option<Instant>,
    retry_at: Option<Instant>,
}

impl<V: Volume> Journal<V> {
    pub(super) fn new(
        logs: Logs<V>,
        anchor: Anchor,
        health: BacklogHealth,
        sync_timeout: Duration,
        outside: FxHashMap<QueueName, BTreeMap<u64, Vec<u64>>>,
    ) -> Journal<V> {
        Journal {
            logs,
            anchor,
            health,
            sync_timeout: sync_timeout.max(Duration::from_millis(1)),
            books: FxHashMap::default(),
            touched: FxHashSet::default(),
            outside,
            sync_at: None,
            retry_at: None,
        }
    }

    /// Takes an order; what follows is done with the next [commit](Journal::commit).
    pub(super) fn take(&mut self, reactor: usize, order: LogOrder) {
        match order {
            LogOrder::Write(batch) => {
                let name = batch.name.clone();
                self.logs.begin(&name);
                let book = self.books.entry(name.clone()).or_default();
                book.is_over = false;
                let page = Page::new(reactor, batch, self.anchor);
                book.waiting.push_back(page);
                self.touched.insert(name);
            }
            LogOrder::End(name) => {
                let book = self.books.entry(name.clone()).or_default();
                (book.waiting, book.unsynced) = (VecDeque::new(), Vec::new());
                book.adopted.clear();
                book.is_over = true;
                self.end_if_over(&name);
            }
        }
    }

    /// When it is to be called again, if nothing comes.
    pub(super) fn due(&self) -> Option<Instant> {
        self.sync_at.into_iter().chain(self.retry_at).min()
    }

    /// Writes and syncs what has come; gives the answers.
    pub(super) fn commit(&mut self, now: Instant) -> Vec<(usize, LogAnswer)> {
        let is_due = self.sync_at.is_some_and(|at| at <= now);
        if self.touched.is_empty() && !is_due && self.retry_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            let books = self.books.iter().filter(|(_, book)| book.is_behind());
            self.touched.extend(books.map(|(name, _)| name.clone()));
        }
        let mut answers = Vec::new();
        let touched = std::mem::take(&mut self.touched);
        for name in &touched {
            self.write(name, now, &mut answers);
        }
        let awaited: Vec<&TopicName> = touched
            .iter()
            .filter(|name| self.is_awaited(name))
            .collect();
        self.sync_each(awaited, &mut answers);
        if is_due {
            self.sync_all(&mut answers);
        }
        for name in &touched {
            self.reclaim(name);
        }
        let is_behind = touched.iter().any(|name| {
            let book = self.books.get(name);
            book.is_some_and(Book::is_behind)
        });
        if is_behind {
            self.retry_at.get_or_insert(now + RETRY_AFTER);
        }
        let is_unsynced = touched.iter().any(|name| self.logs.is_unsynced(name));
        if is_unsynced {
            self.sync_at.get_or_insert(now + self.sync_timeout);
        }
        let books = self.books.values().filter(|_| self.retry_at.is_some());
        let waiting = books.map(Book::messages_waiting).sum();
        self.health.note_logs(self.logs.bytes(), waiting);
        answers
    }

    /// Writes what waits of a topic, as far as the disk takes it.
    fn write(&mut self, name: &TopicName, now: Instant, answers: &mut Vec<(usize, LogAnswer)>) {
        let Some(book) = self.books.get_mut(name) else {
            return;
        };
        let mut word = None;
        let may_try = book.retry_at.is_none_or(|at| at <= now);
        while let Some(page) = book.waiting.front_mut().filter(|_| may_try) {
            let written = page.write(name, &mut book.unwritten, &mut self.logs, self.anchor);
            let bytes = usize::try_from(page.batch.messages.memory()).unwrap_or(usize::MAX);
            // Steps that wait are nobody's failure more than the messages before them.
            if page.has_messages() || written.is_ok() {
                self.health.note(&written, bytes);
            }
            if let Err(error) = written {
                let was_behind = book.retry_at.replace(now + RETRY_AFTER).is_some();
                if matches!(error, DiskError::Share(_)) && !was_behind {
                    tracing::warn!(
                        "{name}: {error}: its publishers wait; consume what waits, or allow more with --disk-budget"
                    );
                }
                break;
            }
            book.retry_at = None;
            let Some(page) = book.waiting.pop_front() else {
                break;
            };
            self.health.note_appended(page.standings.len());
            match page.batch.is_synced {
                true => {
                    word = page.word().or(word);
                    book.unsynced.push(page);
                }
                false => answers.push(page.answer()),
            }
        }
        // A disk that takes nothing holds no consumer up: what they do makes room.
        let refused = book.waiting.iter().rev().find_map(Page::word);
        answers.extend(refused.or(word));
        if book.waiting.is_empty() {
            return;
        }
        book.let_known_steps_pass(name, &mut self.logs);
        if !book.unwritten.is_empty() {
            let entry = Entry {
                before: &book.unwritten,
                messages: std::iter::empty(),
                after: &[],
            };
            if self.logs.write(name, entry).is_ok() {
                book.unwritten.clear();
            }
        }
        // What is over makes room without being written.
        self.logs.remove_over(name);
    }

    /// Whether somebody waits until a topic is synced.
    fn is_awaited(&self, name: &TopicName) -> bool {
        let book = self.books.get(name);
        book.is_some_and(|book| book.unsynced.iter().any(Page::is_awaited))
    }

    /// Syncs these topics, at once what can be.
    fn sync_each(&mut self, names: Vec<&TopicName>, answers: &mut Vec<(usize, LogAnswer)>) {
        self.logs.sync_ahead(names.iter().copied());
        for name in names {
            self.sync(name, answers);
        }
    }

    fn sync_all(&mut self, answers: &mut Vec<(usize, LogAnswer)>) {
        self.sync_at = None;
        let unsynced = self
            .logs
            .topics()
            .filter(|name| self.logs.is_unsynced(name));
        let unsynced: BTreeSet<TopicName> = unsynced.cloned().collect();
        self.sync_each(unsynced.iter().collect(), answers);
        for name in &unsynced {
            self.reclaim(name);
        }
    }

    fn sync(&mut self, name: &TopicName, answers: &mut Vec<(usize, LogAnswer)>) {
        let Some(book) = self.books.get_mut(name) else {
            let synced = self.logs.sync(name);
            self.health.note(&synced, 0);
            return;
        };
        if book.is_to_repeat && book.repeat(name, &mut self.logs, self.anchor).is_err() {
            return;
        }
        book.is_to_repeat = false;
        let synced = self.logs.sync(name);
        self.health.note(&synced, 0);
        match synced {
            Ok(()) => {
                let messages = book.unsynced.iter().map(|page| page.standings.len());
                self.health.note_synced(messages.sum());
                answers.extend(book.unsynced.drain(..).map(|page| page.answer()));
            }
            Err(_) => {
                book.is_to_repeat = true;
            }
        }
    }

    fn reclaim(&mut self, name: &TopicName) {
        for _ in 0..PIECES_MAX {
            match self.logs.reclaim(name) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.health.note(&Err(error), 0);
                    return;
                }
            }
        }
    }

    /// The queues of a topic whose segments are in its log.
    pub(super) fn adopted(&mut self, name: &TopicName) -> &mut Vec<QueueName> {
        &mut self.books.entry(name.clone()).or_default().adopted
    }

    /// Whether something waits to be written.
    pub(super) fn is_any_behind(&self) -> bool {
        self.books.values().any(Book::is_behind)
    }

    /// Whether something of a topic waits to be written.
    pub(super) fn is_behind(&self, name: &TopicName) -> bool {
        self.books.get(name).is_some_and(Book::is_behind)
    }

    /// A segment that is in a log and nowhere else; none where it is not.
    pub(super) fn read(
        &mut self,
        queue: &QueueName,
        number: u64,
    ) -> Option<Result<Segment, DiskError>> {
        let ids = self.outside.get(queue)?.get(&number)?.clone();
        let read = self.logs.read(&queue.topic, queue.channel.as_ref(), &ids);
        Some(read.map(|(messages, damaged)| {
            if damaged > 0 {
                self.health.note_damages(damaged);
            }
            let messages = messages.iter().filter_map(restored);
            self.anchor.segment(messages, true)
        }))
    }

    /// A segment is in memory again. False where it was in no log.
    pub(super) fn forget(&mut self, queue: &QueueName, number: u64) -> bool {
        let Some(segments) = self.outside.get_mut(queue) else {
            return false;
        };
        let was_here = segments.remove(&number).is_some();
        if segments.is_empty() {
            self.outside.remove(queue);
            self.end_if_over(&queue.topic);
        }
        was_here
    }

    /// Nothing of a queue that is outside is needed any more.
    pub(super) fn forget_all(&mut self, queue: &QueueName) {
        if self.outside.remove(queue).is_some() {
            self.end_if_over(&queue.topic);
        }
    }

    /// Removes the log of a topic that is not durable any more, once no queue needs it.
    fn end_if_over(&mut self, name: &TopicName) {
        let is_over = self.books.get(name).is_some_and(|book| book.is_over);
        if is_over && !self.outside.keys().any(|queue| queue.topic == *name) {
            self.books.remove(name);
            self.logs.end(name);
        }
    }

    /// Writes and syncs all that there is, at the end; whether the disk took it.
    pub(super) fn end(&mut self) -> bool {
        let mut answers = Vec::new();
        let names: Vec<TopicName> = self.logs.topics().cloned().collect();
        for name in &names {
            self.write(name, Instant::MAX, &mut answers);
            self.sync(name, &mut answers);
        }
        let mut unsynced = names.iter().filter(|name| self.logs.is_unsynced(name));
        unsynced.next().is_none() && !self.is_any_behind()
    }

    /// Has all that waits tried again with the next [commit](Journal::commit).
    pub(super) fn touch_all(&mut self) {
        self.touched.extend(self.books.keys().cloned());
    }

    /// Topics with messages that the disk has not taken, and how many.
    pub(super) fn unwritten(&self) -> Vec<(TopicName, u64)> {
        let books = self.books.iter();
        let waiting = books.map(|(name, book)| (name.clone(), book.messages_waiting()));
        waiting.filter(|(_, messages)| *messages > 0).collect()
    }
}

/// A message as its queue had it when the broker ended.
fn restored(read: &ReadMessage) -> Option<Message<'_>> {
    let mut message = read.message()?;
    message.attempts = read.standing.attempts;
    if read.standing.due_ns != 0 {
        message.stamps.due_ns = read.standing.due_ns;
    }
    if read.standing.queue != OWN_QUEUE {
        message.has_paid = true;
    }
    Some(message)
}

#[cfg(test)]
mod tests;
