//! Whose turn it is: topics as tasks of the messaging kernel.
//!
//! The kernel of Tempo, applied to sockets: the event queue of a topic is what lies in the socket buffers of its publishers
//! and consumers. A readiness that epoll tells is an event of the topic that the connection belongs to, and so is a topic that
//! has something to pass on. The topic with the most credits is served first: its connections are read, what they
//! published is delivered, and the time that took is charged to it. One event is served whole; a slice of several ends
//! early where other topics wait.
//!
//! Connections that belong to no topic of this reactor (new ones, and those that publish to a topic of another
//! reactor) share one task. So do topics for which no task is left.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use kernel::{KernelError, Scheduler, SchedulerConfig, Share, TaskId, TaskStats, Turn};

use crate::connection::ConnectionKey;
use crate::sys::Event;
use crate::topic::TopicKey;

/// Tasks of one reactor; each is of some 400 bytes.
const TASKS_MAX: usize = 4096;

/// What a connection is to be served for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness(u8);

/// Tasks and their event queues.
#[derive(Debug)]
pub(super) struct Schedule {
    scheduler: Scheduler,
    /// By the task's number.
    lines: Vec<Line>,
    /// By the connection's slot.
    places: Vec<Place>,
    common: TaskId,
    period: Duration,
    /// The task that was served last, and when another one was before it.
    served: TaskId,
    switched_at: Instant,
    /// Tasks whose queues have events that the scheduler has not been told of.
    untold: Vec<TaskId>,
}

/// The event queue of one task. Bounded by the connections and topics there may be: each stands in one queue, once.
#[derive(Debug)]
struct Line {
    task: TaskId,
    topic: Option<TopicKey>,
    ready: VecDeque<ConnectionKey>,
    topics: VecDeque<TopicKey>,
    /// Since when the first of them has had something to do.
    topics_since: Instant,
    /// Events that the scheduler has not been told of: it is told of all at once.
    untold: usize,
}

/// Where a connection belongs, and what it waits for in the queue there. With thousands of connections each place looked at may
/// be a cache miss: eight of them share a line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Place {
    /// Of the connection: another one may have had the slot before.
    generation: u32,
    line: u16,
    waits_for: Readiness,
}

impl Schedule {
    pub(super) fn new(config: SchedulerConfig) -> Result<Schedule, KernelError> {
        let scheduler = Scheduler::new(SchedulerConfig {
            tasks_max: TASKS_MAX,
            ..config
        })?;
        let common = scheduler.add(None)?;
        let mut schedule = Schedule {
            scheduler,
            lines: Vec::new(),
            places: Vec::new(),
            common,
            period: config.period,
            served: common,
            switched_at: Instant::ZERO,
            untold: Vec::new(),
        };
        schedule.begin_line(common, None);
        Ok(schedule)
    }

    /// Gives a topic a task of its own, or the common one where none is left.
    pub(super) fn add(&mut self, topic: TopicKey) -> TaskId {
        match self.scheduler.add(None) {
            Ok(task) => {
                self.begin_line(task, Some(topic));
                task
            }
            Err(_) => self.common,
        }
    }

    /// Changes what a task is entitled to.
    ///
    /// # Errors
    /// [`KernelError::Oversubscribed`]; [`KernelError::Full`] for a topic that has no task of its own.
    pub(super) fn set_share(
        &mut self,
        task: TaskId,
        share: Option<Share>,
    ) -> Result<(), KernelError> {
        if task == self.common {
            return Err(KernelError::Full(TASKS_MAX));
        }
        self.scheduler.set_share(task, share)
    }

    /// Ends the task of a topic that is gone; its connections belong to no topic then.
    pub(super) fn end(&mut self, task: TaskId) {
        if task == self.common || self.scheduler.remove(task).is_err() {
            return;
        }
        let line = &mut self.lines[task.index()];
        line.topic = None;
        line.topics.clear();
        let ready = std::mem::take(&mut line.ready);
        let common = self.common.index() as u16;
        for place in &mut self.places {
            if usize::from(place.line) == task.index() {
                place.line = common;
            }
        }
        for key in ready {
            let waits_for = self.stop_waiting(key);
            self.notice(key, waits_for);
        }
    }

    /// A connection has come; it belongs to no topic yet.
    pub(super) fn welcome(&mut self, key: ConnectionKey) {
        let place = Place {
            generation: key.generation(),
            line: self.common.index() as u16,
            waits_for: Readiness::default(),
        };
        if self.places.len() <= key.slot() {
            self.places.resize(key.slot() + 1, place);
        }
        self.places[key.slot()] = place;
    }

    /// From now on a connection is served with `task`.
    #[inline]
    pub(super) fn place(&mut self, key: ConnectionKey, task: Option<TaskId>) {
        let place = &mut self.places[key.slot()];
        if place.generation == key.generation() {
            // There are fewer tasks than a u16 counts.
            place.line = task.unwrap_or(self.common).index() as u16;
        }
    }

    /// Puts a connection into the queue of its task, unless it stands there: then it is served for both. One that is gone
    /// is not served.
    pub(super) fn notice(&mut self, key: ConnectionKey, readiness: Readiness) {
        let place = &mut self.places[key.slot()];
        if place.generation != key.generation() {
            return;
        }
        let is_queued = place.waits_for.has(Readiness::QUEUED);
        place.waits_for.add(readiness);
        if !is_queued {
            place.waits_for.add(Readiness::QUEUED);
            let line = &mut self.lines[usize::from(place.line)];
            line.ready.push_back(key);
            let task = line.task;
            self.note_event(task);
        }
    }

    /// Whether a connection stands in a queue.
    pub(super) fn is_waiting(&self, key: ConnectionKey) -> bool {
        let place = &self.places[key.slot()];
        place.generation == key.generation() && place.waits_for.has(Readiness::QUEUED)
    }

    /// Puts a topic that has had something to do since `since` into the queue of its task.
    pub(super) fn notice_topic(&mut self, topic: TopicKey, task: TaskId, since: Instant) {
        let line = &mut self.lines[task.index()];
        line.topics_since = match line.topics.is_empty() {
            true => since,
            false => line.topics_since.min(since),
        };
        line.topics.push_back(topic);
        self.note_event(task);
    }

    /// Tells the scheduler of what has been noticed; to be called before it is asked, and before a turn is finished in which
    /// some of that was served.
    pub(super) fn tell(&mut self, now: Instant) {
        while let Some(task) = self.untold.pop() {
            let events = std::mem::take(&mut self.lines[task.index()].untold);
            self.scheduler.post(task, events, now);
        }
    }

    /// Whose turn it is.
    pub(super) fn take(&mut self, now: Instant) -> Option<Turn> {
        let turn = self.scheduler.take(now)?;
        if turn.task != self.served {
            self.served = turn.task;
            self.switched_at = now;
        }
        Some(turn)
    }

    /// Ends a turn in which `events` events were taken out of the task's queue.
    pub(super) fn finish(&mut self, turn: Turn, events: usize, now: Instant) {
        self.scheduler.finish(turn, events, now);
    }

    /// The next connection in the queue of `task`, with what it waits for: nothing where it is gone since.
    pub(super) fn next_ready(&mut self, task: TaskId) -> Option<(ConnectionKey, Readiness)> {
        let key = self.lines[task.index()].ready.pop_front()?;
        Some((key, self.stop_waiting(key)))
    }

    /// The connection that [`Schedule::next_ready`] gives next.
    pub(super) fn peek_ready(&self, task: TaskId) -> Option<ConnectionKey> {
        self.lines[task.index()].ready.front().copied()
    }

    /// The next topic in the queue of `task`.
    pub(super) fn next_topic(&mut self, task: TaskId) -> Option<TopicKey> {
        self.lines[task.index()].topics.pop_front()
    }

    /// Since when topics wait in the queue of `task`, if any do.
    pub(super) fn topics_wait_since(&self, task: TaskId) -> Option<Instant> {
        let line = &self.lines[task.index()];
        (!line.topics.is_empty()).then_some(line.topics_since)
    }

    /// Topics in the queue of `task`.
    pub(super) fn topics_waiting(&self, task: TaskId) -> usize {
        self.lines[task.index()].topics.len()
    }

    /// Notes that the queue of a topic was found full.
    pub(super) fn note_full(&self, task: TaskId) {
        self.scheduler.note_full(task);
    }

    /// Whether no task waits to be served.
    pub(super) fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Whether tasks compete: within the last period more than one was served.
    pub(super) fn is_shared(&self, now: Instant) -> bool {
        now - self.switched_at < self.period
    }

    /// How every task has fared, with the topic that it is for.
    pub(super) fn tasks(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (Option<TopicKey>, TaskStats)> {
        self.lines
            .iter()
            .filter_map(move |line| Some((line.topic, self.scheduler.stats_of(line.task, now)?)))
    }

    /// Times that credits were given out anew.
    pub(super) fn periods(&self) -> u64 {
        self.scheduler.stats().periods
    }

    fn note_event(&mut self, task: TaskId) {
        let line = &mut self.lines[task.index()];
        if line.untold == 0 {
            self.untold.push(task);
        }
        line.untold += 1;
    }

    fn stop_waiting(&mut self, key: ConnectionKey) -> Readiness {
        let place = &mut self.places[key.slot()];
        match place.generation == key.generation() {
            true => std::mem::take(&mut place.waits_for),
            false => Readiness::default(),
        }
    }

    fn begin_line(&mut self, task: TaskId, topic: Option<TopicKey>) {
        let line = Line {
            task,
            topic,
            ready: VecDeque::new(),
            topics: VecDeque::new(),
            topics_since: Instant::ZERO,
            untold: 0,
        };
        match self.lines.get_mut(task.index()) {
            Some(former) => *former = line,
            None => {
                debug_assert_eq!(self.lines.len(), task.index(), "tasks are numbered densely");
                self.lines.push(line);
            }
        }
    }
}

impl Readiness {
    /// It is in a queue, whatever for.
    const QUEUED: Readiness = Readiness(1);
    /// There is something to read.
    pub(super) const READABLE: Readiness = Readiness(2);
    /// There is room to write.
    pub(super) const WRITABLE: Readiness = Readiness(4);
    /// The peer has sent its end.
    pub(super) const CLOSING: Readiness = Readiness(8);
    /// It failed, or something lies in its error queue.
    pub(super) const ERROR: Readiness = Readiness(16);
    /// What it has sent already may be executed now.
    pub(super) const RESUMED: Readiness = Readiness(32);

    /// What epoll told.
    pub(super) fn of(event: &Event) -> Readiness {
        let told = [
            (event.readable, Readiness::READABLE),
            (event.writable, Readiness::WRITABLE),
            (event.closing, Readiness::CLOSING),
            (event.error, Readiness::ERROR),
        ];
        let bits = told.iter().map(|&(is, bit)| u8::from(is) * bit.0).sum();
        Readiness(bits)
    }

    /// Whether that is among it.
    pub(super) fn has(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}
