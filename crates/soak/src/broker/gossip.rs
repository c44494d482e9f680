//! Words with other brokers, in place of a UDP port and a task (`broker/sharing/intervals.rs`): which shares are held on to while the controller
//! is away, and what is told of limits that brokers share. What is said and believed is the product's own ([`Speaker`],
//! [`Gossiper`]), down to the sealed bytes.

use std::net::SocketAddr;

use broker::sharing::{ASK_INTERVAL, Agreement, Gossiper, Held, Speaker};
use clock::Instant;
use limit::Prolongation;
use link::{Round, Sharers};
use topics::TopicTable;

use super::ground::Ground;
use super::{place_of, tcp_address};
use crate::event::{Actor, Event};
use crate::outside::Outside;

/// What a process says to other brokers and hears of them.
pub(super) struct Gossip {
    speaker: Speaker,
    held: Held,
    next_question: Instant,
    gossiper: Option<Gossiper>,
    generation: u64,
    /// When the estimate interval ends.
    end_at: Instant,
    /// When the gossiper is to be woken.
    wake_at: Option<Instant>,
}

/// Where others gossip with the broker in a place.
fn address(place: usize) -> SocketAddr {
    let address = tcp_address(place).parse();
    address.expect("places have addresses")
}

impl Gossip {
    /// Of a process that was told nothing; no other has its number.
    pub(super) fn new(place: usize, life: u64) -> Gossip {
        Gossip {
            speaker: Speaker::new(address(place), None, life),
            held: Held::default(),
            next_question: Instant::ZERO,
            gossiper: None,
            generation: 0,
            end_at: Instant::MAX,
            wake_at: None,
        }
    }

    /// The controller began a round.
    pub(super) fn told_round(&mut self, round: &Round, now: Instant) {
        self.held.told(round, now);
    }

    /// The round before which all are left.
    pub(super) fn left(&self, now: Instant) -> u64 {
        self.held.left(now)
    }

    /// The number of the list that is followed; 0: none.
    pub(super) fn generation(&self) -> u64 {
        match &self.gossiper {
            Some(_) => self.generation,
            None => 0,
        }
    }

    /// The controller says who shares limits by gossip.
    pub(super) fn told_sharers(
        &mut self,
        sharers: &Sharers,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        if self.gossiper.is_some() && self.generation == sharers.generation {
            return;
        }
        let now = ground.local(out.net.now);
        // The wall clock is the simulation's: a later process has a greater number.
        let born = (out.net.now.as_nanos(), now);
        self.generation = sharers.generation;
        match Gossiper::new(sharers, None, Some(address(ground.place)), born) {
            Ok((gossiper, group)) => {
                self.end_at = out.net.now + gossiper.interval();
                self.gossiper = Some(gossiper);
                ground.table.join(Some(group), now);
                while ground.table.settle_next(now) {}
            }
            Err(_) => {
                self.gossiper = None;
                self.end_at = Instant::MAX;
                ground.table.join(None, now);
                while ground.table.settle_next(now) {}
            }
        }
        self.say(ground, out);
    }

    /// When something is to be done next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let question = (!self.held.is_alone()).then_some(self.next_question);
        let end = Some(self.end_at).filter(|at| *at < Instant::MAX);
        [question, end, self.wake_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn drive(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = out.net.now;
        if !self.held.is_alone() && self.next_question <= now {
            self.next_question = now + ASK_INTERVAL;
            self.hold(ground, out);
        }
        if self.end_at <= now {
            self.end_interval(ground, out);
        }
        if self.wake_at.is_some_and(|at| at <= now) {
            self.say(ground, out);
        }
    }

    /// A datagram of the broker in place `from`.
    pub(super) fn heard(
        &mut self,
        from: usize,
        bytes: &[u8],
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        let (now, sender) = (ground.local(out.net.now), address(from));
        if let Some(answer) = self.speaker.take(&mut self.held, now, sender, bytes) {
            if let Some(answer) = answer {
                out.net.datagram(ground.me, from, answer);
            }
            return;
        }
        if let Some(gossiper) = &mut self.gossiper {
            gossiper.receive(now, sender, bytes);
            self.say(ground, out);
        }
    }

    /// Asks the others of the round, and holds on to what may be held on to.
    fn hold(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        for (to, question) in self.speaker.questions(&self.held, now) {
            send(to, question, ground, out);
        }
        if let Some((round, until)) = self.held.until() {
            prolong(&mut ground.table, Prolongation::Held { round, until }, now);
        }
    }

    /// Tells the others how much passes here, and takes the part of each limit that follows from what they said.
    fn end_interval(&mut self, ground: &mut Ground, out: &mut Outside) {
        let Some(gossiper) = &mut self.gossiper else {
            self.end_at = Instant::MAX;
            return;
        };
        let now = ground.local(out.net.now);
        let agreement = Agreement::default();
        let remotes = gossiper.remotes(&agreement);
        let (mut place, mut ends) = (0, Vec::new());
        let known = |number| remotes.get(&number).copied();
        while ground
            .table
            .end_next_interval(&mut place, now, known, &mut ends)
        {}
        gossiper.tell_estimates(now, &ends, &agreement);
        let interval = gossiper.interval();
        self.end_at = (self.end_at + interval).max(out.net.now + interval / 2);
        self.say(ground, out);
    }

    /// Does what is due, and sends what is to be said.
    fn say(&mut self, ground: &mut Ground, out: &mut Outside) {
        let Some(gossiper) = &mut self.gossiper else {
            self.wake_at = None;
            return;
        };
        gossiper.wake(ground.local(out.net.now));
        while let Some(transmit) = gossiper.next_transmit() {
            send(transmit.to, transmit.bytes().to_vec(), ground, out);
        }
        self.wake_at = gossiper.next_wake().map(|at| ground.outer(at));
    }
}

fn send(to: SocketAddr, bytes: Vec<u8>, ground: &Ground, out: &mut Outside) {
    if let Some(place) = place_of(&to.to_string()) {
        out.net.datagram(ground.me, place, bytes);
    }
}

/// All leases hear a word; now and then each hears those that it has missed.
pub(super) fn prolong(table: &mut TopicTable, by: Prolongation, now: Instant) {
    table.prolong_leases(by, now);
    while table.settle_next(now) {}
}

impl crate::network::Network {
    /// A datagram on its way: lost, late, twice, or overtaken by others.
    fn datagram(&mut self, from: Actor, to: usize, bytes: Vec<u8>) {
        let Actor::Broker(sender) = from else {
            return;
        };
        if !self.is_open(from.host(), Actor::Broker(to).host()) {
            return;
        }
        for _ in 0..self.copies() {
            let way = self.way();
            self.after(way, Event::Datagram(sender, to, bytes.clone()));
        }
    }
}
