//! Gossip by UDP: a node and a socket for each site of this process.
//!
//! A testbed may add delay and loss to what is sent. Each node's membership is checked every
//! [`WAKES`], which is much finer than its own times.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use clock::{Instant, Streams, Xoshiro256PlusPlus};
use gossip::{Branches, Key, LimitId, Node, NodeConfig, Socket, Transmit};
use limit::sharing::{Remote, Update};
use rustix::net::{SendFlags, sendto};

use crate::config::{Branching, Config};
use crate::delay_queue::DelayQueue;
use crate::error::LimiterError;
use crate::fabric::{Fabric, chance};
use crate::sys;

/// The interval at which the nodes that have something to do are served.
const WAKES: Duration = Duration::from_millis(10);

/// The most datagrams that an emulated delay holds back.
const HELD_MAX: usize = 262_144;

/// The gossip nodes of all sites of this process.
#[derive(Debug)]
pub(super) struct Nodes {
    sites: Vec<(Socket, Node)>,
    /// The limit that each class gossips about, if it has one.
    limits: Vec<Option<LimitId>>,
    emulated: Option<Emulated>,
    wakes: Instant,
    unsent: Unsent,
}

/// Datagrams that were not sent, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsent {
    /// The emulated network lost them.
    pub(crate) emulated: u64,
    /// The kernel had no room.
    pub(crate) blocked: u64,
    /// Nobody listened at the address.
    pub(crate) unreachable: u64,
    /// Something else went wrong.
    pub(crate) failed: u64,
}

impl Unsent {
    /// Adds what others did not send.
    pub(super) fn add(&mut self, others: Unsent) {
        self.emulated += others.emulated;
        self.blocked += others.blocked;
        self.unreachable += others.unreachable;
        self.failed += others.failed;
    }
}

/// An emulated network between the sites.
#[derive(Debug)]
struct Emulated {
    delay: Duration,
    loss: f64,
    random: Xoshiro256PlusPlus,
    under_way: DelayQueue<(usize, Transmit)>,
}

impl Nodes {
    /// The nodes of `config`, bound and alone.
    pub(super) fn open(config: &Config, now: Instant) -> Result<Nodes, LimiterError> {
        let mut peers = config.gossip.peers.clone();
        if peers.is_empty() {
            peers = config.site.iter().filter_map(|site| site.gossip).collect();
        }
        let key = key(config, &peers)?;
        let limits = config.class.iter().enumerate();
        let limits = limits.map(|(number, class)| {
            let number = u16::try_from(number).ok()?;
            class.limit.map(|_| LimitId(number))
        });
        let limits: Vec<_> = limits.collect();
        let mut sites = Vec::with_capacity(config.site.len());
        for me in config.site.iter().filter_map(|site| site.gossip) {
            let node = NodeConfig {
                me,
                peers: peers.clone(),
                key: key.clone(),
                branches: branches(config, peers.len()),
                interval: config.gossip.interval(),
                incarnation: sys::unix_ns(),
                seed: config.gossip.seed,
            };
            let mut node = Node::new(node, now)?;
            for limit in limits.iter().flatten() {
                node.add_limit(*limit)?;
            }
            let what = format!("binding {me} for gossip");
            sites.push((Socket::bind(me).map_err(LimiterError::io(what))?, node));
        }
        let emulate = config.emulate.as_ref();
        let emulate = emulate.filter(|e| e.gossip_delay_us > 0 || e.gossip_loss > 0.0);
        Ok(Nodes {
            sites,
            limits,
            emulated: emulate.map(|emulate| Emulated {
                delay: Duration::from_micros(emulate.gossip_delay_us),
                loss: emulate.gossip_loss,
                random: Streams::new(config.gossip.seed).stream("emulated gossip"),
                under_way: DelayQueue::new(HELD_MAX),
            }),
            wakes: now,
            unsent: Unsent::default(),
        })
    }

    /// The sites' sockets, in order.
    pub(super) fn each(&self) -> impl Iterator<Item = impl AsFd + '_> {
        self.sites.iter().map(|(socket, _)| socket.as_fd())
    }

    /// Takes in what has come for `site`.
    pub(super) fn receive(&mut self, now: Instant, site: usize) {
        if let Some((socket, node)) = self.sites.get_mut(site) {
            socket.drain(node, now);
            self.send(now, site);
        }
    }

    /// Does what is due.
    pub(super) fn wake(&mut self, now: Instant) {
        if let Some(emulated) = &mut self.emulated {
            while let Some((_, (site, transmit))) = emulated.under_way.pop_due(now) {
                let (socket, _) = &self.sites[site];
                let sent = sendto(socket, transmit.bytes(), SendFlags::empty(), &transmit.to);
                self.unsent.failed += u64::from(sent.is_err());
            }
        }
        if now < self.wakes {
            return;
        }
        self.wakes = now + WAKES;
        for site in 0..self.sites.len() {
            let node = &mut self.sites[site].1;
            if node.next_wake().is_some_and(|due| due <= now) {
                node.wake(now);
                self.send(now, site);
            }
        }
    }

    /// When [`Nodes::wake`] is due.
    pub(super) fn due(&self) -> Instant {
        let held = self
            .emulated
            .as_ref()
            .and_then(|emulated| emulated.under_way.due());
        held.map_or(self.wakes, |held| held.min(self.wakes))
    }

    /// Tells the others that the sites of this process go.
    pub(super) fn leave(&mut self) {
        for (socket, node) in &mut self.sites {
            node.leave();
            socket.flush(node);
        }
    }

    /// A site's counters.
    pub(super) fn counters(&self, site: usize) -> Option<gossip::Counters> {
        self.sites.get(site).map(|(_, node)| node.counters())
    }

    /// Datagrams that a site's socket did not send.
    pub(super) fn unsent(&self, site: usize) -> Unsent {
        let socket = self.sites.get(site).map(|(socket, _)| socket.counters());
        socket.map_or_else(Unsent::default, |socket| Unsent {
            emulated: 0,
            blocked: socket.blocked,
            unreachable: socket.unreachable,
            failed: socket.failed,
        })
    }

    /// Datagrams of all sites that an emulated network did not deliver.
    pub(super) fn unsent_by_none(&self) -> Unsent {
        self.unsent
    }

    fn send(&mut self, now: Instant, site: usize) {
        let (socket, node) = &mut self.sites[site];
        let Some(emulated) = &mut self.emulated else {
            socket.flush(node);
            return;
        };
        while let Some(transmit) = node.poll_transmit() {
            let arrives = emulated.loss == 0.0 || !chance(&mut emulated.random, emulated.loss);
            let due = now + emulated.delay;
            if !arrives || emulated.under_way.push(due, (site, transmit)).is_err() {
                self.unsent.emulated += 1;
            }
        }
    }
}

impl Fabric for Nodes {
    fn tell(&mut self, now: Instant, site: usize, limit: usize, own: Update) {
        let id = self.limits.get(limit).copied().flatten();
        let (Some(id), Some((_, node))) = (id, self.sites.get_mut(site)) else {
            return;
        };
        if let Err(error) = node.queue_updates(now, id, own) {
            tracing::error!("gossip of site {site}: {error}");
        }
        self.send(now, site);
    }

    fn remote(&mut self, _now: Instant, site: usize, limit: usize) -> Remote {
        let id = self.limits.get(limit).copied().flatten();
        let alone = Remote {
            others: Update::default(),
            connected: 1,
        };
        let node = self.sites.get(site).map(|(_, node)| node);
        id.zip(node).map_or(alone, |(id, node)| node.remote(id))
    }
}

fn branches(config: &Config, peers: usize) -> Branches {
    match config.gossip.branches {
        Branching::Random(branches) if usize::from(branches) + 1 < peers => {
            Branches::Random(branches)
        }
        Branching::Random(_) | Branching::Mesh(_) => Branches::Mesh,
    }
}

/// The key of the file; without a file one that only this process knows, if nobody else is to be heard.
fn key(config: &Config, peers: &[SocketAddr]) -> Result<Key, LimiterError> {
    if let Some(path) = &config.gossip.key_file {
        let what = format!("reading the key file {}", path.display());
        let text = std::fs::read_to_string(path).map_err(LimiterError::io(what))?;
        return Ok(Key::from_passphrase(&text)?);
    }
    if peers.len() > config.site.len() {
        return Err(LimiterError::NoKey);
    }
    let mut secret = [0u8; 32];
    let drawn = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|error| LimiterError::io("drawing a key")(error.into()))?;
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Key::from_hex(&hex)?)
}
