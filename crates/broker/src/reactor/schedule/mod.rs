//! Whose turn it is: topics as tasks of the messaging kernel.
//!
//! This is Tempo's kernel, applied to sockets: the event queue of a topic is what lies in the
//! socket buffers of its publishers and consumers. A readiness from epoll is an event of the topic
//! that the connection belongs to, and so is a topic that has something to pass on. The topic with
//! the most credits is served first: its connections are read, what they published is delivered,
//! and the topic is charged the time. One event is served whole; a slice of several ends early
//! where other topics wait.
//!
//! A topic has a task on every reactor that spends time on it: at home, and where connections that
//! publish to it are. Each reactor divides its own time by the CPU shares that topics declare, all
//! of which it knows. Connections that do not belong to a topic yet share one task, and so do
//! topics for which no task is left.
//!
//! Work that comes up in a topic's turn may be for another topic, since a connection may publish to
//! several. Then that topic pays.

mod line;
mod payer;
mod queues;
mod readiness;

use std::time::Duration;

use clock::Instant;
use kernel::{CpuShare, KernelError, Scheduler, SchedulerConfig, TaskId, TaskStats, Turn};
use rustc_hash::FxHashMap;
use topics::TopicKey;
use wire::TopicName;

use line::Line;
pub(in crate::reactor) use line::Whose;
use payer::Payer;
pub(in crate::reactor) use readiness::Readiness;

use crate::connection::ConnectionKey;

/// Tasks of one reactor; each takes some 400 bytes.
const TASKS_MAX: usize = 4096;

/// Tasks of topics elsewhere that no connection publishes to at the moment end when there may be more of them than this: a
/// connection that publishes to several topics in turn finds its tasks again.
const VACANT_MAX: usize = 256;

/// Tasks and their event queues.
#[derive(Debug)]
pub(in crate::reactor) struct Schedule {
    scheduler: Scheduler,
    /// By the task's number.
    lines: Vec<Line>,
    /// By the connection's slot.
    places: Vec<Place>,
    common: TaskId,
    /// Tasks of topics of other reactors.
    elsewhere: FxHashMap<TopicName, TaskId>,
    /// How many of them may be vacant, at most.
    vacant: usize,
    period: Duration,
    /// The task that was served last, and when another one was before it.
    served: TaskId,
    switched_at: Instant,
    payer: Payer,
    /// The task that was served last since [`Schedule::charge_rest`].
    last: Option<TaskId>,
    /// Tasks whose queues have events that the scheduler has not been told of.
    untold: Vec<TaskId>,
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
    pub(in crate::reactor) fn new(config: SchedulerConfig) -> Result<Schedule, KernelError> {
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
            elsewhere: FxHashMap::default(),
            vacant: 0,
            period: config.period,
            served: common,
            switched_at: Instant::ZERO,
            payer: Payer::new(common),
            last: None,
            untold: Vec::new(),
        };
        schedule.begin_line(common, Whose::Nobody);
        Ok(schedule)
    }

    /// Gives a topic of this reactor a task of its own, or the common one where none is left.
    pub(in crate::reactor) fn add(&mut self, topic: TopicKey) -> TaskId {
        self.begin(Whose::Here(topic)).unwrap_or(self.common)
    }

    /// The task of a topic of another reactor, and its name.
    pub(in crate::reactor) fn find_elsewhere(&self, topic: &str) -> Option<(TopicName, TaskId)> {
        let (name, &task) = self.elsewhere.get_key_value(topic)?;
        Some((name.clone(), task))
    }

    /// Gives a topic of another reactor, which has none here, a task of its own, or the common one where none is left.
    pub(in crate::reactor) fn add_elsewhere(&mut self, topic: &TopicName) -> TaskId {
        let Some(task) = self.begin(Whose::Elsewhere(topic.clone())) else {
            return self.common;
        };
        self.elsewhere.insert(topic.clone(), task);
        self.vacant += 1;
        task
    }

    /// The task of what belongs to no topic.
    pub(in crate::reactor) fn common(&self) -> TaskId {
        self.common
    }

    /// Changes what a task is entitled to.
    ///
    /// # Errors
    /// [`KernelError::Oversubscribed`]; [`KernelError::Full`] for a topic that has no task of its own.
    pub(in crate::reactor) fn set_share(
        &mut self,
        task: TaskId,
        share: Option<CpuShare>,
    ) -> Result<(), KernelError> {
        if task == self.common {
            return Err(KernelError::Full(TASKS_MAX));
        }
        self.scheduler.set_share(task, share)?;
        self.lines[task.index()].is_declared = share.is_some();
        Ok(())
    }

    /// Changes what a topic of another reactor is entitled to here.
    ///
    /// # Errors
    /// Those of [`Schedule::set_share`].
    pub(in crate::reactor) fn set_share_elsewhere(
        &mut self,
        topic: &TopicName,
        share: Option<CpuShare>,
    ) -> Result<(), KernelError> {
        let known = self.elsewhere.get(topic.as_str()).copied();
        let task = match (known, share) {
            (Some(task), _) => task,
            (None, None) => return Ok(()),
            (None, Some(_)) => self.add_elsewhere(topic),
        };
        let set = self.set_share(task, share);
        if self.lines[task.index()].is_vacant() {
            self.end(task);
        }
        set
    }

    /// Ends the task of a topic that is gone; its connections belong to no topic then, and what waits for it is done as
    /// what belongs to none. Says whether the topic had declared a share.
    pub(in crate::reactor) fn end(&mut self, task: TaskId) -> bool {
        if task == self.common || self.scheduler.remove(task).is_err() {
            return false;
        }
        let line = &mut self.lines[task.index()];
        if let Whose::Elsewhere(topic) = &line.whose {
            self.elsewhere.remove(topic.as_str());
        }
        line.whose = Whose::Nobody;
        line.topics.clear();
        let (ready, mail) = (
            std::mem::take(&mut line.ready),
            std::mem::take(&mut line.mail),
        );
        let connections = std::mem::take(&mut line.connections);
        let was_declared = std::mem::take(&mut line.is_declared);
        let common = self.common.index() as u16;
        if connections > 0 {
            self.lines[usize::from(common)].connections += connections;
            for place in &mut self.places {
                if usize::from(place.line) == task.index() {
                    place.line = common;
                }
            }
        }
        for key in ready {
            let waits_for = self.stop_waiting(key);
            self.notice(key, waits_for);
        }
        for mail in mail {
            self.notice_mail(self.common, mail);
        }
        was_declared
    }

    /// A connection has come; it belongs to no topic yet.
    pub(in crate::reactor) fn welcome(&mut self, key: ConnectionKey) {
        let place = Place {
            generation: key.generation(),
            line: self.common.index() as u16,
            waits_for: Readiness::default(),
        };
        if self.places.len() <= key.slot() {
            self.places.resize(key.slot() + 1, place);
        }
        self.places[key.slot()] = place;
        self.lines[usize::from(place.line)].connections += 1;
    }

    /// A connection goes: it belongs to nobody's task.
    pub(in crate::reactor) fn leave(&mut self, key: ConnectionKey) {
        let place = &mut self.places[key.slot()];
        if place.generation != key.generation() {
            return;
        }
        // What is still said of it finds nobody.
        place.generation = key.generation().wrapping_add(1);
        let line = &mut self.lines[usize::from(place.line)];
        line.connections -= 1;
        if line.is_vacant() {
            let task = line.task;
            self.end(task);
        }
    }

    /// From now on a connection is served with `task`.
    #[inline]
    pub(in crate::reactor) fn place(&mut self, key: ConnectionKey, task: Option<TaskId>) {
        let place = &mut self.places[key.slot()];
        if place.generation != key.generation() {
            return;
        }
        let line = task.unwrap_or(self.common).index();
        // There are fewer tasks than a u16 counts.
        let former = usize::from(std::mem::replace(&mut place.line, line as u16));
        self.lines[line].connections += 1;
        self.lines[former].connections -= 1;
        if self.lines[former].is_vacant() {
            self.vacant += 1;
            if self.vacant > VACANT_MAX {
                self.end_vacant();
            }
        }
    }

    /// The task that a connection is served with.
    #[inline]
    pub(in crate::reactor) fn task_at(&self, key: ConnectionKey) -> TaskId {
        let place = &self.places[key.slot()];
        match place.generation == key.generation() {
            true => self.lines[usize::from(place.line)].task,
            false => self.common,
        }
    }

    /// Whose turn it is.
    pub(in crate::reactor) fn take(&mut self, now: Instant) -> Option<Turn> {
        let turn = self.scheduler.take(now)?;
        if turn.task != self.served {
            self.served = turn.task;
            self.switched_at = now;
        }
        self.payer.begin(turn.task, now);
        Some(turn)
    }

    /// Ends a turn in which `events` events were taken out of the task's queue.
    pub(in crate::reactor) fn finish(&mut self, mut turn: Turn, events: usize, now: Instant) {
        self.pay(turn.task, now);
        turn.began += self.payer.end();
        self.last = Some(turn.task);
        self.scheduler.finish(turn, events, now);
    }

    /// Charges the work after the last turn to the task that had it: mostly post to other reactors.
    /// Work before the first turn is part of that.
    pub(in crate::reactor) fn charge_rest(&mut self, used: Duration) {
        if let Some(task) = self.last.take() {
            self.scheduler.charge(task, used);
        }
    }

    /// The task whose turn it is, or was last.
    #[inline]
    pub(in crate::reactor) fn whose_turn(&self) -> TaskId {
        self.payer.turn()
    }

    /// Whether a connection is served with the task whose turn it is.
    #[inline]
    pub(in crate::reactor) fn is_its_turn(&self, key: ConnectionKey) -> bool {
        usize::from(self.places[key.slot()].line) == self.payer.turn().index()
    }

    /// Whether `task` pays for what is done at present.
    #[inline]
    pub(in crate::reactor) fn is_paying(&self, task: TaskId) -> bool {
        self.payer.task() == task
    }

    /// Lets `task` pay for what is done from `now` on in this turn.
    pub(in crate::reactor) fn pay(&mut self, task: TaskId, now: Instant) {
        if let Some((other, used)) = self.payer.pay(task, now) {
            self.scheduler.charge(other, used);
        }
    }

    /// Whether `task` is to wait for a turn of its own: its credits are used up, and others have work.
    pub(in crate::reactor) fn is_to_wait(&self, task: TaskId, now: Instant) -> bool {
        self.is_shared(now) && self.scheduler.is_exhausted(task)
    }

    /// Notes that the queue of a topic was found full.
    pub(in crate::reactor) fn note_full(&self, task: TaskId) {
        self.scheduler.note_full(task);
    }

    /// Whether no task waits to be served.
    pub(in crate::reactor) fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Whether tasks compete: within the last period more than one was served.
    pub(in crate::reactor) fn is_shared(&self, now: Instant) -> bool {
        now - self.switched_at < self.period
    }

    /// Numbers of tasks, those that are gone included; see [`Schedule::task`].
    pub(in crate::reactor) fn tasks(&self) -> usize {
        self.lines.len()
    }

    /// How the task of that number has fared, with whom it is for; none where it is gone.
    pub(in crate::reactor) fn task(
        &self,
        number: usize,
        now: Instant,
    ) -> Option<(&Whose, TaskStats)> {
        let line = self.lines.get(number)?;
        Some((&line.whose, self.scheduler.stats_of(line.task, now)?))
    }

    /// Times that credits were given out anew.
    pub(in crate::reactor) fn periods(&self) -> u64 {
        self.scheduler.stats().periods
    }

    /// A new task; one that is vacant gives way where none is left.
    fn begin(&mut self, whose: Whose) -> Option<TaskId> {
        let task = self.scheduler.add(None).ok().or_else(|| {
            (self.vacant > 0).then(|| self.end_vacant());
            self.scheduler.add(None).ok()
        })?;
        self.begin_line(task, whose);
        Some(task)
    }

    fn end_vacant(&mut self) {
        self.vacant = 0;
        for number in 0..self.lines.len() {
            if self.lines[number].is_vacant() {
                self.end(self.lines[number].task);
            }
        }
    }

    fn begin_line(&mut self, task: TaskId, whose: Whose) {
        let line = Line::new(task, whose);
        match self.lines.get_mut(task.index()) {
            Some(former) => *former = line,
            None => {
                debug_assert_eq!(self.lines.len(), task.index(), "tasks are numbered densely");
                self.lines.push(line);
            }
        }
    }
}

#[cfg(test)]
mod tests;
