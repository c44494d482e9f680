//! A broker without a controller: one topic, whose limit it shares with the brokers that it finds, and publishers of its own.

use std::time::Duration;

use broker::sharing::SharingConfig;
use clock::{Instant, Streams, WallTime};
use limit::Limit;
use link::Identity;
use topics::{Arrival, Delivery, Effects, MessageIds, Outlet, Published, TopicKey, TopicTable};
use wire::ChannelName;
use wire::gossip::Key;

use super::gossip::{Gossip, address};
use super::ground::Ground;
use super::waiters::Waiters;
use super::{BOUNDS, TURN_MESSAGES_MAX};
use crate::chance::Chance;
use crate::event::{Actor, Event};
use crate::laws::gossip::Seen;
use crate::outside::Outside;

/// The topic of all brokers.
pub const TOPIC: &str = "shared";
/// A publisher that finds no room tries again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A place for such a broker.
pub struct Alone {
    /// Its place: which host it is on.
    pub place: usize,
    /// The places that `--gossip-join` names.
    join: Vec<usize>,
    /// As its data folder keeps it; `None`: its topic has none.
    limit: Option<Limit>,
    /// What each of its publishers publishes, messages per second.
    rates: Vec<f64>,
    chance: Chance,
    /// Processes so far.
    pub life: u64,
    process: Option<Process>,
}

struct Process {
    ground: Ground,
    gossip: Gossip,
    topic: TopicKey,
    channel: ChannelName,
    is_limited: bool,
    /// When names are looked up next.
    resolve_at: Instant,
    /// Names that are looked up then.
    unresolved: Vec<usize>,
    /// When each publisher publishes next.
    next: Vec<Instant>,
    wake_at: Instant,
}

/// Nobody consumes: channels are emptied.
struct Nobody;

impl Outlet for Nobody {
    fn deliver(&mut self, _connection: u64, _delivery: Delivery<'_>) -> bool {
        true
    }

    fn draw(&mut self, _bound: u8) -> u8 {
        0
    }
}

impl Alone {
    /// A place in which nothing runs yet.
    #[must_use]
    pub fn new(place: usize, join: Vec<usize>, limit: Limit, streams: &Streams) -> Alone {
        Alone {
            place,
            join,
            limit: Some(limit),
            rates: Vec::new(),
            chance: Chance::new(streams, &format!("alone-{place}")),
            life: 0,
            process: None,
        }
    }

    /// Whether a process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Starts a process.
    pub fn start(&mut self, out: &mut Outside) {
        if self.is_running() {
            return;
        }
        self.life += 1;
        out.net.begins(Actor::Broker(self.place), self.life);
        let mut process = Process::begin(self, out);
        process.declare(self.limit, out);
        process.settle(&self.rates, out);
        self.process = Some(process);
    }

    /// kill -9.
    pub fn kill(&mut self, out: &mut Outside) {
        if self.process.take().is_some() {
            out.net.ends(Actor::Broker(self.place));
        }
    }

    /// It is stopped in order.
    pub fn stop(&mut self, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.gossip.leave(&mut process.ground, out);
        }
        self.kill(out);
    }

    /// Its topic has another limit from now on, or none.
    pub fn declare(&mut self, limit: Option<Limit>, out: &mut Outside) {
        self.limit = limit;
        if let Some(process) = &mut self.process {
            process.declare(limit, out);
            process.settle(&self.rates, out);
        }
    }

    /// So much is published from now on.
    pub fn demand(&mut self, rates: Vec<f64>, out: &mut Outside) {
        self.rates = rates;
        if let Some(process) = &mut self.process {
            process.next = vec![out.net.now; self.rates.len()];
            process.settle(&self.rates, out);
        }
    }

    /// Messages per second that are published here.
    #[must_use]
    pub fn demanded(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// Somebody says here that a broker is gone for good.
    pub fn forget(&mut self, place: usize, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.gossip.forget(place, &process.ground, out);
            process.settle(&self.rates, out);
        }
    }

    /// Its time has come.
    pub fn wake(&mut self, life: u64, out: &mut Outside) {
        if life == self.life
            && let Some(process) = &mut self.process
            && process.wake(out)
        {
            process.settle(&self.rates, out);
        }
    }

    /// A datagram of another broker arrives.
    pub fn heard(&mut self, from: usize, bytes: &[u8], out: &mut Outside) {
        if let Some(process) = &mut self.process {
            let ground = &mut process.ground;
            process.gossip.heard(from, bytes, ground, out);
            process.settle(&self.rates, out);
        }
    }

    /// How it stands, where a process runs.
    pub fn seen(&mut self, now: Instant) -> Option<Seen> {
        let process = self.process.as_mut()?;
        let stats = process.ground.topic(TOPIC, now)?;
        let generation = process.gossip.generation();
        Some(Seen::of(process.ground.memory(), generation, &stats))
    }
}

impl Process {
    fn begin(of: &mut Alone, out: &Outside) -> Process {
        let offset = Duration::from_nanos(of.chance.number() % 1_000_000_000_000);
        let wall = WallTime::from_nanos(out.net.now.as_nanos());
        let ids = MessageIds::new(of.place as u16, 0, 1, wall);
        let table = TopicTable::new(BOUNDS, ids).gathering();
        let mut table = table.logging_releases(1 << 16);
        let topic = table.find_or_create(TOPIC).expect("there is room");
        let channel = "all".parse().expect("valid");
        table
            .find_or_create_channel(topic, &channel)
            .expect("there is room");
        let ground = Ground {
            me: Actor::Broker(of.place),
            place: of.place,
            life: of.life,
            name: format!("b{}", of.place),
            identity: Identity([of.place as u8 + 1; 16]),
            offset,
            table,
            waiters: Waiters::default(),
        };
        let config = SharingConfig {
            address: None,
            key: Key::from_passphrase("between us").ok(),
            join: of.join.iter().map(usize::to_string).collect(),
        };
        // Mostly names have addresses at once, or after the first look.
        let resolved_after = match of.chance.happens(0.2) {
            true => of.chance.span_ms(0, 6000),
            false => Duration::ZERO,
        };
        Process {
            gossip: Gossip::new(&config, &ground, out),
            ground,
            topic,
            channel,
            is_limited: false,
            resolve_at: out.net.now + resolved_after,
            unresolved: of.join.clone(),
            next: vec![out.net.now; of.rates.len()],
            wake_at: Instant::MAX,
        }
    }

    fn declare(&mut self, limit: Option<Limit>, out: &Outside) {
        self.is_limited = limit.is_some();
        let now = self.ground.local(out.net.now);
        let table = &mut self.ground.table;
        table.set_shared_limit(self.topic, limit, None, now);
    }

    fn wake(&mut self, out: &mut Outside) -> bool {
        if out.net.now < self.wake_at {
            return false;
        }
        self.wake_at = Instant::MAX;
        if self.resolve_at <= out.net.now {
            self.resolve_at = Instant::MAX;
            for place in std::mem::take(&mut self.unresolved) {
                let resolved = (place.to_string(), address(place));
                self.gossip.resolved(resolved, &self.ground, out);
            }
        }
        self.gossip.drive(&mut self.ground, out);
        true
    }

    fn settle(&mut self, rates: &[f64], out: &mut Outside) {
        for (publisher, rate) in rates.iter().enumerate() {
            while self.next[publisher] <= out.net.now {
                let after = match self.publish(publisher as u32 + 1, out) {
                    true => Duration::from_secs_f64(1.0 / rate),
                    false => AGAIN_AFTER,
                };
                self.next[publisher] = out.net.now + after;
            }
        }
        self.serve(out);
        self.wake_in_time(out);
    }

    /// Whether there was room.
    fn publish(&mut self, flow: u32, out: &Outside) -> bool {
        let now = self.ground.local(out.net.now);
        let arrival = Arrival {
            at: now,
            wall_ns: out.net.now.as_nanos().cast_signed(),
            read: now,
            half_rtt_us: 0,
            flow,
        };
        let body = std::iter::once(&b"message"[..]);
        let table = &mut self.ground.table;
        let published = table.publish(self.topic, body, arrival, Duration::ZERO);
        published == Published::Accepted
    }

    fn serve(&mut self, out: &mut Outside) {
        let now = self.ground.local(out.net.now);
        let memory = self.ground.memory();
        let table = &mut self.ground.table;
        loop {
            table.wake(now);
            while let Some(key) = table.pop_dirty() {
                table.run_topic(key, now, TURN_MESSAGES_MAX, &mut Nobody);
            }
            let passed = table.take_releases(self.topic).len();
            if passed == 0 {
                break;
            }
            if let Some(channel) = table.find_channel(self.topic, &self.channel) {
                table.empty_channel(channel);
            }
            if self.is_limited {
                out.books.passed(TOPIC, passed, memory);
            }
        }
        table.effects = Effects::default();
    }

    fn wake_in_time(&mut self, out: &mut Outside) {
        let table = self.ground.table.next_wakeup();
        let others = [
            table.map(|at| self.ground.outer(at)),
            self.gossip.next_at(),
            Some(self.resolve_at).filter(|at| *at < Instant::MAX),
            self.next.iter().min().copied(),
        ];
        let Some(next) = others.into_iter().flatten().min() else {
            return;
        };
        let next = next.max(out.net.now);
        if next < self.wake_at {
            self.wake_at = next;
            let wake = Event::Wake(self.ground.me, self.ground.life);
            out.net.agenda.note(next, wake);
        }
    }
}
