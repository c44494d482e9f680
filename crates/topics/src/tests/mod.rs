//! The topics in virtual time: a scenario is a list of steps, an outlet records what goes out.

mod awaited;
mod backlog;
mod durable;
mod ending;
mod flow;
mod full;
mod handover;
mod laws;
mod limits;
mod memory;
mod processing;
mod prolongations;
mod replay;
mod reports;
mod restarts;
mod saving;
mod service;
mod settling;
mod shares;
mod sharing;
mod snapshots;
mod sources;
mod stalls;
mod traffic;
mod windows;

use std::time::Duration;

use clock::{Instant, WallTime};
use limit::Limit;

use super::{
    Arrival, Bounds, ConsumerKey, IntervalEnd, Known, KnownTopic, LimitNumber, MessageIds, Outlet,
    Published, QueueName, StrandedWalk, Subscription, Teller, Told, TopicKey, TopicNews,
    TopicTable,
};

/// One delivery as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delivery {
    at_us: u64,
    connection: u64,
    attempts: u16,
    id: u64,
    body: String,
}

/// Records deliveries; may refuse more after a number of them, as a full socket does.
#[derive(Debug, Default)]
struct Recorder {
    now: Instant,
    deliveries: Vec<Delivery>,
    room: Option<usize>,
    draws: u64,
}

impl Outlet for Recorder {
    fn deliver(&mut self, connection: u64, delivery: crate::Delivery<'_>) -> bool {
        self.deliveries.push(Delivery {
            at_us: self.now.as_nanos() / 1000,
            connection,
            attempts: delivery.attempts,
            id: delivery.message.id,
            body: String::from_utf8_lossy(&delivery.message.body).into_owned(),
        });
        match &mut self.room {
            None => true,
            Some(room) => {
                *room -= 1;
                *room > 0
            }
        }
    }

    fn draw(&mut self, bound: u8) -> u8 {
        self.draws += 1;
        (self.draws % u64::from(bound)) as u8
    }
}

/// A table with its clock and its outlet.
struct World {
    table: TopicTable,
    out: Recorder,
}

/// What a table does in parts, in one go.
trait AtOnce {
    /// A report.
    fn report(&mut self, number: u64, bytes_max: usize, now: Instant) -> TopicNews;

    /// Ends the intervals of all shared limits.
    fn end_interval(
        &mut self,
        now: Instant,
        known: impl Fn(LimitNumber) -> Option<Known>,
    ) -> Vec<IntervalEnd>;

    /// Has all topics hear what was said of them; how many it came by.
    fn settle_all(&mut self, now: Instant) -> usize;

    /// Queues to hand over.
    fn stranded(&mut self, patience: Duration, now: Instant) -> Vec<QueueName>;
}

impl AtOnce for TopicTable {
    fn report(&mut self, number: u64, bytes_max: usize, now: Instant) -> TopicNews {
        let mut walk = self.begin_report(number, bytes_max, now);
        while self.report_next(&mut walk, now) {}
        self.end_report(walk)
    }

    fn end_interval(
        &mut self,
        now: Instant,
        known: impl Fn(LimitNumber) -> Option<Known>,
    ) -> Vec<IntervalEnd> {
        let (mut place, mut ends) = (0, Vec::new());
        while self.end_next_interval(&mut place, now, &known, &mut ends) {}
        ends
    }

    fn settle_all(&mut self, now: Instant) -> usize {
        let mut slots = 0;
        while self.is_settling() {
            self.settle_next(now);
            slots += 1;
        }
        slots
    }

    fn stranded(&mut self, patience: Duration, now: Instant) -> Vec<QueueName> {
        let mut walk = StrandedWalk::new(patience);
        while self.stranded_next(&mut walk, now) {}
        walk.queues()
    }
}

const BOUNDS: Bounds = Bounds {
    mem_queue_size: 10,
    deferred_max: 10,
    abandoned_after: Duration::from_secs(60),
    topics_max: 4,
    channels_max: 3,
    backlog: None,
    channel_consumers_max: 2,
};

impl World {
    fn new() -> World {
        World::with(BOUNDS)
    }

    fn with(bounds: Bounds) -> World {
        World::of(bounds, |table| table)
    }

    /// A world whose table `change` has made special.
    fn of(bounds: Bounds, change: impl FnOnce(TopicTable) -> TopicTable) -> World {
        let ids = MessageIds::new(0, 0, 1, WallTime::from_nanos(1));
        World {
            table: change(TopicTable::new(bounds, ids)),
            out: Recorder::default(),
        }
    }

    fn now(&self) -> Instant {
        self.out.now
    }

    /// Publishes and serves, now.
    fn publish(&mut self, topic: &str, bodies: &[&str]) -> Published {
        let now = self.now();
        self.publish_arrived(topic, bodies, now, Duration::ZERO)
    }

    fn publish_arrived(
        &mut self,
        topic: &str,
        bodies: &[&str],
        at: Instant,
        delay: Duration,
    ) -> Published {
        let key = self.topic(topic);
        let arrival = Arrival {
            at,
            wall_ns: at.as_nanos().cast_signed(),
            read: self.now(),
            half_rtt_us: 0,
            flow: 0,
        };
        let bodies = bodies.iter().map(|body| body.as_bytes());
        let outcome = self.table.publish(key, bodies, arrival, delay);
        self.run();
        outcome
    }

    fn topic(&mut self, topic: &str) -> TopicKey {
        self.table
            .find_or_create(topic)
            .expect("fewer topics than the bound")
    }

    fn subscribe(
        &mut self,
        topic: &str,
        channel: &str,
        connection: u64,
        ready: u32,
    ) -> ConsumerKey {
        let subscription = Subscription {
            connection,
            number: 0,
            msg_timeout: Duration::from_secs(60),
            sample_rate: 0,
            is_finished_when_sent: false,
        };
        let channel = channel.parse().expect("test names are valid");
        let key = self
            .table
            .subscribe(topic, &channel, subscription)
            .expect("within bounds");
        self.table.set_ready(key, ready);
        self.run();
        key
    }

    fn limit(&mut self, topic: &str, rate: f64, burst: f64) {
        let (key, now) = (self.topic(topic), self.now());
        let limit = Limit::messages(rate, burst).expect("test limits are valid");
        self.table.set_limit(key, Some(limit), now);
    }

    fn run(&mut self) {
        let now = self.now();
        self.table.wake(now);
        self.table.run(now, &mut self.out);
    }

    /// Lets time pass, stopping at every wake-up on the way.
    fn advance_us(&mut self, us: u64) {
        let end = self.now() + Duration::from_micros(us);
        while let Some(at) = self.table.next_wakeup().filter(|&at| at <= end) {
            self.out.now = at.max(self.out.now);
            self.run();
        }
        self.out.now = end;
        self.run();
    }

    /// Lets time pass in which the process does nothing at all.
    fn stall_us(&mut self, us: u64) {
        self.out.now += Duration::from_micros(us);
    }

    /// Publishes what arrived at `at` without serving anything: one of several reads of a turn.
    fn read_arrived(&mut self, topic: &str, bodies: &[&str], at: Instant) -> Published {
        let (key, read) = (self.topic(topic), self.now());
        let arrival = Arrival {
            at,
            wall_ns: at.as_nanos().cast_signed(),
            read,
            half_rtt_us: 0,
            flow: 0,
        };
        let bodies = bodies.iter().map(|body| body.as_bytes());
        self.table.publish(key, bodies, arrival, Duration::ZERO)
    }

    /// Instants of the first deliveries since the last call.
    fn released(&mut self) -> Vec<Instant> {
        let deliveries = self.deliveries();
        let firsts = deliveries.iter().filter(|delivery| delivery.attempts == 1);
        firsts
            .map(|delivery| Instant::from_nanos(delivery.at_us * 1000))
            .collect()
    }

    /// Bodies delivered since the last call, in order.
    fn bodies(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out.deliveries)
            .into_iter()
            .map(|delivery| delivery.body)
            .collect()
    }

    fn deliveries(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.out.deliveries)
    }
}
