//! A process: its parts, and the flow between them.

use broker::Recovered;
use broker::sharing::SharingConfig;
use disk::DiskError;
use topics::stats::TopicStats;
use topics::{Bounds, MessageIds, TopicTable};

use super::agent::Link;
use super::backlog::{Backlog, MessageDisk};
use super::catalog::Keeping;
use super::gossip::Gossip;
use super::ground::Ground;
use super::handing::Handing;
use super::session::Sessions;
use super::waiters::Waiters;
use super::{BOUNDS, Broker, TURN_MESSAGES_MAX};
use crate::event::{Actor, Event, Packet, Port, StreamId};
use crate::outside::Outside;
use clock::{Instant, WallTime};
use std::time::Duration;

/// A process.
pub(super) struct Process {
    pub(super) ground: Ground,
    pub(super) sessions: Sessions,
    pub(super) link: Link,
    pub(super) handing: Handing,
    pub(super) gossip: Gossip,
    pub(super) keeping: Keeping,
    pub(super) backlog: Option<Backlog>,
    wake_at: Instant,
}

impl Process {
    /// One that begins with what the folder of its place holds, and its disk for messages, if there is one.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn begin(of: &Broker, out: &mut Outside) -> Result<Process, DiskError> {
        let offset = Duration::from_nanos(out.chance.number() % 1_000_000_000_000);
        let wall = WallTime::from_nanos(out.net.now.as_nanos());
        let opened = of.disk.as_ref();
        let opened = opened.map(|disk| disk.open((out.net.now + offset, wall), out));
        let (backlog, recovered) = opened.transpose()?.unzip();
        let highest_id = recovered.as_ref().map_or(0, |found| found.highest_id);
        let ids = MessageIds::new(of.place as u16, 0, 1, wall).above(highest_id);
        let bounds = Bounds {
            backlog: of.disk.as_ref().map(MessageDisk::bounds),
            ..BOUNDS
        };
        let known = recovered.iter().flat_map(|found| found.known.clone());
        let table = TopicTable::new(bounds, ids).knowing(known);
        let mut ground = Ground {
            me: Actor::Broker(of.place),
            place: of.place,
            life: of.life,
            name: of.name.clone(),
            identity: of.identity,
            offset,
            table: table.controlled().logging_releases(1 << 16),
            waiters: Waiters::default(),
        };
        let folder = of.has_folder.then_some(&of.folder);
        let keeping = Keeping::restore(folder, &mut ground, out);
        if let Some(recovered) = recovered {
            take_up(&recovered, &mut ground, out);
        }
        Ok(Process {
            sessions: Sessions::default(),
            link: Link::new(&ground, out),
            handing: Handing::new(out.chance.number()),
            gossip: Gossip::new(&SharingConfig::default(), &ground, out),
            keeping,
            backlog,
            ground,
            wake_at: Instant::MAX,
        })
    }

    /// It is killed: what it has on disk is what it has come to.
    pub(super) fn end(self, of: &MessageDisk, out: &mut Outside) {
        if let Some(backlog) = self.backlog {
            of.cut_off(backlog, &self.ground, out);
        }
    }

    /// Which life of its place it is.
    pub(super) fn life(&self) -> u64 {
        self.ground.life
    }

    /// Somebody is connected.
    pub(super) fn accepted(&mut self, stream: StreamId, port: Port, out: &mut Outside) {
        if port == Port::Nsq {
            self.sessions.accepted(stream, out.net.now);
        }
    }

    /// Something arrives.
    pub(super) fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        match packet {
            Packet::Established if self.link.is_on(stream) => {
                self.link.connected(stream, &self.ground, out);
            }
            Packet::Established => self.handing.connected(stream, &self.ground, out),
            Packet::Bytes(bytes) => self.sessions.arrives(stream, bytes, &mut self.ground, out),
            Packet::Order(order) if self.link.is_on(stream) => self.link.said(*order),
            Packet::Frame(bytes) if self.link.is_on(stream) => match link::decode(&bytes) {
                Ok(order) => self.link.said(order),
                Err(error) => out
                    .books
                    .breaks("frames", format!("a broker reads {error}")),
            },
            Packet::Ask(ask) => self.handing.asked(stream, *ask, &mut self.ground, out),
            Packet::Answer(answer) => {
                self.handing
                    .answered(stream, &answer, &mut self.ground, out);
            }
            Packet::Fin | Packet::ToController(_) | Packet::Order(_) | Packet::Frame(_) => {}
        }
    }

    /// A datagram of another broker arrives.
    pub(super) fn heard(&mut self, from: usize, bytes: &[u8], out: &mut Outside) {
        self.gossip.heard(from, bytes, &mut self.ground, out);
    }

    /// A stream is gone.
    pub(super) fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        if self.link.is_on(stream) {
            return self.link.gone(&self.ground, out);
        }
        if self.handing.gone(stream, &mut self.ground, out) {
            return;
        }
        self.sessions.leave(stream, &mut self.ground, out);
    }

    /// Its time has come, if it has.
    pub(super) fn wake(&mut self, out: &mut Outside) -> bool {
        if out.net.now < self.wake_at {
            return false;
        }
        self.wake_at = Instant::MAX;
        self.keeping.drive(&self.ground, out.net.now);
        if let Some(backlog) = &mut self.backlog {
            backlog.drive(&mut self.ground, &mut self.sessions, out);
        }
        self.sessions.beat_hearts(out.net.now);
        self.link.wake(&self.ground, out);
        self.handing.drive(&mut self.ground, out);
        self.gossip.drive(&mut self.ground, out);
        true
    }

    /// Does what the controller wants, serves every topic that something happened to, and does what follows from it.
    pub(super) fn settle(&mut self, out: &mut Outside) {
        self.carry_on(out);
        self.serve(out);
        while self.carry_on(out) {
            self.serve(out);
        }
        self.sessions.flush(&mut self.ground, out);
        self.wake_in_time(out);
    }

    fn serve(&mut self, out: &mut Outside) {
        let now = self.ground.local(out.net.now);
        loop {
            self.ground.table.wake(now);
            let Some(key) = self.ground.table.pop_dirty() else {
                break;
            };
            self.sessions
                .serve(key, TURN_MESSAGES_MAX, &mut self.ground, out);
            self.sessions.resume_held(&mut self.ground, out);
        }
        self.note_releases(out);
        self.carry_out_effects(out);
    }

    /// What a topic has in force here, as of now.
    pub(super) fn topic(&mut self, topic: &str, now: Instant) -> Option<TopicStats> {
        self.ground.topic(topic, now)
    }

    fn carry_out_effects(&mut self, out: &mut Outside) {
        let effects = &mut self.ground.table.effects;
        effects.full.clear();
        effects.ended.clear();
        for connection in std::mem::take(&mut effects.close) {
            self.sessions
                .hang_up(StreamId(connection), &mut self.ground, out);
        }
        for held in std::mem::take(&mut self.ground.table.effects.without_topic) {
            self.sessions
                .let_go_on(StreamId(held.0), &mut self.ground, out);
        }
        if let Some(backlog) = &mut self.backlog {
            backlog.take(&mut self.ground, &mut self.sessions, out);
        }
        if std::mem::take(&mut self.ground.table.effects.catalog_changed) {
            self.keeping.changed(out.net.now);
        }
        let effects = &mut self.ground.table.effects;
        self.link.log(&mut effects.told);
        if std::mem::take(&mut effects.report_wanted) {
            let now = self.ground.local(out.net.now);
            self.link.agent.report_wanted(now);
        }
    }

    /// The law of limits sees what has passed since the last turn.
    fn note_releases(&mut self, out: &mut Outside) {
        for topic in out.books.limits.topics() {
            let Some(key) = self.ground.table.find(&topic) else {
                continue;
            };
            let releases = self.ground.table.take_releases(key).len();
            if releases > 0 {
                out.books.passed(&topic, releases, self.ground.memory());
            }
        }
    }

    fn wake_in_time(&mut self, out: &mut Outside) {
        let table = self.ground.table.next_wakeup();
        let others = [
            self.keeping.next_at(),
            self.backlog
                .as_ref()
                .and_then(|backlog| backlog.next_at(&self.ground)),
            self.link.next_at(&self.ground),
            self.handing.next_at(),
            self.gossip.next_at(),
            self.sessions.next_beat(),
            table.map(|at| self.ground.outer(at)),
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

/// Has queues take up what they had on disk (`broker/reactor/stop.rs`).
fn take_up(recovered: &Recovered, ground: &mut Ground, out: &mut Outside) {
    let now = ground.local(out.net.now);
    let refused = ground.table.restore_logs();
    let mut problems: Vec<String> = refused.iter().map(ToString::to_string).collect();
    for (queue, segments) in &recovered.found {
        match ground.table.restore(queue, segments, now) {
            Ok(true) => {}
            Ok(false) => problems.push(format!("{queue:?} keeps nothing on disk")),
            Err(refusal) => problems.push(refusal.to_string()),
        }
    }
    ground.table.end_unwanted_logs();
    for problem in problems {
        out.books.breaks("disks", problem);
    }
}
