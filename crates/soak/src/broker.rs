//! A broker's process: the real core of topics, and a shell as thin as it can be, in place of reactors, sockets and tasks.
//!
//! The shell is simulated. Where it decides something, it decides as the product's does, and the file there is named.

mod agent;
mod attached;
mod handing;
mod orders;
mod outlet;
mod publish;
mod session;
mod vouching;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Instant, WallTime};
use link::Identity;
use topics::stats::{ClientStats, StatsFilter, TopicStats};
use topics::{Bounds, KnownTopic, MessageIds, Step, TopicTable, Walk};
use wire::TopicName;

use crate::disk::Folder;
use crate::event::{Actor, Event, Packet, Port, StreamId};
use crate::laws::limits::Bound;
use crate::outside::Outside;
use agent::Agent;
use attached::Attached;
use handing::Handing;
use outlet::Deliveries;
use session::Session;
use vouching::Vouching;
pub use vouching::Word;

/// Bounds of a small broker, so that queues are full now and then.
const BOUNDS: Bounds = Bounds {
    mem_queue_size: 60,
    deferred_max: 60,
    abandoned_after: Duration::from_secs(3600),
    topics_max: 64,
    channels_max: 16,
    backlog: None,
    channel_consumers_max: 0,
};
/// Messages that a topic passes on in one turn.
const TURN_MESSAGES_MAX: usize = 64;
/// Changes of the catalog that follow each other this closely are written once (`broker/catalog_file/keeping.rs`).
const DEBOUNCE: Duration = Duration::from_millis(100);

/// A place for a broker's process, with its data folder.
pub struct Broker {
    /// Its place: which host it is on.
    pub place: usize,
    /// Its name.
    pub name: String,
    /// As its folder keeps it.
    pub identity: Identity,
    /// What outlives its processes.
    pub folder: Folder,
    /// Without a data folder every process begins with nothing, and as another broker.
    pub has_folder: bool,
    /// Processes so far.
    pub life: u64,
    process: Option<Process>,
}

/// A process.
struct Process {
    me: Actor,
    place: usize,
    life: u64,
    name: String,
    identity: Identity,
    /// The process's clock is so far from the simulation's: no two machines have one.
    offset: Duration,
    table: TopicTable,
    sessions: BTreeMap<StreamId, Session>,
    deliveries: Deliveries,
    attached: Attached,
    agent: Agent,
    handing: Handing,
    vouching: Vouching,
    save_at: Option<Instant>,
    wake_at: Instant,
    is_resuming: bool,
}

/// Where NSQ clients connect to the broker in a place.
#[must_use]
pub fn tcp_address(place: usize) -> String {
    format!("10.0.0.{}:4150", place + 1)
}

/// Where its HTTP is.
#[must_use]
pub fn http_address(place: usize) -> String {
    format!("10.0.0.{}:4151", place + 1)
}

/// The place of an address of either kind.
#[must_use]
pub fn place_of(address: &str) -> Option<usize> {
    let (host, _) = address.strip_prefix("10.0.0.")?.split_once(':')?;
    host.parse::<usize>().ok()?.checked_sub(1)
}

impl Broker {
    /// A place whose folder is empty.
    #[must_use]
    pub fn new(place: usize) -> Broker {
        Broker {
            place,
            name: format!("b{place}"),
            identity: Identity([place as u8 + 1; 16]),
            folder: Folder::default(),
            has_folder: true,
            life: 0,
            process: None,
        }
    }

    /// A broker that somebody has given the name of the first one.
    #[must_use]
    pub fn stray(place: usize) -> Broker {
        Broker {
            name: Broker::new(0).name,
            ..Broker::new(place)
        }
    }

    /// Whether a process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Starts a process with what the folder holds.
    pub fn start(&mut self, out: &mut Outside) {
        if self.is_running() {
            return;
        }
        self.life += 1;
        if !self.has_folder && self.life > 1 {
            self.folder = Folder::default();
            self.identity.0[8..].copy_from_slice(&out.chance.number().to_be_bytes());
        }
        let me = Actor::Broker(self.place);
        out.net.begins(me, self.life);
        let offset = Duration::from_nanos(out.chance.number() % 1_000_000_000_000);
        let wall = WallTime::from_nanos(out.net.now.as_nanos());
        let ids = MessageIds::new(self.place as u16, 0, 1, wall);
        let table = TopicTable::new(BOUNDS, ids);
        let mut process = Process {
            me,
            place: self.place,
            life: self.life,
            name: self.name.clone(),
            identity: self.identity,
            offset,
            table: table.controlled().logging_releases(1 << 16),
            sessions: BTreeMap::new(),
            deliveries: Deliveries::default(),
            attached: Attached::default(),
            agent: Agent::new(out.net.now),
            handing: Handing::new(out.chance.number()),
            vouching: Vouching::new(out.chance.number()),
            save_at: None,
            wake_at: Instant::MAX,
            is_resuming: false,
        };
        process.restore(&self.folder, out.net.now);
        process.settle(&mut self.folder, out);
        self.process = Some(process);
    }

    /// kill -9, or the host goes dark.
    pub fn kill(&mut self, out: &mut Outside) {
        if self.process.take().is_some() {
            let memory = (self.place, self.life);
            out.net.ends(Actor::Broker(self.place));
            out.books.deliveries.gone(memory);
            out.books.names.gone(memory);
        }
    }

    /// Its time has come.
    pub fn wake(&mut self, life: u64, out: &mut Outside) {
        if let Some(process) = self.process.as_mut().filter(|process| process.life == life)
            && out.net.now >= process.wake_at
        {
            process.wake_at = Instant::MAX;
            process.wake(&mut self.folder, out);
            process.settle(&mut self.folder, out);
        }
    }

    /// Somebody is connected.
    pub fn accepted(&mut self, stream: StreamId, port: Port, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            if port == Port::Nsq {
                process.sessions.insert(stream, Session::new(out.net.now));
            }
            process.settle(&mut self.folder, out);
        }
    }

    /// Something arrives.
    pub fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.arrives(stream, packet, &mut self.folder, out);
            process.settle(&mut self.folder, out);
        }
    }

    /// A datagram of another broker arrives.
    pub fn heard(&mut self, from: usize, word: Word, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.heard(from, word, out);
            process.settle(&mut self.folder, out);
        }
    }

    /// A stream is gone.
    pub fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.gone(stream, out);
            process.settle(&mut self.folder, out);
        }
    }

    /// What is in force of a topic here, as of now.
    pub fn topic(&mut self, topic: &str, now: Instant) -> Option<TopicStats> {
        let process = self.process.as_mut()?;
        let now = process.local(now);
        let filter = StatsFilter {
            topic: topic.to_owned(),
            ..StatsFilter::default()
        };
        let mut walk = Walk::new(filter);
        loop {
            match process
                .table
                .walk(&mut walk, now, |_, _| ClientStats::default())
            {
                Step::Topic(stats) => return Some(*stats),
                Step::Part => {}
                Step::End => return None,
            }
        }
    }

    /// The share of a topic's limit that is in force here.
    pub fn share(&mut self, topic: &str, now: Instant) -> Option<Bound> {
        let share = self.topic(topic, now)?.share?;
        Some(Bound {
            rate: share.rate.get(),
            burst: share.burst.get(),
        })
    }

    /// The life that the controller's last Welcome to its process named.
    pub fn told_life(&self) -> u64 {
        self.process
            .as_ref()
            .map_or(0, |process| process.agent.life)
    }

    /// Whether it is linked and was told everything.
    #[must_use]
    pub fn is_told_all(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.agent.is_told_all())
    }
}

impl Process {
    /// The process's own clock.
    fn local(&self, now: Instant) -> Instant {
        now + self.offset
    }

    /// An instant of that clock in the simulation's time.
    fn outer(&self, local: Instant) -> Instant {
        let nanos = self.offset.as_nanos() as u64;
        Instant::from_nanos(local.as_nanos().saturating_sub(nanos))
    }

    /// As `broker/catalog_file.rs` does.
    fn restore(&mut self, folder: &Folder, now: Instant) {
        let now = self.local(now);
        for topic in folder.catalog() {
            let Ok(name) = topic.name.parse::<TopicName>() else {
                continue;
            };
            if let (Some(limit), Ok(key)) =
                (topic.contract.limit, self.table.find_or_create(&topic.name))
            {
                self.table.set_shared_limit(key, Some(limit), None, now);
            }
            if let (Some(on_full), Ok(key)) = (
                topic.contract.on_full,
                self.table.find_or_create(&topic.name),
            ) {
                self.table.set_on_full(key, Some(on_full));
            }
            let channels = topic.channels.iter();
            let channels = channels.filter_map(|each| Some((each.name.parse().ok()?, each.paused)));
            let known = KnownTopic {
                is_paused: topic.paused,
                channels: channels.collect(),
                name,
            };
            let _ = self.table.learn(&known);
        }
    }

    fn arrives(
        &mut self,
        stream: StreamId,
        packet: Packet,
        folder: &mut Folder,
        out: &mut Outside,
    ) {
        match packet {
            Packet::Established => self.connected(stream, out),
            Packet::Bytes(bytes) => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.input.extend(bytes);
                    self.read(stream, out);
                }
            }
            Packet::Order(order) => self.ordered(stream, *order, folder, out),
            Packet::Frame(bytes) => match link::decode(&bytes) {
                Ok(order) => self.ordered(stream, order, folder, out),
                Err(error) => out
                    .books
                    .breaks("frames", format!("a broker reads {error}")),
            },
            Packet::Ask(ask) => self.asked(stream, *ask, out),
            Packet::Answer(answer) => self.hand_over_answered(stream, &answer, out),
            Packet::Fin | Packet::Word(_) => {}
        }
    }

    fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        if self.agent.is_on(stream) {
            return self.link_lost(out);
        }
        if self.hand_over_gone(stream, out) {
            return;
        }
        self.leave(stream, out);
    }

    fn wake(&mut self, folder: &mut Folder, out: &mut Outside) {
        if self.save_at.is_some_and(|at| at <= out.net.now) {
            self.save_at = match self.save(folder) {
                true => None,
                false => Some(out.net.now + Duration::from_secs(1)),
            };
        }
        self.beat_hearts(out);
        self.drive_link(out);
        self.drive_handing(out);
        self.drive_vouching(out);
    }

    /// Writes the catalog as the table has it.
    fn save(&mut self, folder: &mut Folder) -> bool {
        let slots = 0..self.table.topic_slots();
        let keys = slots.filter_map(|slot| self.table.topic_at(slot));
        let topics: Vec<_> = keys
            .filter_map(|key| self.table.catalog_topic(key))
            .collect();
        folder.save(topics)
    }

    /// Serves every topic that something happened to, and does what follows from it.
    fn settle(&mut self, folder: &mut Folder, out: &mut Outside) {
        let now = self.local(out.net.now);
        loop {
            self.table.wake(now);
            let Some(key) = self.table.pop_dirty() else {
                break;
            };
            self.table
                .run_topic(key, now, TURN_MESSAGES_MAX, &mut self.deliveries);
            self.note_deliveries(out);
            self.resume_held(out);
        }
        self.note_releases(out);
        self.carry_out_effects(folder, out);
        self.flush(out);
        self.wake_in_time(out);
    }

    fn carry_out_effects(&mut self, _folder: &mut Folder, out: &mut Outside) {
        self.table.effects.full.clear();
        self.table.effects.ended.clear();
        for connection in std::mem::take(&mut self.table.effects.close) {
            self.hang_up(StreamId(connection), out);
        }
        for held in std::mem::take(&mut self.table.effects.orphans) {
            self.let_go_on(StreamId(held.0), out);
        }
        if std::mem::take(&mut self.table.effects.catalog_changed) {
            self.save_at.get_or_insert(out.net.now + DEBOUNCE);
        }
        self.tell_changes(out);
        if std::mem::take(&mut self.table.effects.report_wanted) {
            self.agent.report_early(out.net.now);
        }
    }

    /// The law of limits sees what has passed since the last turn.
    fn note_releases(&mut self, out: &mut Outside) {
        let now = out.net.now;
        for topic in out.books.limits.topics() {
            let Some(key) = self.table.find(&topic) else {
                continue;
            };
            let releases = self.table.take_releases(key).len();
            if releases > 0 {
                let passed = out.books.limits.pass(&topic, releases, now);
                let memory = (self.place, self.life);
                let passed = passed.map_err(|what| format!("{what} (at {memory:?})"));
                out.books.check("limits", passed);
            }
        }
    }

    fn wake_in_time(&mut self, out: &mut Outside) {
        let table = self.table.next_wakeup().map(|at| self.outer(at));
        let hearts = self.sessions.values().filter_map(Session::next_beat);
        let others = [
            self.save_at,
            self.agent.next_at(),
            self.handing.next_at(),
            self.vouching.next_at(),
        ];
        let next = others
            .into_iter()
            .flatten()
            .chain(table)
            .chain(hearts)
            .min();
        let Some(next) = next.map(|at| at.max(out.net.now)) else {
            return;
        };
        if next < self.wake_at {
            self.wake_at = next;
            out.net.agenda.note(next, Event::Wake(self.me, self.life));
        }
    }
}
