//! Serves tasks: reads the connections of a topic, passes its messages on, and bounds the time of
//! each turn.

use std::time::Duration;

use clock::Instant;
use kernel::{TaskStats, Turn};
use topics::TopicKey;

use super::guests::Guests;
use super::hall::Hall;
use super::inbox::{Mail, TopicMail};
use super::probes;
use super::read::{Intake, Reader};
use super::relay::Relay;
use super::schedule::Readiness;
use super::waiting::WaitingPublish;
use crate::backlog::Orders;
use crate::connection::{ConnectionKey, HOT_BYTES, Pause};
use crate::sys;

/// A slice reads so long at most before what it read is passed on and written, so that the first message read does not
/// wait for the last.
const SLICE_MAX: Duration = Duration::from_micros(400);

/// A slice while topics compete: several reads, which are not interrupted. Their messages may be
/// passed on later, when the topic has nothing more to read, so that deliveries stay as large as
/// they were.
const SLICE_SHARED_MAX: Duration = Duration::from_micros(12);

/// While topics compete, epoll is asked at this interval who has become ready, so that a topic with
/// credits does not wait behind those that were ready before.
const LOOK_INTERVAL: Duration = Duration::from_micros(25);

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

/// Serves the tasks of a reactor; borrows what any of them may need.
pub(super) struct Dispatcher<'a> {
    pub(super) hall: &'a mut Hall,
    pub(super) guests: &'a mut Guests,
    pub(super) backlog: Option<&'a Orders>,
    pub(super) intake: &'a mut Intake,
}

impl Dispatcher<'_> {
    /// Serves tasks until none has work, or it is time to look who else has become ready. Says whether one had.
    pub(super) fn serve(&mut self) -> bool {
        let mut has_served = false;
        self.hall.topics.wake(self.hall.time.now);
        while let Some(turn) = self.hall.topics.schedule.take(self.hall.time.now) {
            has_served = true;
            let events = self.serve_task(&turn);
            // Whatever gathered for peers of the topic is written at its expense.
            self.hall.write(|writer| writer.flush());
            self.hall.time.look_for_receive();
            self.hall
                .topics
                .schedule
                .finish(turn, events, self.hall.time.now);
            self.hall.topics.wake(self.hall.time.now);
            let look_after = match self.hall.topics.schedule.is_shared(self.hall.time.now) {
                true => LOOK_INTERVAL,
                false => SLICE_MAX,
            };
            if self.hall.time.now - self.hall.time.turn_began >= look_after {
                break;
            }
        }
        has_served
    }

    /// One turn of a task: reads its connections and carries out its post for a slice, then passes its messages on. Gives how
    /// many events that were.
    fn serve_task(&mut self, turn: &Turn) -> usize {
        let task = turn.task;
        let mut events = self.take_in(turn);
        self.hall.topics.wake(self.hall.time.now);
        let waited_since = self.hall.topics.schedule.topics_wait_since(task);
        let is_patient = waited_since.is_some_and(|since| self.hall.time.now - since < SLICE_MAX);
        if is_patient && self.hall.topics.schedule.takes_in(task) {
            return events;
        }
        for _ in 0..self.hall.topics.schedule.topics_waiting(task) {
            if let Some(topic) = self.hall.topics.schedule.next_topic(task) {
                events += 1;
                self.relay().serve_topic(topic);
                // What was left over goes on with the next turn, whatever there is to read.
                self.hall.topics.notice_dirty(Instant::ZERO);
                self.resume_waiting();
            }
        }
        events
    }

    /// Reads connections and carries out post, one of each in turn, for a slice.
    fn take_in(&mut self, turn: &Turn) -> usize {
        let task = turn.task;
        let slice = match self.hall.topics.schedule.is_shared(turn.began) {
            true => SLICE_SHARED_MAX,
            false => SLICE_MAX,
        };
        let mut events = 0;
        loop {
            let ready = self.hall.topics.schedule.next_ready(task);
            if let Some((key, readiness)) = ready {
                events += 1;
                if let Some(next) = self.hall.topics.schedule.peek_ready(task)
                    && let Some(place) = self.hall.peers.connections.place(next)
                {
                    // The system call in between gives the next one's memory time to arrive.
                    sys::prefetch(place, HOT_BYTES);
                }
                self.serve_connection(key, readiness);
            }
            if let Some(mail) = self.hall.topics.schedule.next_mail(task) {
                match self.carry_out(mail) {
                    Some(rest) => self.hall.topics.schedule.put_back(task, rest),
                    None => events += 1,
                }
                self.hall.time.look();
            } else if ready.is_none() {
                break;
            }
            // A release that fell due meanwhile does not wait for the rest of the slice either.
            if self.hall.topics.is_wakeup_due(self.hall.time.now)
                || self.hall.time.now - turn.began >= slice
            {
                break;
            }
        }
        events
    }

    /// Does what post asks for a topic; gives back what is left of it to be done.
    fn carry_out(&mut self, mail: TopicMail) -> Option<TopicMail> {
        match mail {
            TopicMail::Publish(batch) => self.relay().publish_batch(batch).map(TopicMail::Publish),
            TopicMail::Answered(batch) => self.relay().settle_batch(batch).map(TopicMail::Answered),
            TopicMail::Settled(settled) => {
                self.relay().settle_one(settled);
                None
            }
            TopicMail::Request(topic, request) => {
                self.relay().publish_request(&topic, *request);
                None
            }
            TopicMail::Order(said) => {
                let longest = self.hall.shared.config.max_msg_timeout;
                let now = match said.order {
                    Some(order) => self.hall.time.of_order(order),
                    None => self.hall.time.now,
                };
                let table = &mut self.hall.topics.table;
                if let Some((to, answer)) = self.guests.carry_out(said, table, longest, now) {
                    self.hall.post.send(to, Mail::Ordered(answer));
                }
                None
            }
            TopicMail::Deliveries(batch) => {
                self.hall.put_deliveries(batch);
                None
            }
            TopicMail::Logged(answer) => {
                self.relay().hear_log(answer);
                None
            }
            TopicMail::Room(topic) => {
                self.hall.topics.roomy.push(topic);
                self.resume_waiting();
                None
            }
        }
    }

    fn serve_connection(&mut self, key: ConnectionKey, readiness: Readiness) {
        if !self.hall.topics.schedule.is_its_turn(key) {
            // It has begun to publish to another topic since it was put into this queue.
            return self.hall.topics.schedule.notice(key, readiness);
        }
        if readiness.has(Readiness::RESUMED) {
            self.reader().reconsider(key);
        }
        if readiness.has(Readiness::DUE) {
            self.hall.peers.mark_dirty(key);
        }
        let has_failed = readiness.has(Readiness::ERROR)
            && !self
                .hall
                .peers
                .connections
                .get_mut(key)
                .is_some_and(|connection| {
                    let (table, post) = (&mut self.hall.topics.table, &mut self.hall.post);
                    probes::take_ack_stamps(connection, table, post, &self.hall.time.stamps)
                });
        if readiness.has(Readiness::WRITABLE) || has_failed {
            self.hall.write(|writer| writer.write(key));
        }
        let ends = readiness.has(Readiness::CLOSING) || has_failed;
        // It may have been paused after epoll told; then epoll tells again when it is watched again.
        let may_read = |pause: Pause| pause == Pause::No || ends;
        let may_read = self
            .hall
            .peers
            .connections
            .get_mut(key)
            .is_some_and(|connection| {
                connection.is_ending |= ends;
                may_read(connection.pause)
            });
        if (readiness.has(Readiness::READABLE) || has_failed) && may_read {
            self.reader().read(key);
        }
        // While the socket is in the cache; at the end of the turn it would not be.
        self.hall.write(|writer| writer.flush_connection(key));
        self.hall.topics.work_for_turn(&mut self.hall.time);
    }

    /// Lets publishers go on that waited at topics with room again.
    fn resume_waiting(&mut self) {
        let mut roomy = std::mem::take(&mut self.hall.topics.roomy);
        for key in roomy.drain(..) {
            self.hall.topics.is_resuming = true;
            while let Some(number) = self.hall.topics.table.pop_waiting(key) {
                if let Some(publish) = self.hall.topics.take_waiting(number)
                    && !self.resume(key, publish)
                {
                    break;
                }
            }
            self.hall.topics.is_resuming = false;
        }
        // Whatever became roomy meanwhile has its turn ahead.
        roomy.append(&mut self.hall.topics.roomy);
        self.hall.topics.roomy = roomy;
    }

    /// Whether the next one that waits may be tried, too.
    fn resume(&mut self, topic: TopicKey, publish: WaitingPublish) -> bool {
        match publish {
            WaitingPublish::Connection(key) => {
                self.hall
                    .peers
                    .unpause(key, &mut self.hall.topics.schedule, self.hall.time.now);
                self.reader().reconsider(key);
                self.hall.topics.work_for_turn(&mut self.hall.time);
                self.hall
                    .peers
                    .connections
                    .get(key)
                    .is_none_or(|connection| connection.pause != Pause::Room)
            }
            WaitingPublish::Remote(remote) => self.relay().resume_remote(topic, remote),
            WaitingPublish::Request(request) => self.relay().resume_request(topic, request),
        }
    }

    /// The parts that topics need.
    #[inline]
    fn relay(&mut self) -> Relay<'_> {
        Relay {
            hall: self.hall,
            guests: self.guests,
            backlog: self.backlog,
        }
    }

    /// The parts that reading needs.
    #[inline]
    fn reader(&mut self) -> Reader<'_> {
        Reader {
            relay: Relay {
                hall: self.hall,
                guests: self.guests,
                backlog: self.backlog,
            },
            intake: self.intake,
        }
    }
}
