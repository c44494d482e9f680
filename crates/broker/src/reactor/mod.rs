//! Reactors: one thread and one epoll loop each, owning connections and topics outright.
//!
//! A turn of the loop waits for readiness, serves the topics that have become ready in the order of their credits
//! (reads and executes commands, passes messages on), and writes what has gathered: one system call per peer and turn, no lock
//! and no wake-up per message. A topic has one home reactor (by its name's hash). Subscribers move to it; publishers
//! stay where they were accepted, and what they publish to a topic elsewhere travels in batches.

mod attachments;
mod away;
mod batch;
mod complaints;
mod door;
mod execute;
mod greet;
mod guests;
mod hall;
mod hosted;
mod inbox;
mod memory;
mod peers;
mod post;
mod probes;
mod publish;
mod publishers;
mod read;
mod request;
mod resting;
mod schedule;
mod serve;
mod shared;
mod stop;
mod subscribers;
mod survey;
mod time;
mod timers;
mod waiting;
mod write;

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Instant;
use topics::Loss;
use wire::identify::ServerLimits;

use crate::BrokerError;
use crate::backlog::Orders;
use crate::sys::{self, Epoll, Event, Interest};

pub use attachments::{Attachments, Owner};
use door::Door;
pub use guests::{DeliveryBatch, GuestKey};
use guests::{Guests, Recipient};
use hall::Hall;
use hosted::Hosted;
use inbox::TopicMail;
pub use inbox::{Inbox, Mail};
use peers::Peers;
use post::Post;
use schedule::Schedule;
pub use serve::{TaskReport, TaskRow};
pub use shared::Shared;
pub use subscribers::{DialledSubscriber, Identifiers};
use survey::{Surveyed, Surveys};
use time::Time;

/// Events taken per turn. More make a turn longer than the wait that they save.
const EVENTS_MAX: usize = 128;

/// The most that one receive takes, in bytes; the rest comes with the next turn.
const READ_BYTES: usize = 64 * 1024;

const WAKER_TOKEN: u64 = u64::MAX - 1;

/// One reactor. Made on any thread, then [`Reactor::run`] on its own.
#[derive(Debug)]
pub struct Reactor {
    shared: Arc<Shared>,
    limits: wire::Limits,
    server: ServerLimits,
    events: Vec<Event>,
    door: Door,
    time: Time,
    post: Post,
    peers: Peers,
    topics: Hosted,
    guests: Guests,
    read_buffer: Vec<u8>,
    backlog: Option<Orders>,
    moving: Option<usize>,
    is_resuming: bool,
    surveys: Surveys,
}

/// Reactor that owns the topic of that name, of `reactors`. FNV-1a: stable over processes.
#[must_use]
pub fn home_of(topic: &str, reactors: usize) -> usize {
    if reactors == 1 {
        return 0;
    }
    let hash = topic.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash % reactors as u64) as usize
}

impl Reactor {
    /// Makes reactor `number`; the one that is given a listener accepts for all. With `backlog` it has somebody who keeps messages
    /// outside of memory.
    ///
    /// # Errors
    /// [`BrokerError::Io`] where the system gives no epoll instance.
    pub fn new(
        number: usize,
        shared: Arc<Shared>,
        listener: Option<TcpListener>,
        backlog: Option<Orders>,
    ) -> Result<Reactor, BrokerError> {
        let io = |source| BrokerError::Io {
            what: format!("setting up reactor {number}"),
            source,
        };
        let epoll = Epoll::new(EVENTS_MAX).map_err(io)?;
        epoll
            .add(
                shared.inboxes[number].waker.descriptor.as_fd(),
                WAKER_TOKEN,
                Interest::READ,
            )
            .map_err(io)?;
        let door = Door::new(listener, &epoll).map_err(io)?;
        let (now, wall) = (sys::monotonic_now(), sys::wall_now());
        let config = &shared.config;
        let table = config.topic_table(number, wall).within(&shared.memory);
        let schedule = Schedule::new(config.scheduler()).map_err(|error| BrokerError::Config {
            option: "--share-period",
            reason: error.to_string(),
        })?;
        Ok(Reactor {
            limits: config.wire_limits(),
            server: config.server_limits(),
            events: Vec::with_capacity(EVENTS_MAX),
            door,
            time: Time::new(now, wall),
            post: Post::new(number, Arc::clone(&shared.inboxes)),
            peers: Peers::new(epoll, &shared.memory, wall.as_nanos()),
            topics: Hosted::new(table, schedule),
            guests: Guests::new(number),
            read_buffer: vec![0; READ_BYTES],
            backlog,
            moving: None,
            is_resuming: false,
            surveys: Surveys::default(),
            shared,
        })
    }

    /// Runs until the broker stops and everything is drained that can be; gives what is lost.
    pub fn run(mut self) -> Vec<Loss> {
        sys::thread_timer_slack_ns(1);
        self.time.turn_began = sys::monotonic_now();
        while !self.shared.stop.load(Ordering::Acquire) {
            self.turn(None);
        }
        self.drain()
    }

    /// One turn; waits for something to do, `at_most` so long.
    fn turn(&mut self, at_most: Option<Duration>) {
        self.wait(at_most);
        self.gather_events();
        self.take_mail();
        self.hall().run_timers();
        self.door.open_again(self.time.now, &self.peers.epoll);
        self.offer_memory();
        let has_served = self.serve();
        self.carry_out_effects();
        self.hall().write(|writer| writer.flush());
        self.guests.post(&mut self.post);
        self.post.post();
        let (table, budget) = (&mut self.topics.table, &self.shared.memory);
        self.peers.memory.tell(table, budget, self.time.now);
        let (surveys, mut surveyed) = self.surveyed();
        surveys.go_on_for_a_slice(has_served, &mut surveyed);
        self.peers.counters.turns += 1;
    }

    fn wait(&mut self, at_most: Option<Duration>) {
        self.topics.wake(self.time.now);
        let finished = sys::monotonic_now();
        self.peers.counters.busy += finished.saturating_since(self.time.turn_began);
        self.topics
            .schedule
            .charge_rest(finished.saturating_since(self.time.now));
        let next = match self.topics.schedule.is_idle() {
            true => self.next_due(),
            false => Some(self.time.now),
        };
        let latest = at_most.map(|at_most| self.time.now + at_most);
        let until = match (next, latest) {
            (Some(next), Some(latest)) => Some(next.min(latest)),
            (next, latest) => next.or(latest),
        };
        // Counted from this instant: what the last turn did since its clock was read is not to be
        // added to a release's wait.
        let (spacing, had_events) = (self.shared.config.turn_spacing, !self.events.is_empty());
        let rested = self.time.space_turns(spacing, had_events, until, finished);
        let timeout = until.map(|until| until.saturating_since(rested));
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        if let Err(error) = self.peers.epoll.wait(timeout, &mut events) {
            tracing::error!("reactor {}: waiting for events: {error}", self.post.number);
        }
        self.events = events;
        self.time.begin_turn();
    }

    /// Lets those go on for whom there is memory, and gives back what is not needed.
    fn offer_memory(&mut self) {
        let look_at = self.peers.memory.look_at;
        if look_at.is_none_or(|at| at > self.time.now) {
            return;
        }
        self.topics.table.offer_memory();
        self.carry_out_effects();
        self.peers
            .offer_input(&mut self.topics.schedule, self.time.now);
        let (table, shared) = (&mut self.topics.table, &self.shared);
        self.peers.memory.trim(table, shared, self.time.now);
    }

    /// The questions about everything, and what they are about.
    fn surveyed(&mut self) -> (&mut Surveys, Surveyed<'_>) {
        let surveyed = Surveyed {
            topics: &mut self.topics,
            peers: &self.peers,
            guests: &self.guests,
            time: &mut self.time,
            period: self.shared.config.share_period,
            reactors: self.post.reactors(),
        };
        (&mut self.surveys, surveyed)
    }

    /// What connections need of it.
    #[inline]
    fn hall(&mut self) -> Hall<'_> {
        Hall {
            shared: &self.shared,
            time: &self.time,
            post: &mut self.post,
            peers: &mut self.peers,
            topics: &mut self.topics,
        }
    }

    /// When the next thing is due.
    fn next_due(&self) -> Option<Instant> {
        let dues = [
            self.peers.timers.next(),
            self.peers.dues.next(),
            self.topics.table.next_wakeup(),
            self.door.again_at(),
            self.surveys.due(),
            self.peers.memory.look_at,
        ];
        dues.into_iter().flatten().min()
    }

    fn carry_out_effects(&mut self) {
        let effects = &mut self.topics.table.effects;
        if std::mem::take(&mut effects.catalog_changed) {
            self.shared.changed.notify_one();
        }
        if !effects.told.is_empty() {
            self.shared.changes.post(&mut effects.told);
        }
        if std::mem::take(&mut effects.report_wanted) {
            self.shared.report_wanted.notify_one();
        }
        if std::mem::take(&mut effects.sharing_began) {
            self.shared.sharing.began();
        }
        self.topics.roomy.append(&mut effects.roomy);
        if let Some(backlog) = &self.backlog {
            effects
                .backlog
                .drain(..)
                .for_each(|order| backlog.give(order));
        }
        self.topics
            .table
            .effects
            .full
            .drain(..)
            .for_each(stop::log_full);
        while let Some((topic, task)) = self.topics.table.effects.ended.pop() {
            if self.topics.schedule.end(task) {
                self.post.tell_share_gone(&topic);
            }
        }
        while let Some(connection) = self.topics.table.effects.close.pop() {
            match Recipient::from_bits(connection) {
                Recipient::Connection(key) => self.hall().close(key, "its channel was deleted"),
                Recipient::Guest(key) => {
                    if let Some((reactor, connection)) = self.guests.whereabouts(key) {
                        self.post.send(reactor, Mail::Unseated(connection));
                    }
                    self.guests.leave(key);
                }
            }
        }
        self.hall().close_failed();
        while let Some(number) = self.topics.table.effects.orphans.pop() {
            self.settle_orphan(number);
        }
    }

    fn take_mail(&mut self) {
        let Some(mut mail) = self.post.take() else {
            return;
        };
        let mut is_for_nobody = false;
        for piece in mail.drain(..) {
            match piece {
                Mail::Adopt(connection) => {
                    is_for_nobody = true;
                    let _key = self.hall().adopt(*connection);
                }
                Mail::Publish(batch) => {
                    let task = self.topics.task_of_name(&batch.topic);
                    self.topics
                        .schedule
                        .notice_mail(task, TopicMail::Publish(batch));
                }
                Mail::Answered(batch) => {
                    let task = batch.task;
                    self.topics
                        .schedule
                        .notice_mail(task, TopicMail::Answered(batch));
                }
                Mail::Settled(settled) => {
                    let task = settled.task;
                    self.topics
                        .schedule
                        .notice_mail(task, TopicMail::Settled(settled));
                }
                Mail::Backlog(answer) => {
                    is_for_nobody = true;
                    self.topics.table.hear_backlog(answer, self.time.now);
                }
                Mail::ShareGone(topic) => self.declare_elsewhere(&topic, None),
                Mail::Publisher(news) => self.hall().publishers().hear(news),
                Mail::Subscribe(request) => {
                    is_for_nobody = true;
                    let from = request.from;
                    let seated = self.guests.welcome(*request, &mut self.topics);
                    self.post.send(from, Mail::Seated(seated));
                }
                Mail::Seated(seated) => self.hall().hear_seated(seated),
                Mail::Order(said) => {
                    let task = self.guests.task_of(said.guest);
                    let task = task.unwrap_or(self.topics.schedule.common());
                    self.topics
                        .schedule
                        .notice_mail(task, TopicMail::Order(said));
                }
                Mail::Ordered(answer) => self.hall().hear_ordered(&answer),
                Mail::Unseated(key) => self.hall().close(key, "its channel was deleted"),
                Mail::Deliveries(batch) => {
                    let task = batch.task;
                    self.topics
                        .schedule
                        .notice_mail(task, TopicMail::Deliveries(batch));
                }
                Mail::Returned(batch) => self.guests.take_back(batch, &mut self.topics.table),
                Mail::Request(request) => {
                    is_for_nobody = true;
                    self.answer(request);
                }
            }
        }
        self.post.give_back(mail);
        if is_for_nobody {
            // No topic is charged with it.
            self.time.look();
        }
    }
}

#[cfg(test)]
mod tests;
