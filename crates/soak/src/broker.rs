//! A broker's process: the real core of topics, and a shell as thin as possible, in place of
//! reactors, sockets and tasks.
//!
//! The shell is simulated. Where it decides something, it decides as the product does, and the
//! comment names the product's file.

mod agent;
pub mod alone;
mod attached;
mod backlog;
mod catalog;
mod errands;
mod gossip;
mod ground;
mod handing;
mod outlet;
mod process;
mod publish;
mod session;
mod waiters;

use std::time::Duration;

use clock::{Instant, Streams};
use link::Identity;
use topics::Bounds;
use topics::stats::{CatalogTopic, TopicStats};

use crate::chance::Chance;
use crate::event::{Actor, Packet, Port, StreamId};
use crate::folder::Folder;
use crate::laws::gossip::Seen;
use crate::laws::limits::Bound;
use crate::outside::Outside;
pub use backlog::MessageDisk;
use process::Process;

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
    /// Where it keeps messages, if it does.
    pub disk: Option<MessageDisk>,
    /// Processes so far.
    pub life: u64,
    process: Option<Process>,
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
    pub fn new(place: usize, streams: &Streams) -> Broker {
        let disk = Chance::new(streams, &format!("disk-{place}"));
        Broker {
            place,
            name: format!("b{place}"),
            identity: Identity([place as u8 + 1; 16]),
            folder: Folder::new(disk),
            has_folder: true,
            disk: None,
            life: 0,
            process: None,
        }
    }

    /// A broker that somebody has given the name of the first one.
    #[must_use]
    pub fn stray(place: usize, streams: &Streams) -> Broker {
        Broker {
            name: Broker::new(0, streams).name,
            ..Broker::new(place, streams)
        }
    }

    /// Whether a process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Starts a process with what the folder holds; it does not start where the disk for messages cannot be read.
    pub fn start(&mut self, out: &mut Outside) {
        if self.is_running() {
            return;
        }
        self.life += 1;
        if !self.has_folder && self.life > 1 {
            self.identity.0[8..].copy_from_slice(&out.chance.number().to_be_bytes());
        }
        let Ok(mut process) = Process::begin(self, out) else {
            return;
        };
        out.net.begins(Actor::Broker(self.place), self.life);
        process.settle(out);
        self.process = Some(process);
    }

    /// kill -9; the host goes dark, too, where it loses its power ([`Folder::crash`]).
    pub fn kill(&mut self, out: &mut Outside) {
        if let Some(process) = self.process.take() {
            if let Some(disk) = &self.disk {
                process.end(disk, out);
            }
            let memory = (self.place, self.life);
            out.net.ends(Actor::Broker(self.place));
            out.books.deliveries.gone(memory);
            out.books.names.gone(memory);
        }
    }

    /// Its time has come.
    pub fn wake(&mut self, life: u64, out: &mut Outside) {
        let process = self.process.as_mut();
        if let Some(process) = process.filter(|process| process.life() == life)
            && process.wake(out)
        {
            process.settle(out);
        }
    }

    /// Somebody is connected.
    pub fn accepted(&mut self, stream: StreamId, port: Port, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.accepted(stream, port, out);
            process.settle(out);
        }
    }

    /// Something arrives.
    pub fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.arrives(stream, packet, out);
            process.settle(out);
        }
    }

    /// A datagram of another broker arrives.
    pub fn heard(&mut self, from: usize, bytes: &[u8], out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.heard(from, bytes, out);
            process.settle(out);
        }
    }

    /// A stream is gone.
    pub fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        if let Some(process) = &mut self.process {
            process.gone(stream, out);
            process.settle(out);
        }
    }

    /// What a topic has in force here, as of now.
    pub fn topic(&mut self, topic: &str, now: Instant) -> Option<TopicStats> {
        self.process.as_mut()?.topic(topic, now)
    }

    /// Contracts that are in force, where a process runs.
    #[must_use]
    pub fn contracts(&self) -> Option<Vec<CatalogTopic>> {
        let process = self.process.as_ref()?;
        Some(process.ground.catalog())
    }

    /// The share of a topic's limit that is in force here.
    pub fn share(&mut self, topic: &str, now: Instant) -> Option<Bound> {
        let share = self.topic(topic, now)?.share?;
        Some(Bound {
            rate: share.rate.get(),
            burst: share.burst.get(),
        })
    }

    /// What a topic whose limit is shared by gossip has in force, where a process runs.
    pub fn gossiped(&mut self, topic: &str, now: Instant) -> Option<Seen> {
        let process = self.process.as_mut()?;
        let stats = process.topic(topic, now)?;
        let generation = process.gossip.generation();
        Some(Seen::of(process.ground.memory(), generation, &stats))
    }

    /// The life that the controller's last Welcome to its process named.
    pub fn told_life(&self) -> u64 {
        self.process
            .as_ref()
            .map_or(0, |process| process.link.agent.life())
    }

    /// Whether it is linked and was told everything.
    #[must_use]
    pub fn is_told_all(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.link.agent.is_told_all())
    }
}
