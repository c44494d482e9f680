//! The tasks of topics: which have work, and which pays for it.

use std::net::IpAddr;

use clock::Instant;
use kernel::TaskId;
use topics::{Refusal, TopicKey};
use wire::TopicName;

use super::Hosted;
use crate::connection::ConnectionKey;
use crate::reactor::inbox::TopicMail;
use crate::reactor::time::Time;

impl Hosted {
    /// Puts topics into their queues that something has happened to or for which something is due.
    pub(in crate::reactor) fn wake(&mut self, now: Instant) {
        while let Some(topic) = self.roomy.pop() {
            if let Some(task) = self.task_of(topic) {
                self.schedule.notice_mail(task, TopicMail::Room(topic));
            }
        }
        self.notice_dirty(now);
        if self.is_wakeup_due(now) {
            self.table.wake(now);
            // What is due is as good as waiting since long.
            self.notice_dirty(Instant::ZERO);
        }
        self.schedule.tell(now);
    }

    /// Puts topics that have had something to do since then into their queues.
    pub(in crate::reactor) fn notice_dirty(&mut self, since: Instant) {
        while let Some(topic) = self.table.pop_dirty() {
            if let Some(task) = self.task_of(topic) {
                self.schedule.notice_topic(topic, task, since);
            }
        }
    }

    /// The topic of that name; one that has to be made counts against whom `maker` says.
    pub(in crate::reactor) fn find_or_make(
        &mut self,
        topic: &str,
        now: Instant,
        maker: impl FnOnce() -> Option<IpAddr>,
    ) -> Result<TopicKey, Refusal> {
        if let Some(key) = self.table.find(topic) {
            return Ok(key);
        }
        self.table.make_for(maker(), now);
        let made = self.table.find_or_create(topic);
        self.table.make_for(None, now);
        made
    }

    /// The task of a topic, made if need be.
    pub(in crate::reactor) fn task_of(&mut self, topic: TopicKey) -> Option<TaskId> {
        let known = self.table.topic(topic)?.task;
        Some(known.unwrap_or_else(|| {
            let task = self.schedule.add(topic);
            self.table.set_task(topic, task);
            task
        }))
    }

    /// The task of a topic of this reactor by its name, both made if need be, the topic for `maker`; the common one where no more may
    /// be made.
    pub(in crate::reactor) fn task_of_name(
        &mut self,
        topic: &TopicName,
        maker: Option<IpAddr>,
        now: Instant,
    ) -> TaskId {
        let key = match self.table.find(topic.as_str()) {
            // Who publishes to it is refused and counted then, once.
            None if !self.table.may_make_for(maker, now) => None,
            None => self.find_or_make(topic.as_str(), now, || maker).ok(),
            known => known,
        };
        let task = key.and_then(|key| self.task_of(key));
        task.unwrap_or(self.schedule.common())
    }

    /// From now on what a connection sends is served with `topic`, or with what belongs to no topic.
    pub(in crate::reactor) fn place(&mut self, key: ConnectionKey, topic: Option<TopicKey>) {
        let task = topic.and_then(|topic| self.task_of(topic));
        self.schedule.place(key, task);
    }

    /// From now on the work of this turn is for `task`.
    #[inline]
    pub(in crate::reactor) fn work_for(&mut self, task: TaskId, time: &mut Time) {
        if !self.schedule.is_paying(task) {
            time.look();
            self.schedule.pay(task, time.now);
        }
    }

    /// From now on the work of this turn is for the task whose turn it is.
    pub(in crate::reactor) fn work_for_turn(&mut self, time: &mut Time) {
        self.work_for(self.schedule.whose_turn(), time);
    }

    /// Notes that a queue of a topic was found full.
    pub(in crate::reactor) fn note_full(&mut self, topic: TopicKey) {
        if let Some(task) = self.task_of(topic) {
            self.schedule.note_full(task);
        }
    }

    /// Whether a wake-up of a topic is due.
    pub(in crate::reactor) fn is_wakeup_due(&self, now: Instant) -> bool {
        self.table.next_wakeup().is_some_and(|at| at <= now)
    }
}
