//! Words with other brokers, in place of a UDP port and a task (`broker/sharing/intervals.rs`): which shares are held on to while the controller
//! is away, and what is told of limits that brokers share. What is said and believed is the product's own ([`Sharer`]), down to the sealed
//! bytes.

use std::net::SocketAddr;

use broker::sharing::{Held, Moment, Resolved, Sharer, SharingConfig};
use clock::Instant;
use limit::Prolongation;
use link::{Round, Sharers};
use topics::TopicTable;

use super::ground::Ground;
use super::{place_of, tcp_address};
use crate::event::{Actor, Event};
use crate::outside::Outside;

/// A process's gossip with other brokers.
pub(super) struct Gossip {
    sharer: Sharer,
    held: Held,
    /// When the estimate interval ends; never, before there is a list.
    end_at: Instant,
    /// When the sharer is to be woken.
    wake_at: Option<Instant>,
}

/// Where others gossip with the broker in a place.
#[must_use]
pub(super) fn address(place: usize) -> SocketAddr {
    let address = tcp_address(place).parse();
    address.expect("places have addresses")
}

/// Now by both clocks. The wall clock is the simulation's: a later process has a greater number.
fn moment(ground: &Ground, out: &Outside) -> Moment {
    (out.net.now.as_nanos(), ground.local(out.net.now))
}

impl Gossip {
    /// Of a process that was told nothing.
    pub(super) fn new(config: &SharingConfig, ground: &Ground, out: &Outside) -> Gossip {
        let me = Some(address(ground.place));
        Gossip {
            sharer: Sharer::new(config, me, moment(ground, out)),
            held: Held::default(),
            end_at: Instant::MAX,
            wake_at: (!config.join.is_empty()).then_some(out.net.now),
        }
    }

    /// The controller began a round.
    pub(super) fn told_round(&mut self, round: &Round, ground: &Ground, out: &Outside) {
        self.held.told(round, ground.local(out.net.now));
        self.wake_in_time(ground);
    }

    /// The round before which all are left.
    pub(super) fn left(&self, now: Instant) -> u64 {
        self.held.left(now)
    }

    /// The number of the list that is followed; 0: none.
    pub(super) fn generation(&self) -> u64 {
        self.sharer.follows().unwrap_or(0)
    }

    /// The controller says who shares limits by gossip.
    pub(super) fn told_sharers(
        &mut self,
        sharers: &Sharers,
        ground: &mut Ground,
        out: &mut Outside,
    ) {
        if self.sharer.follows() != Some(sharers.generation) {
            self.follow(sharers, ground, out);
            self.say(ground, out);
        }
    }

    /// A name of `--gossip-join` has an address.
    pub(super) fn resolved(&mut self, resolved: Resolved, ground: &Ground, out: &Outside) {
        self.sharer.resolved(resolved, ground.local(out.net.now));
    }

    /// Somebody says here that a broker is gone for good.
    pub(super) fn forget(&mut self, place: usize, ground: &Ground, out: &Outside) {
        let now = ground.local(out.net.now);
        self.sharer.forget(address(place), now);
    }

    /// The process ends in order.
    pub(super) fn leave(&mut self, ground: &mut Ground, out: &mut Outside) {
        self.sharer.leave();
        self.send(ground, out);
    }

    /// When something is to be done next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let end = Some(self.end_at).filter(|at| *at < Instant::MAX);
        [end, self.wake_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn drive(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = out.net.now;
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
        let now = ground.local(out.net.now);
        let sender = address(from);
        self.sharer.receive(&mut self.held, now, sender, bytes);
        self.say(ground, out);
    }

    fn follow(&mut self, sharers: &Sharers, ground: &mut Ground, out: &Outside) {
        let group = self.sharer.follow(sharers, moment(ground, out));
        self.end_at = match group {
            Some(_) => out.net.now + self.sharer.interval(),
            None => Instant::MAX,
        };
        ground.table.join(group, ground.local(out.net.now));
        while ground.table.settle_next(ground.local(out.net.now)) {}
    }

    /// Asks the others of the round, and holds on to what may be held on to.
    fn hold(&mut self, ground: &mut Ground, out: &Outside) {
        let now = ground.local(out.net.now);
        if let Some((round, until)) = self.sharer.ask(&self.held, now) {
            prolong(&mut ground.table, Prolongation::Held { round, until }, now);
        }
    }

    /// Tells the others how much passes here, and takes the part of each limit that follows from what they said.
    fn end_interval(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        let remotes = self.sharer.remotes();
        let (mut place, mut ends) = (0, Vec::new());
        let known = |number| remotes.get(&number).copied();
        while ground
            .table
            .end_next_interval(&mut place, now, known, &mut ends)
        {}
        self.sharer.ended(&ends, now);
        let interval = self.sharer.interval();
        self.end_at = (self.end_at + interval).max(out.net.now + interval / 2);
        self.say(ground, out);
    }

    /// Does what is due, and sends what is to be said.
    fn say(&mut self, ground: &mut Ground, out: &mut Outside) {
        let now = ground.local(out.net.now);
        self.sharer.wake(now);
        self.hold(ground, out);
        if let Some(sharers) = self.sharer.gather(now) {
            self.follow(&sharers, ground, out);
        }
        self.send(ground, out);
    }

    fn send(&mut self, ground: &Ground, out: &mut Outside) {
        self.sharer.transmit(|to, bytes| {
            if let Some(place) = place_of(&to.to_string()) {
                out.net.datagram(ground.me, place, bytes.to_vec());
            }
        });
        self.wake_in_time(ground);
    }

    fn wake_in_time(&mut self, ground: &Ground) {
        let wake = self.sharer.next_wake(&self.held);
        self.wake_at = wake.map(|at| ground.outer(at));
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
