//! One limiter's side of the sums of one limit.
//!
//! *Mesh*: every limiter tells every other one its own numbers, and each adds up what it heard
//! last.
//!
//! *Random*: push-sum (Kempe, Dobra and Gehrke; DRL, section 3.1). A limiter holds a mass: sums,
//! and a weight that is 1 at first. Its own changes enter the sums. At the end of an interval it
//! divides the mass into equal parts, keeps one and sends the others to limiters picked at random.
//! Sums by weight go towards the mean of all limiters, as fast as a rumour spreads. A lost message
//! takes mass away; the next one from the same limiter is counted once for itself and once for each
//! that is missing before it (DRL, section 4.2).
//!
//! An *epoch* ends what that scaling cannot mend, and what a departed limiter leaves behind: all
//! begin anew from their own numbers, and use the old sums until the new ones have spread. Whoever
//! hears of a newer epoch joins it.
//!
//! Messages are numbered per receiver, over all epochs: a gap that began in the last epoch counts
//! in this one. It says how many messages of this sender get lost, and on average the mass stays
//! what it was. Gaps counted per epoch would miss most of the loss wherever two limiters meet only
//! a few times in it.

mod mass;
mod message;
mod sums;

use std::time::Duration;

use clock::Xoshiro256PlusPlus;
use limit::sharing::{Remote, Update};
use rand::Rng;

pub use message::{Branches, Heard, Message};

use mass::Mass;
use message::{believed, is_newer};
use sums::Sums;

/// One limiter's part in the sums of one limit. Peers are numbered from 0 to N − 1, and so is this one.
#[derive(Clone, Debug)]
pub struct Exchange {
    me: usize,
    branches: Branches,
    own: Update,
    /// As much of `own` as has entered the sums.
    told: Update,
    peers: Vec<Peer>,
    /// Who is connected, in any order.
    connected: Vec<u32>,
    mass: Mass,
    sums: Sums,
    epoch: u8,
    /// Intervals that the epoch has lasted.
    age: u32,
    /// The limiters that were connected when the epoch began, this one included: those that its sums are of.
    among: u32,
    /// Whether a limiter came or went since the epoch began.
    stale: bool,
    /// This limiter's weight, averaged: single ones fall far below 1 by chance.
    mean_weight: f64,
    /// Intervals since a message was found to be lost, or as if since then where only the weight tells; `None` if that is
    /// long ago.
    lossless_for: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    connected: bool,
    sent: u16,
    /// Number of the last message that was heard since it connected.
    heard: Option<u16>,
    /// In a mesh, what it said last.
    said: Update,
}

/// Intervals after which all begin anew in any case: what loss took from the sums, and rounding, is put right then.
const EPOCH_INTERVALS: u32 = 600;

/// The most lost messages that one makes up for.
const MOST_LOST: u16 = 16;

/// How far the mean weight may be from 1, up or down, before all begin anew.
const WEIGHT_RUNS_AWAY: f64 = 1e3;

/// The part of the mean weight that stays from one interval to the next.
const WEIGHT_KEPT: f64 = 0.9;

/// The mean weight below which messages must have got lost, whether a gap was seen or not: among many limiters two meet
/// seldom, so gaps are seen late, and changes that enter by more than the weight that is left seem as many times as large.
/// Messages under way for three intervals and more may look alike. With one branch weights swing as far by chance.
const WEIGHT_OF_LOSS: f64 = 0.25;

/// How long so small a weight counts as loss, intervals.
const WEIGHT_TELLS_INTERVALS: u32 = 100;

/// The part of a mass that is renewed in each interval while messages get lost.
const RENEWED: f64 = 0.01;

/// The part of the mean weight below which a mass says nothing of the others.
const WORN: f64 = 0.03;

/// How far sums may be off when they count as spread, as a part of them.
const SPREAD_ERROR: f64 = 0.005;

impl Exchange {
    /// Of limiter `me` of `limiters`; all others count as disconnected until [`Exchange::connected`]. `interval`: the
    /// time between two calls of [`Exchange::end_interval`].
    pub fn new(limiters: u32, me: u32, branches: Branches, interval: Duration) -> Self {
        let limiters = limiters.max(1);
        let branches = match branches {
            Branches::Random(branches) if u32::from(branches) + 1 < limiters => {
                Branches::Random(branches.max(1))
            }
            _ => Branches::Mesh,
        };
        Exchange {
            me: me as usize,
            branches,
            own: Update::default(),
            told: Update::default(),
            peers: vec![Peer::default(); limiters as usize],
            connected: Vec::with_capacity(limiters as usize),
            mass: Mass::of(Update::default()),
            sums: Sums::new(interval),
            epoch: 0,
            age: 0,
            among: 1,
            stale: false,
            mean_weight: 1.0,
            lossless_for: None,
        }
    }

    /// Ends an interval in which this limiter found `own`: what to send, and to whom.
    pub fn end_interval(
        &mut self,
        own: Update,
        random: &mut Xoshiro256PlusPlus,
        mut send: impl FnMut(u32, Message),
    ) {
        if self.branches == Branches::Mesh {
            self.own = own;
            return self.tell_all(&mut send);
        }
        self.age = self.age.saturating_add(1);
        self.settle();
        self.change(own);
        self.mean_weight =
            self.mean_weight * WEIGHT_KEPT + self.mass.weight() * (1.0 - WEIGHT_KEPT);
        if self.is_due() {
            self.begin(self.epoch.wrapping_add(1));
        }
        self.tell_some(random, &mut send);
    }

    /// Takes in what limiter `from` said.
    pub fn heard(&mut self, from: u32, message: Message) -> Heard {
        let is_mesh = self.branches == Branches::Mesh;
        let Some(peer) = self.peers.get_mut(from as usize) else {
            return Heard::Refused;
        };
        let Some(update) = believed(message, is_mesh) else {
            return Heard::Refused;
        };
        if !peer.connected {
            return Heard::Refused;
        }
        let ahead = match peer.heard {
            Some(last) => message.sequence.wrapping_sub(last),
            None => 1,
        };
        if ahead == 0 || ahead > u16::MAX / 2 {
            return Heard::Overtaken;
        }
        peer.heard = Some(message.sequence);
        peer.said = update;
        let lost = (ahead - 1).min(MOST_LOST);
        if is_mesh {
            return Heard::Counted { lost };
        }
        if message.epoch != self.epoch {
            if !is_newer(message.epoch, self.epoch) {
                return Heard::Overtaken;
            }
            // Who comes into an epoch that others began long ago, with sums that may hold its numbers of an earlier life,
            // has all begin anew.
            let is_newcomer = !self.sums.are_known();
            self.begin(message.epoch);
            self.stale = is_newcomer;
        }
        if lost > 0 {
            self.lossless_for = Some(0);
        }
        let times = f64::from(lost) + 1.0;
        self.mass.take(update, message.weight.into(), times);
        Heard::Counted { lost }
    }

    /// Limiter `peer` is there, or there again. What it says counts from now on, wherever its
    /// numbers begin. Its 1/N comes with its numbers: in a mesh with its first message, among sums
    /// when those of an epoch that began later have spread.
    pub fn connected(&mut self, peer: u32) {
        if peer as usize == self.me {
            return;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else {
            return;
        };
        if !state.connected {
            self.connected.push(peer);
        }
        *state = Peer {
            connected: true,
            sent: state.sent,
            ..Peer::default()
        };
        if self.age == 0 {
            self.among = self.limiters_connected();
        }
        self.stale = true;
    }

    /// Limiter `peer` is gone: its numbers count as 0, and 1/N of the limit goes with it (DRL, section 5.6). In a mesh
    /// both happen at once. Among sums its demand stays until the next epoch's sums have spread: till then the others seem
    /// to need more than they do, so parts of a network whose sums are renewed one after the other never have more than
    /// the limit together. What passes is taken to have shrunk with the limit.
    pub fn disconnected(&mut self, peer: u32) {
        let Some(state) = self.peers.get_mut(peer as usize) else {
            return;
        };
        if state.connected {
            state.connected = false;
            self.connected.retain(|other| *other != peer);
            self.stale = true;
        }
    }

    /// The demand of the others, as far as it is known here. A limiter that was never heard does
    /// not count as connected: beside limiters of which nothing is known this one keeps to its 1/N.
    pub fn remote(&self) -> Remote {
        match self.branches {
            Branches::Mesh => self.remote_of_mesh(),
            Branches::Random(_) => {
                let sums = self.latest_sums();
                let connected = self.limiters_connected();
                Remote {
                    others: sums.others(connected),
                    connected: sums.among().clamp(1, connected),
                }
            }
        }
    }

    /// Intervals that a new epoch's sums take to spread, with parts that arrive before the next interval ends. The error
    /// falls by the root of the number of parts in each.
    pub fn spreading_intervals(&self) -> u32 {
        let Branches::Random(branches) = self.branches else {
            return 1;
        };
        let worst = (self.peers.len() as f64).sqrt() / SPREAD_ERROR;
        let per_interval = 0.5 * (f64::from(branches) + 1.0).ln();
        (worst.ln() / per_interval).ceil() as u32 + 2
    }

    fn has_spread(&self) -> bool {
        self.age >= self.spreading_intervals()
    }

    fn limiters_connected(&self) -> u32 {
        self.connected.len() as u32 + 1
    }

    fn remote_of_mesh(&self) -> Remote {
        let mut demand = 0.0;
        let mut passed = 0.0;
        let mut connected = 1;
        for peer in &self.connected {
            let peer = &self.peers[*peer as usize];
            demand += peer.said.demand();
            passed += peer.said.passed();
            connected += u32::from(peer.heard.is_some());
        }
        Remote {
            others: sums::update(demand, passed),
            connected,
        }
    }

    /// The sums with the mass as it is now.
    fn latest_sums(&self) -> Sums {
        let mut sums = self.sums;
        // A limiter that has heard nobody for some intervals has given nearly all away: its own changes would count for
        // the whole network's in what is left.
        let is_worn = self.mass.mixed_weight() < WORN * self.mean_weight;
        if self.has_spread() && !is_worn {
            sums.take(&self.mass, self.told, self.among);
        }
        sums
    }

    fn settle(&mut self) {
        self.sums = self.latest_sums();
    }

    /// The limiter's own numbers become `own`. While nothing is lost all weights together are N,
    /// and a change enters the sums unscaled. With loss they drift, by chance and because one
    /// message can make up only for those that it shows to be missing; then a change enters by the
    /// weight that is here, and the mass is renewed little by little, so that errors are forgotten.
    fn change(&mut self, own: Update) {
        let lossless_for = self.lossless_for.map(|intervals| intervals + 1);
        self.lossless_for = lossless_for.filter(|intervals| *intervals < EPOCH_INTERVALS);
        if self.mean_weight < WEIGHT_OF_LOSS && self.branches != Branches::Random(1) {
            let told = EPOCH_INTERVALS - WEIGHT_TELLS_INTERVALS;
            self.lossless_for = Some(self.lossless_for.map_or(told, |gap| gap.min(told)));
        }
        if self.lossless_for.is_some() {
            self.mass.renew(self.told, RENEWED);
            self.told = self.mass.change(self.told, own, self.mean_weight);
        } else {
            self.told = self.mass.change(self.told, own, 1.0);
        }
        self.own = own;
    }

    fn is_due(&self) -> bool {
        let runs_away = !(1.0 / WEIGHT_RUNS_AWAY..WEIGHT_RUNS_AWAY).contains(&self.mean_weight);
        let settled = self.age >= 2 * self.spreading_intervals();
        (settled && (self.stale || runs_away)) || self.age >= EPOCH_INTERVALS
    }

    fn begin(&mut self, epoch: u8) {
        if self.has_spread() {
            self.settle();
        }
        self.sums.hold();
        self.epoch = epoch;
        self.age = 0;
        self.among = self.limiters_connected();
        self.stale = false;
        self.mean_weight = 1.0;
        self.mass = Mass::of(self.own);
        self.told = self.own;
    }

    fn tell_all(&mut self, send: &mut impl FnMut(u32, Message)) {
        let (demand, passed) = mass::carried_own(self.own);
        for to in &self.connected {
            let peer = &mut self.peers[*to as usize];
            peer.sent = peer.sent.wrapping_add(1);
            send(
                *to,
                Message {
                    sequence: peer.sent,
                    epoch: 0,
                    demand,
                    passed,
                    weight: 0.0,
                },
            );
        }
    }

    fn tell_some(&mut self, random: &mut Xoshiro256PlusPlus, send: &mut impl FnMut(u32, Message)) {
        let Branches::Random(branches) = self.branches else {
            return;
        };
        let others = self.connected.len();
        let picked = others.min(branches.into());
        let part = self.mass.divide(picked as u32);
        for place in 0..picked {
            // The first places of a shuffle.
            let left = (others - place) as u64;
            let from = place + (random.next_u64() % left) as usize;
            self.connected.swap(place, from);
            let to = self.connected[place];
            let peer = &mut self.peers[to as usize];
            peer.sent = peer.sent.wrapping_add(1);
            send(
                to,
                Message {
                    sequence: peer.sent,
                    epoch: self.epoch,
                    demand: part.demand,
                    passed: part.passed,
                    weight: part.weight,
                },
            );
        }
    }
}

#[cfg(test)]
mod tests;
