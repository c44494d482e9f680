//! The queues of all tasks: connections that have become ready, post, topics that have something to
//! pass on.

use clock::Instant;
use kernel::TaskId;
use topics::TopicKey;

use super::Schedule;
use super::line::{Line, Whose};
use super::readiness::Readiness;
use crate::connection::ConnectionKey;
use crate::reactor::inbox::TopicMail;

impl Schedule {
    /// Puts a connection into the queue of its task, unless it stands there: then it is served for both. One that is gone
    /// is not served.
    pub(in crate::reactor) fn notice(&mut self, key: ConnectionKey, readiness: Readiness) {
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
    pub(in crate::reactor) fn is_waiting(&self, key: ConnectionKey) -> bool {
        let place = &self.places[key.slot()];
        place.generation == key.generation() && place.waits_for.has(Readiness::QUEUED)
    }

    /// Puts a topic that has had something to do since `since` into the queue of its task.
    pub(in crate::reactor) fn notice_topic(
        &mut self,
        topic: TopicKey,
        task: TaskId,
        since: Instant,
    ) {
        let line = &mut self.lines[task.index()];
        line.topics_since = match line.topics.is_empty() {
            true => since,
            false => line.topics_since.min(since),
        };
        line.topics.push_back(topic);
        self.note_event(task);
    }

    /// Puts post into the queue of `task`; into that of no topic where the task is gone.
    pub(in crate::reactor) fn notice_mail(&mut self, task: TaskId, mail: TopicMail) {
        let is_its = |line: &Line| line.task == task && line.whose != Whose::Nobody;
        let task = match self.lines.get(task.index()).is_some_and(is_its) {
            true => task,
            false => self.common,
        };
        self.lines[task.index()].mail.push_back(mail);
        self.note_event(task);
    }

    /// Tells the scheduler of what has been noticed; to be called before it is asked, and before a turn is finished in which
    /// some of that was served.
    pub(in crate::reactor) fn tell(&mut self, now: Instant) {
        while let Some(task) = self.untold.pop() {
            let events = std::mem::take(&mut self.lines[task.index()].untold);
            self.scheduler.post(task, events, now);
        }
    }

    /// The next connection in the queue of `task`, with what it waits for: nothing where it is gone since.
    pub(in crate::reactor) fn next_ready(
        &mut self,
        task: TaskId,
    ) -> Option<(ConnectionKey, Readiness)> {
        let key = self.lines[task.index()].ready.pop_front()?;
        Some((key, self.stop_waiting(key)))
    }

    /// The connection that [`Schedule::next_ready`] gives next.
    pub(in crate::reactor) fn peek_ready(&self, task: TaskId) -> Option<ConnectionKey> {
        self.lines[task.index()].ready.front().copied()
    }

    /// Whether connections or post wait in the queue of `task`.
    pub(in crate::reactor) fn takes_in(&self, task: TaskId) -> bool {
        let line = &self.lines[task.index()];
        !line.ready.is_empty() || !line.mail.is_empty()
    }

    /// The first post in the queue of `task`.
    pub(in crate::reactor) fn next_mail(&mut self, task: TaskId) -> Option<TopicMail> {
        self.lines[task.index()].mail.pop_front()
    }

    /// Puts post back that is not done.
    pub(in crate::reactor) fn put_back(&mut self, task: TaskId, mail: TopicMail) {
        self.lines[task.index()].mail.push_front(mail);
    }

    /// The next topic in the queue of `task`.
    pub(in crate::reactor) fn next_topic(&mut self, task: TaskId) -> Option<TopicKey> {
        self.lines[task.index()].topics.pop_front()
    }

    /// Since when topics wait in the queue of `task`, if any do.
    pub(in crate::reactor) fn topics_wait_since(&self, task: TaskId) -> Option<Instant> {
        let line = &self.lines[task.index()];
        (!line.topics.is_empty()).then_some(line.topics_since)
    }

    /// Topics in the queue of `task`.
    pub(in crate::reactor) fn topics_waiting(&self, task: TaskId) -> usize {
        self.lines[task.index()].topics.len()
    }

    fn note_event(&mut self, task: TaskId) {
        let line = &mut self.lines[task.index()];
        if line.untold == 0 {
            self.untold.push(task);
        }
        line.untold += 1;
    }

    pub(super) fn stop_waiting(&mut self, key: ConnectionKey) -> Readiness {
        let place = &mut self.places[key.slot()];
        match place.generation == key.generation() {
            true => std::mem::take(&mut place.waits_for),
            false => Readiness::default(),
        }
    }
}
