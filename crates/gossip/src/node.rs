//! One process's side of the gossip of all its limits: exchanges, membership, and the datagrams in
//! between.
//!
//! The owner gives it what arrived ([`Node::receive`]), the ends of estimate intervals
//! ([`Node::queue_updates`]) and, when [`Node::next_wake`] says so, the time ([`Node::wake`]), and
//! after each of them sends what [`Node::poll_transmit`] has. What cannot be believed is counted
//! ([`Counters`]) and changes nothing.
//!
//! Updates of a limit are counted per pair of limiters. A counter begins anew only with an
//! incarnation of either end, not even when a limit is removed and added again, so no tag is ever
//! good twice.

mod config;
mod counters;
mod limits;
mod outbox;
mod peer;

use core::net::SocketAddr;
use std::collections::HashMap;
use std::time::Duration;

use clock::{Instant, Streams, Xoshiro256PlusPlus};
use limit::sharing::{Remote, Update};
use wire::gossip::{
    self, Datagram, DatagramError, Endpoint, Key, LimitId, SealedMembership, SealedUpdate, Seen,
    counter_near,
};

use crate::error::GossipError;
use crate::exchange::{Branches, Exchange, Heard, Message};
use crate::membership::Membership;

pub use config::NodeConfig;
pub use counters::Counters;
pub use outbox::Transmit;
pub use peer::PeerState;

use config::places;
use limits::{Limit, Limits};
use outbox::Outbox;
use peer::Peer;

/// One process's part in gossip. See the module.
#[derive(Debug)]
pub struct Node {
    me: u16,
    endpoint: Endpoint,
    key: Key,
    branches: Branches,
    interval: Duration,
    peers: Vec<Peer>,
    by_address: HashMap<SocketAddr, u16>,
    limits: Limits,
    membership: Membership,
    outbox: Outbox,
    counters: Counters,
    random: Xoshiro256PlusPlus,
}

impl Node {
    /// A node that begins at `now`, connected to nobody yet.
    ///
    /// # Errors
    /// [`GossipError`], with what is wrong with the configuration.
    pub fn new(config: NodeConfig, now: Instant) -> Result<Self, GossipError> {
        let (me, by_address) = places(&config)?;
        let streams = Streams::new(config.seed).family("gossip");
        let streams = streams.family(&format!("limiter-{me}"));
        let endpoint = Endpoint {
            address: config.me,
            incarnation: config.incarnation,
        };
        let limiters = config.peers.len() as u32;
        let random = streams.stream("membership");
        let peers = config.peers.iter();
        Ok(Node {
            me,
            endpoint,
            branches: config.branches,
            interval: config.interval,
            peers: peers
                .map(|address| Peer::new(*address, &config.key, endpoint))
                .collect(),
            by_address,
            limits: Limits::new(config.peers.len()),
            membership: Membership::new(limiters, me, config.incarnation, random, now),
            outbox: Outbox::default(),
            counters: Counters::default(),
            random: streams.stream("branches"),
            key: config.key,
        })
    }

    /// Begins to gossip about a limit; without effect if it does already.
    ///
    /// # Errors
    /// [`GossipError::TooManyLimits`].
    pub fn add_limit(&mut self, id: LimitId) -> Result<(), GossipError> {
        self.add_limit_as(id, self.branches, self.interval)
    }

    /// The same for a limit that goes by branches and an estimate interval of its own.
    ///
    /// # Errors
    /// [`GossipError::TooManyLimits`].
    pub fn add_limit_as(
        &mut self,
        id: LimitId,
        branches: Branches,
        interval: Duration,
    ) -> Result<(), GossipError> {
        let limit = self.limits.get_or_insert(id);
        let limit = limit.ok_or(GossipError::TooManyLimits(id))?;
        if limit.exchange.is_some() {
            return Ok(());
        }
        let limiters = self.peers.len() as u32;
        let mut exchange = Exchange::new(limiters, self.me.into(), branches, interval);
        for (index, peer) in self.peers.iter().enumerate() {
            if peer.connected {
                exchange.connected(index as u32);
            }
        }
        limit.exchange = Some(exchange);
        Ok(())
    }

    /// Ends gossip about a limit. For the others this one's numbers stay what they were last, until it is added again or
    /// this node goes: a limit should end everywhere.
    pub fn remove_limit(&mut self, id: LimitId) {
        if let Some(limit) = self.limits.get_mut(id) {
            limit.exchange = None;
        }
    }

    /// Ends an estimate interval of a limit at `now`, in which this limiter found `own`. Updates are ready to be sent.
    ///
    /// # Errors
    /// [`GossipError::UnknownLimit`].
    pub fn queue_updates(
        &mut self,
        now: Instant,
        id: LimitId,
        own: Update,
    ) -> Result<(), GossipError> {
        self.wake(now);
        let limit = self.limits.get_mut(id);
        let Some((exchange, pairs)) = limit.and_then(Limit::parts) else {
            return Err(GossipError::UnknownLimit(id));
        };
        let (peers, outbox, counters) = (&self.peers, &mut self.outbox, &mut self.counters);
        exchange.end_interval(own, &mut self.random, |to, message| {
            let peer = &peers[to as usize];
            let counter = pairs[to as usize].next();
            let bytes = update(id, message).encode(&peer.updates_to, counter);
            if !outbox.push_update(peer.address, bytes) {
                counters.overflowed += 1;
            }
        });
        Ok(())
    }

    /// The others' demand on a limit, as far as it is known; for a limit that was not added, none.
    pub fn remote(&self, id: LimitId) -> Remote {
        let exchange = self
            .limits
            .get(id)
            .and_then(|limit| limit.exchange.as_ref());
        exchange.map_or(
            Remote {
                others: Update::default(),
                connected: 1,
            },
            Exchange::remote,
        )
    }

    /// Takes in a datagram that came from `from`.
    pub fn receive(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let Some(index) = self
            .by_address
            .get(&from)
            .copied()
            .filter(|at| *at != self.me)
        else {
            self.counters.unknown_peer += 1;
            return;
        };
        match gossip::decode(bytes) {
            Ok(Datagram::Update(sealed)) => self.receive_update(index.into(), sealed),
            Ok(Datagram::Membership(sealed)) => self.receive_membership(now, index, sealed),
            // They are for the node's owner.
            Ok(Datagram::Notice(_) | Datagram::Vouch(_)) => self.counters.refused += 1,
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.outbox.pop()?;
        self.counters.sent(&transmit);
        Some(transmit)
    }

    /// When [`Node::wake`] is due; `None` for never.
    pub fn next_wake(&self) -> Option<Instant> {
        Some(self.membership.next_wake()).filter(|at| *at < Instant::MAX)
    }

    /// Does what is due at `now`. After a pause, what arrived meanwhile should be received first: whose answers nobody
    /// read yet seem gone.
    pub fn wake(&mut self, now: Instant) {
        if self.membership.next_wake() <= now {
            self.membership.wake(now);
            self.follow_membership();
        }
    }

    /// Tells some of the others that this one goes, so that they need not find out. Nothing is to be asked of it then but
    /// [`Node::poll_transmit`].
    pub fn leave(&mut self) {
        self.membership.leave();
        self.follow_membership();
    }

    /// Limiters that are connected, this one included.
    pub fn connected(&self) -> u32 {
        1 + self.peers.iter().filter(|peer| peer.connected).count() as u32
    }

    /// All limiters in their order; this one counts as connected.
    pub fn peers(&self) -> impl Iterator<Item = PeerState> {
        let peers = self.peers.iter().enumerate();
        peers.map(|(index, peer)| match index == usize::from(self.me) {
            true => PeerState {
                address: self.endpoint.address,
                is_me: true,
                connected: true,
                incarnation: self.endpoint.incarnation,
            },
            false => peer.state(),
        })
    }

    /// What was sent, received and left out since the node began.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn receive_update(&mut self, from: usize, sealed: SealedUpdate<'_>) {
        let peer = &self.peers[from];
        if peer.incarnation == 0 {
            // Its tag cannot be checked yet.
            self.counters.refused += 1;
            return;
        }
        let limit = self.limits.get(sealed.limit());
        let window = limit
            .map(|limit| limit.pairs[from].heard)
            .unwrap_or_default();
        let counter = counter_near(window.latest(), sealed.sequence());
        let update = match sealed.open(&peer.updates_from, counter) {
            Ok(update) => update,
            Err(DatagramError::Forged) => {
                self.counters.forged += 1;
                return;
            }
            Err(_) => {
                self.counters.refused += 1;
                return;
            }
        };
        let seen = window.look(counter);
        if seen == Seen::Before {
            self.counters.replayed += 1;
            return;
        }
        let Some(limit) = self.limits.get_or_insert(update.limit) else {
            self.counters.unknown_limit += 1;
            return;
        };
        limit.pairs[from].heard.note(counter);
        let Some(exchange) = &mut limit.exchange else {
            self.counters.unknown_limit += 1;
            return;
        };
        let heard = match seen {
            Seen::Latest => exchange.heard(from as u32, message(update)),
            _ => Heard::Overtaken,
        };
        self.counters.heard(heard);
    }

    fn receive_membership(&mut self, now: Instant, from: u16, sealed: SealedMembership<'_>) {
        let peer = &mut self.peers[usize::from(from)];
        let incarnation = sealed.incarnation();
        let sender = Endpoint {
            address: peer.address,
            incarnation,
        };
        if incarnation < peer.incarnation || incarnation == 0 {
            self.counters.replayed += 1;
            return;
        }
        let unborn = Endpoint {
            incarnation: 0,
            ..self.endpoint
        };
        let Ok(payload) = sealed.open(&self.key.path(sender, unborn)) else {
            self.counters.forged += 1;
            return;
        };
        self.learn(usize::from(from), incarnation);
        let window = &mut self.peers[usize::from(from)].membership_heard;
        if window.look(sealed.counter()) == Seen::Before {
            self.counters.replayed += 1;
            return;
        }
        window.note(sealed.counter());
        match self.membership.receive(now, from, incarnation, payload) {
            Ok(()) => self.counters.membership_received += 1,
            Err(_) => self.counters.refused += 1,
        }
        self.follow_membership();
    }

    /// A peer lives in `incarnation`. If that is news, counters on both paths begin anew, and for exchanges it is another.
    fn learn(&mut self, index: usize, incarnation: u64) {
        let peer = &mut self.peers[index];
        if incarnation <= peer.incarnation {
            return;
        }
        peer.begin(incarnation, &self.key, self.endpoint);
        let connected = peer.connected;
        for limit in self.limits.iter_mut() {
            limit.pairs[index] = Default::default();
            if let Some(exchange) = limit.exchange.as_mut().filter(|_| connected) {
                exchange.connected(index as u32);
            }
        }
    }

    /// Sends what membership wants sent, and tells exchanges who came and went.
    fn follow_membership(&mut self) {
        while let Some((to, payload)) = self.membership.poll_send() {
            let incarnation = self.endpoint.incarnation;
            let peer = &mut self.peers[usize::from(to)];
            if !self.outbox.push_membership(peer, incarnation, &payload) {
                self.counters.overflowed += 1;
            }
        }
        if !self.membership.has_changed() {
            return;
        }
        let mut lives = vec![None; self.peers.len()];
        for (index, incarnation) in self.membership.connected() {
            lives[usize::from(index)] = Some(incarnation);
        }
        for (index, life) in lives.into_iter().enumerate() {
            if let Some(incarnation) = life {
                self.learn(index, incarnation);
            }
            if self.peers[index].connected != life.is_some() {
                self.connect(index, life.is_some());
            }
        }
    }

    fn connect(&mut self, index: usize, connected: bool) {
        self.peers[index].connected = connected;
        for limit in self.limits.iter_mut() {
            match (&mut limit.exchange, connected) {
                (Some(exchange), true) => exchange.connected(index as u32),
                (Some(exchange), false) => exchange.disconnected(index as u32),
                (None, _) => {}
            }
        }
    }
}

fn update(limit: LimitId, message: Message) -> gossip::Update {
    gossip::Update {
        limit,
        sequence: message.sequence,
        epoch: message.epoch,
        demand: message.demand,
        passed: message.passed,
        weight: message.weight,
    }
}

fn message(update: gossip::Update) -> Message {
    Message {
        sequence: update.sequence,
        epoch: update.epoch,
        demand: update.demand,
        passed: update.passed,
        weight: update.weight,
    }
}

#[cfg(test)]
mod tests;
