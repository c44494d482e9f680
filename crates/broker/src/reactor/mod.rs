//! Reactors: one thread and one epoll loop each, owning connections and topics outright.
//!
//! A turn of the loop waits for readiness, serves the topics that have become ready in the order of
//! their credits (reads and executes commands, passes messages on), and writes what has gathered:
//! one system call per peer and turn, no lock and no wake-up per message. A topic has one home
//! reactor (by its name's hash). Subscribers move to it; publishers stay where they were accepted,
//! and what they publish to a topic elsewhere travels in batches.

mod admission;
mod attachments;
mod away;
mod batch;
mod batches;
mod complaints;
mod consumers;
mod door;
mod durable;
mod execute;
mod full;
mod gather;
mod greet;
mod guests;
mod hall;
mod hosted;
mod inbox;
mod layers;
mod memory;
mod peers;
mod post;
mod probes;
mod publish;
mod publishers;
mod read;
mod relay;
mod request;
mod resting;
mod schedule;
mod serve;
mod shared;
mod stop;
mod strangers;
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

use crate::BrokerError;
use crate::backlog::Orders;
use crate::sys::{self, Epoll, Event, Interest};

pub use attachments::{Attachments, Owner};
use door::Door;
use gather::WAKER_TOKEN;
use guests::Guests;
pub use guests::{DeliveryBatch, GuestKey};
use hall::Hall;
use hosted::Hosted;
pub use inbox::{Inbox, Mail};
use peers::Peers;
use post::Post;
use read::Intake;
use relay::Relay;
use schedule::Schedule;
use serve::Dispatcher;
pub use serve::{TaskReport, TaskRow};
pub use shared::Shared;
use strangers::Strangers;
pub use subscribers::{DialledSubscriber, Identifiers};
use survey::{Surveyed, Surveys};
use time::Time;

/// Events taken per turn. More make a turn longer than the wait that they save.
const EVENTS_MAX: usize = 128;

/// One reactor. Made on any thread, then [`Reactor::run`] on its own.
#[derive(Debug)]
pub struct Reactor {
    events: Vec<Event>,
    door: Door,
    hall: Hall,
    guests: Guests,
    backlog: Option<Orders>,
    intake: Intake,
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
        let highest_id = backlog.as_ref().map_or(0, Orders::highest_id);
        let table = config.topic_table(number, (wall, highest_id));
        let known = backlog.iter().flat_map(Orders::known_logs);
        let known = known.filter(|log| home_of(log.topic.as_str(), config.threads) == number);
        let table = table.within(&shared.memory).counting_names(&shared.names);
        let table = table.knowing(known.cloned());
        let strangers = Strangers::new(config, &shared.memory);
        let schedule = Schedule::new(config.scheduler()).map_err(|error| BrokerError::Config {
            option: "--share-period",
            reason: error.to_string(),
        })?;
        Ok(Reactor {
            events: Vec::with_capacity(EVENTS_MAX),
            door,
            guests: Guests::new(number),
            backlog,
            intake: Intake::new(config),
            surveys: Surveys::default(),
            hall: Hall {
                time: Time::new(now, wall),
                post: Post::new(number, Arc::clone(&shared.inboxes)),
                peers: Peers::new(epoll, strangers, &shared.memory, wall.as_nanos()),
                topics: Hosted::new(table, schedule),
                shared,
            },
        })
    }

    /// Runs until the broker stops and everything is drained that can be; gives what is lost.
    pub fn run(mut self) -> Vec<Loss> {
        sys::thread_timer_slack_ns(1);
        self.hall.time.turn_began = sys::monotonic_now();
        while !self.hall.shared.stop.load(Ordering::Acquire) {
            self.turn(None);
        }
        self.drain()
    }

    /// One turn; waits for something to do, `at_most` so long.
    fn turn(&mut self, at_most: Option<Duration>) {
        self.wait(at_most);
        self.go_on();
    }

    /// Does what there is to do after a wait.
    fn go_on(&mut self) {
        self.gather_events();
        self.take_mail();
        self.hall.run_timers();
        self.door
            .open_again(self.hall.time.now, &self.hall.peers.epoll);
        self.offer_memory();
        let has_served = self.dispatcher().serve();
        self.relay().carry_out_effects();
        self.relay().write_logs();
        self.hall.write(|writer| writer.flush());
        let (post, memory) = (&mut self.hall.post, &mut self.hall.peers.memory);
        self.guests.post(post, memory);
        self.hall.post.post();
        let (table, budget) = (&mut self.hall.topics.table, &self.hall.shared.memory);
        self.hall
            .peers
            .memory
            .tell(table, budget, self.hall.time.now);
        let (surveys, mut surveyed) = self.surveyed();
        surveys.go_on_for_a_slice(has_served, &mut surveyed);
        self.hall.peers.counters.turns += 1;
    }

    fn wait(&mut self, at_most: Option<Duration>) {
        self.hall.topics.wake(self.hall.time.now);
        let finished = sys::monotonic_now();
        self.hall.peers.counters.busy += finished.saturating_since(self.hall.time.turn_began);
        self.hall
            .topics
            .schedule
            .charge_rest(finished.saturating_since(self.hall.time.now));
        let next = match self.hall.topics.schedule.is_idle() {
            true => self.next_due(),
            false => Some(self.hall.time.now),
        };
        let latest = at_most.map(|at_most| self.hall.time.now + at_most);
        let until = match (next, latest) {
            (Some(next), Some(latest)) => Some(next.min(latest)),
            (next, latest) => next.or(latest),
        };
        // Counted from this instant: what the last turn did since its clock was read is not to be
        // added to a release's wait.
        let (spacing, had_events) = (
            self.hall.shared.config.turn_spacing,
            !self.events.is_empty(),
        );
        let rested = self
            .hall
            .time
            .space_turns(spacing, had_events, until, finished);
        let timeout = until.map(|until| until.saturating_since(rested));
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        if let Err(error) = self.hall.peers.epoll.wait(timeout, &mut events) {
            tracing::error!(
                "reactor {}: waiting for events: {error}",
                self.hall.post.number
            );
        }
        self.events = events;
        self.hall.time.begin_turn();
    }

    /// Lets those go on for whom there is memory, and gives back what is not needed.
    fn offer_memory(&mut self) {
        let look_at = self.hall.peers.memory.look_at;
        if look_at.is_none_or(|at| at > self.hall.time.now) {
            return;
        }
        self.hall.topics.table.offer_memory();
        self.relay().carry_out_effects();
        self.hall
            .peers
            .offer_input(&mut self.hall.topics.schedule, self.hall.time.now);
        let (table, shared) = (&mut self.hall.topics.table, &self.hall.shared);
        self.hall
            .peers
            .memory
            .trim(table, shared, self.hall.time.now);
    }

    /// The questions about everything, and what they are about.
    fn surveyed(&mut self) -> (&mut Surveys, Surveyed<'_>) {
        let surveyed = Surveyed {
            topics: &mut self.hall.topics,
            peers: &self.hall.peers,
            guests: &self.guests,
            time: &mut self.hall.time,
            period: self.hall.shared.config.share_period,
            reactors: self.hall.post.reactors(),
        };
        (&mut self.surveys, surveyed)
    }

    /// The parts that topics need.
    #[inline]
    fn relay(&mut self) -> Relay<'_> {
        Relay {
            hall: &mut self.hall,
            guests: &mut self.guests,
            backlog: self.backlog.as_ref(),
        }
    }

    /// The parts that serving tasks needs.
    #[inline]
    fn dispatcher(&mut self) -> Dispatcher<'_> {
        Dispatcher {
            hall: &mut self.hall,
            guests: &mut self.guests,
            backlog: self.backlog.as_ref(),
            intake: &mut self.intake,
        }
    }

    /// When the next thing is due.
    fn next_due(&self) -> Option<Instant> {
        let dues = [
            self.hall.peers.timers.next(),
            self.hall.peers.dues.next(),
            self.hall.topics.table.next_wakeup(),
            self.door.again_at(),
            self.surveys.due(),
            self.hall.peers.memory.look_at,
        ];
        dues.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
