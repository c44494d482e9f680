//! Serving tasks: reading the connections of a topic, passing its messages on, and for how long at a time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Instant;
use kernel::{CpuShare, TaskStats, Turn};
use topics::TopicKey;
use wire::TopicName;

use super::door::LISTENER_TOKEN;
use super::hall::Hall;
use super::inbox::{Mail, TopicMail};
use super::schedule::Readiness;
use super::{Reactor, WAKER_TOKEN, probes, write};
use crate::config::ArrivalClock;
use crate::connection::{ConnectionKey, HOT_BYTES, Pause};
use crate::sys;

/// A slice reads so long at most before what it read is passed on and written, so that the first message read does not
/// wait for the last.
const SLICE_MAX: Duration = Duration::from_micros(400);

/// A slice while topics compete: some reads, for they are not interrupted. What they brought may be passed on later, when
/// the topic has nothing more to read, so that deliveries stay as large as they were.
const SLICE_SHARED_MAX: Duration = Duration::from_micros(12);

/// While topics compete, epoll is asked so often who has become ready: a topic with credits is not to wait behind what
/// was ready before.
const LOOK_INTERVAL: Duration = Duration::from_micros(25);

/// Messages of one topic that are passed on in one go.
const MESSAGES_MAX: usize = 1024;

/// The same while topics compete.
const MESSAGES_SHARED_MAX: usize = 64;

/// The tasks of a reactor.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// T: what shares are fractions of.
    pub period: Duration,
    /// Times that credits were given out anew.
    pub periods: u64,
    /// Time that the reactor was neither waiting for something to do nor resting.
    pub busy: Duration,
    /// One row per task.
    pub tasks: Vec<TaskRow>,
}

/// One task of a reactor.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// The topic that it serves; none: what belongs to no topic.
    pub topic: Option<String>,
    /// The topic lives on this reactor; elsewhere its task reads and answers publishers whose connections are there.
    pub is_home: bool,
    /// How it has fared.
    pub stats: TaskStats,
}

impl Reactor {
    /// Puts what epoll told into the queues of the topics that it belongs to.
    pub(super) fn gather_events(&mut self) {
        let events = std::mem::take(&mut self.events);
        for event in &events {
            match event.token {
                LISTENER_TOKEN => {
                    Hall {
                        shared: &self.shared,
                        time: &self.time,
                        post: &mut self.post,
                        peers: &mut self.peers,
                        topics: &mut self.topics,
                    }
                    .accept(&mut self.door);
                    // No topic is charged with it.
                    self.time.look();
                }
                WAKER_TOKEN => {
                    self.post.has_come = true;
                    let is_open = self.shared.open.load(Ordering::Acquire);
                    self.door.open(is_open, &self.peers.epoll);
                }
                token => {
                    let key = ConnectionKey::from_bits(token);
                    self.topics.schedule.notice(key, Readiness::of(event));
                }
            }
        }
        self.events = events;
    }

    /// Serves tasks until none has work, or it is time to look who else has become ready. Says whether one had.
    pub(super) fn serve(&mut self) -> bool {
        let mut has_served = false;
        self.topics.wake(self.time.now);
        while let Some(turn) = self.topics.schedule.take(self.time.now) {
            has_served = true;
            let events = self.serve_task(&turn);
            // Whatever gathered for peers of the topic is written at its expense.
            self.hall().write(|writer| writer.flush());
            self.time.look_for_receive();
            self.topics.schedule.finish(turn, events, self.time.now);
            self.topics.wake(self.time.now);
            let look_after = match self.topics.schedule.is_shared(self.time.now) {
                true => LOOK_INTERVAL,
                false => SLICE_MAX,
            };
            if self.time.now - self.time.turn_began >= look_after {
                break;
            }
        }
        has_served
    }

    /// Passes messages of a topic on and writes them to its consumers.
    pub(super) fn serve_topic(&mut self, topic: TopicKey) {
        let mut outlet = write::Outputs {
            peers: &mut self.peers,
            guests: &mut self.guests,
            with_arrivals: self.shared.config.arrival_clock == ArrivalClock::Kernel,
            now: self.time.now,
        };
        let messages_max = match self.topics.schedule.is_shared(self.time.now) {
            true => MESSAGES_SHARED_MAX,
            false => MESSAGES_MAX,
        };
        self.topics
            .table
            .run_topic(topic, self.time.now, messages_max, &mut outlet);
        self.hall().write(|writer| writer.flush_consumers());
        self.carry_out_effects();
    }

    /// Notes the share of a topic of another reactor. The home has accepted it, and the sums are the same here; where no task is
    /// left the topic's publishers are served with what belongs to no topic.
    pub(super) fn declare_elsewhere(&mut self, topic: &TopicName, share: Option<CpuShare>) {
        if let Err(error) = self.topics.schedule.set_share_elsewhere(topic, share) {
            let number = self.post.number;
            tracing::warn!("reactor {number}: publishers of {topic} have no share here: {error}");
        }
    }

    /// One turn of a task: reads its connections and carries out its post for a slice, then passes its messages on. Gives how
    /// many events that were.
    fn serve_task(&mut self, turn: &Turn) -> usize {
        let task = turn.task;
        let mut events = self.take_in(turn);
        self.topics.wake(self.time.now);
        let waited_since = self.topics.schedule.topics_wait_since(task);
        let is_patient = waited_since.is_some_and(|since| self.time.now - since < SLICE_MAX);
        if is_patient && self.topics.schedule.takes_in(task) {
            return events;
        }
        for _ in 0..self.topics.schedule.topics_waiting(task) {
            if let Some(topic) = self.topics.schedule.next_topic(task) {
                events += 1;
                self.serve_topic(topic);
                // What was left over goes on with the next turn, whatever there is to read.
                self.topics.notice_dirty(Instant::ZERO);
                self.resume_waiting();
            }
        }
        events
    }

    /// Reads connections and carries out post, one of each in turn, for a slice.
    fn take_in(&mut self, turn: &Turn) -> usize {
        let task = turn.task;
        let slice = match self.topics.schedule.is_shared(turn.began) {
            true => SLICE_SHARED_MAX,
            false => SLICE_MAX,
        };
        let mut events = 0;
        loop {
            let ready = self.topics.schedule.next_ready(task);
            if let Some((key, readiness)) = ready {
                events += 1;
                if let Some(next) = self.topics.schedule.peek_ready(task)
                    && let Some(place) = self.peers.connections.place(next)
                {
                    // The system call in between gives the next one's memory time to arrive.
                    sys::prefetch(place, HOT_BYTES);
                }
                self.serve_connection(key, readiness);
            }
            if let Some(mail) = self.topics.schedule.next_mail(task) {
                match self.carry_out(mail) {
                    Some(rest) => self.topics.schedule.put_back(task, rest),
                    None => events += 1,
                }
                self.time.look();
            } else if ready.is_none() {
                break;
            }
            // A release that fell due meanwhile does not wait for the rest of the slice either.
            if self.topics.is_wakeup_due(self.time.now) || self.time.now - turn.began >= slice {
                break;
            }
        }
        events
    }

    /// Does what post asks for a topic; gives back what is left of it to be done.
    fn carry_out(&mut self, mail: TopicMail) -> Option<TopicMail> {
        match mail {
            TopicMail::Publish(batch) => self.publish_batch(batch).map(TopicMail::Publish),
            TopicMail::Answered(batch) => self.settle_batch(batch).map(TopicMail::Answered),
            TopicMail::Settled(settled) => {
                self.settle_one(settled);
                None
            }
            TopicMail::Request(topic, request) => {
                self.publish_request(&topic, *request);
                None
            }
            TopicMail::Order(said) => {
                let longest = self.shared.config.max_msg_timeout;
                let (table, now) = (&mut self.topics.table, self.time.now);
                if let Some((to, answer)) = self.guests.carry_out(said, table, longest, now) {
                    self.post.send(to, Mail::Ordered(answer));
                }
                None
            }
            TopicMail::Deliveries(batch) => {
                self.hall().put_deliveries(batch);
                None
            }
            TopicMail::Room(topic) => {
                self.topics.roomy.push(topic);
                self.resume_waiting();
                None
            }
        }
    }

    fn serve_connection(&mut self, key: ConnectionKey, readiness: Readiness) {
        if !self.topics.schedule.is_its_turn(key) {
            // It has begun to publish to another topic since it was put into this queue.
            return self.topics.schedule.notice(key, readiness);
        }
        if readiness.has(Readiness::RESUMED) {
            self.reconsider(key);
        }
        if readiness.has(Readiness::DUE) {
            self.peers.mark_dirty(key);
        }
        let has_failed = readiness.has(Readiness::ERROR)
            && !self
                .peers
                .connections
                .get_mut(key)
                .is_some_and(|connection| {
                    let table = &mut self.topics.table;
                    probes::take_ack_stamps(connection, table, &self.time.stamps)
                });
        if readiness.has(Readiness::WRITABLE) || has_failed {
            self.hall().write(|writer| writer.write(key));
        }
        let ends = readiness.has(Readiness::CLOSING) || has_failed;
        // It may have been paused after epoll told; then epoll tells again when it is watched again.
        let may_read = |pause: Pause| pause == Pause::No || ends;
        let may_read = self
            .peers
            .connections
            .get(key)
            .is_some_and(|connection| may_read(connection.pause));
        if (readiness.has(Readiness::READABLE) || has_failed) && may_read {
            self.read(key);
            if ends {
                self.topics.schedule.notice(key, Readiness::READABLE);
            }
        }
        // While the socket is in the cache; at the end of the turn it would not be.
        self.hall().write(|writer| writer.flush_connection(key));
        self.topics.work_for_turn(&mut self.time);
    }
}
