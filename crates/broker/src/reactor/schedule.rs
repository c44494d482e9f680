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

use clock::Instant;
use kernel::{KernelError, Scheduler, SchedulerConfig, Share, TaskId, TaskStats, Turn};

use crate::connection::ConnectionKey;
use crate::sys::Event;
use crate::topic::TopicKey;

/// Tasks of one reactor; each is of some 400 bytes.
const TASKS_MAX: usize = 4096;

/// What a connection is to be served for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// There is something to read.
    pub(super) readable: bool,
    /// There is room to write.
    pub(super) writable: bool,
    /// The peer has sent its end.
    pub(super) closing: bool,
    /// It failed, or something lies in its error queue.
    pub(super) error: bool,
    /// What it has sent already may be executed now.
    pub(super) resumed: bool,
}

/// Tasks and their event queues.
#[derive(Debug)]
pub(super) struct Schedule {
    scheduler: Scheduler,
    /// By the task's number.
    lines: Vec<Line>,
    /// By the connection's slot.
    places: Vec<Place>,
    common: TaskId,
    topics: usize,
    /// Tasks whose queues have events that the scheduler has not been told of.
    untold: Vec<TaskId>,
}

/// The event queue of one task. Bounded by the connections and topics there may be: each stands in one queue, once.
#[derive(Debug)]
struct Line {
    task: TaskId,
    topic: Option<TopicKey>,
    /// The task has ended; its number waits for another one.
    is_over: bool,
    ready: VecDeque<ConnectionKey>,
    topics: VecDeque<TopicKey>,
    /// Events that the scheduler has not been told of: it is told of all at once.
    untold: usize,
}

/// Where a connection belongs, and what it waits for in the queue there.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Whose place it is: another connection may have had the slot before.
    connection: ConnectionKey,
    task: TaskId,
    waits_for: Option<Readiness>,
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
            topics: 0,
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
                self.topics += 1;
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
        self.topics -= 1;
        let line = &mut self.lines[task.index()];
        line.topic = None;
        line.is_over = true;
        line.topics.clear();
        let ready = std::mem::take(&mut line.ready);
        for key in ready {
            if let Some(waits_for) = self.stop_waiting(key) {
                self.notice(key, waits_for);
            }
        }
    }

    /// A connection has come; it belongs to no topic yet.
    pub(super) fn welcome(&mut self, key: ConnectionKey) {
        let place = Place {
            connection: key,
            task: self.common,
            waits_for: None,
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
        if place.connection == key {
            place.task = task.unwrap_or(self.common);
        }
    }

    /// Puts a connection into the queue of its task, unless it stands there: then it is served for both. One that is gone
    /// is not served.
    pub(super) fn notice(&mut self, key: ConnectionKey, readiness: Readiness) {
        let place = &mut self.places[key.slot()];
        if place.connection != key {
            return;
        }
        if let Some(waits_for) = &mut place.waits_for {
            waits_for.add(readiness);
            return;
        }
        place.waits_for = Some(readiness);
        let line = &self.lines[place.task.index()];
        if line.task != place.task || line.is_over {
            // Its topic is gone, and perhaps another one has the number.
            place.task = self.common;
        }
        let task = place.task;
        self.lines[task.index()].ready.push_back(key);
        self.note_event(task);
    }

    /// Puts a topic that has something to do into the queue of its task.
    pub(super) fn notice_topic(&mut self, topic: TopicKey, task: TaskId) {
        self.lines[task.index()].topics.push_back(topic);
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
        self.scheduler.take(now)
    }

    /// Ends a turn in which `events` events were taken out of the task's queue.
    pub(super) fn finish(&mut self, turn: Turn, events: usize, now: Instant) {
        self.scheduler.finish(turn, events, now);
    }

    /// The next connection in the queue of `task`, with what it waits for: nothing where it is gone since.
    pub(super) fn next_ready(&mut self, task: TaskId) -> Option<(ConnectionKey, Readiness)> {
        let key = self.lines[task.index()].ready.pop_front()?;
        Some((key, self.stop_waiting(key).unwrap_or_default()))
    }

    /// The connection that [`Schedule::next_ready`] gives next.
    pub(super) fn peek_ready(&self, task: TaskId) -> Option<ConnectionKey> {
        self.lines[task.index()].ready.front().copied()
    }

    /// The next topic in the queue of `task`.
    pub(super) fn next_topic(&mut self, task: TaskId) -> Option<TopicKey> {
        self.lines[task.index()].topics.pop_front()
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

    /// Whether somebody waits while a task is served.
    pub(super) fn is_contended(&self) -> bool {
        self.is_shared() && !self.is_idle()
    }

    /// Whether topics compete here.
    pub(super) fn is_shared(&self) -> bool {
        self.topics > 1
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

    fn stop_waiting(&mut self, key: ConnectionKey) -> Option<Readiness> {
        let place = &mut self.places[key.slot()];
        place.waits_for.take_if(|_| place.connection == key)
    }

    fn begin_line(&mut self, task: TaskId, topic: Option<TopicKey>) {
        let line = Line {
            task,
            topic,
            is_over: false,
            ready: VecDeque::new(),
            topics: VecDeque::new(),
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
    /// What it has sent already may be executed now.
    pub(super) const RESUMED: Readiness = Readiness {
        readable: false,
        writable: false,
        closing: false,
        error: false,
        resumed: true,
    };

    /// There is more to read.
    pub(super) const READABLE: Readiness = Readiness {
        readable: true,
        resumed: false,
        ..Readiness::RESUMED
    };

    /// What epoll told.
    pub(super) fn of(event: &Event) -> Readiness {
        Readiness {
            readable: event.readable,
            writable: event.writable,
            closing: event.closing,
            error: event.error,
            resumed: false,
        }
    }

    fn add(&mut self, other: Readiness) {
        self.readable |= other.readable;
        self.writable |= other.writable;
        self.closing |= other.closing;
        self.error |= other.error;
        self.resumed |= other.resumed;
    }
}
