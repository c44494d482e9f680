//! Exchanges and a network between them, in intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Streams, Xoshiro256PlusPlus, uniform};
use limit::sharing::Update;
use rand::Rng;

use super::super::*;

pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// What the network does to messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conduct {
    /// The part that is lost.
    pub(super) loss: f64,
    /// The part that comes twice.
    pub(super) twice: f64,
    /// Intervals that a message is under way at least and at most; 0: it is there before the next one ends.
    pub(super) delay: (u64, u64),
}

pub(super) struct Network {
    pub(super) limiters: Vec<Exchange>,
    pub(super) own: Vec<Update>,
    pub(super) conduct: Conduct,
    /// Messages pass only within a side.
    pub(super) sides: Vec<u8>,
    branches: Branches,
    interval: u64,
    under_way: BTreeMap<u64, Vec<(u32, u32, Message)>>,
    random: Xoshiro256PlusPlus,
    pub(super) heard: Vec<Heard>,
}

pub(super) fn own(demand: f64) -> Update {
    Update::new(demand, demand * 1000.0).expect("in range")
}

impl Network {
    /// Of limiters that are all connected, with demands of 0 to 5.
    pub(super) fn new(limiters: u32, branches: Branches, conduct: Conduct, seed: u64) -> Self {
        let mut random = Streams::new(seed).stream("network");
        let mut network = Network {
            limiters: (0..limiters)
                .map(|me| Exchange::new(limiters, me, branches, INTERVAL))
                .collect(),
            own: (0..limiters)
                .map(|_| own((random.next_u64() % 6) as f64))
                .collect(),
            conduct,
            sides: vec![0; limiters as usize],
            branches,
            interval: 0,
            under_way: BTreeMap::new(),
            random,
            heard: Vec::new(),
        };
        for me in 0..limiters {
            network.tell(me, |_| true, true);
        }
        network
    }

    /// Tells limiter `me` that those that `about` picks are connected, or not.
    pub(super) fn tell(&mut self, me: u32, about: impl Fn(u32) -> bool, connected: bool) {
        for peer in (0..self.limiters.len() as u32).filter(|peer| *peer != me && about(*peer)) {
            let exchange = &mut self.limiters[me as usize];
            match connected {
                true => exchange.connected(peer),
                false => exchange.disconnected(peer),
            }
        }
    }

    /// Puts every limiter from `first` on on a side of its own, or back, and tells all.
    pub(super) fn cut(&mut self, first: u32, apart: bool) {
        for me in 0..self.limiters.len() as u32 {
            let here = me >= first;
            self.sides[me as usize] = u8::from(here && apart);
            self.tell(me, |peer| (peer >= first) != here, !apart);
        }
    }

    /// Begins limiter `me` anew, as after a crash.
    pub(super) fn restart(&mut self, me: u32) {
        let limiters = self.limiters.len() as u32;
        self.limiters[me as usize] = Exchange::new(limiters, me, self.branches, INTERVAL);
        self.tell(me, |_| true, true);
        for other in (0..limiters).filter(|other| *other != me) {
            self.tell(other, |peer| peer == me, true);
        }
    }

    pub(super) fn run(&mut self, intervals: u32) {
        for _ in 0..intervals {
            self.step();
        }
    }

    fn step(&mut self) {
        for me in 0..self.limiters.len() {
            let mut sent = Vec::new();
            self.limiters[me].end_interval(self.own[me], &mut self.random, |to, message| {
                sent.push((me as u32, to, message));
            });
            for message in sent {
                self.send(message);
            }
        }
        let arrived = self.under_way.remove(&self.interval).unwrap_or_default();
        for (from, to, message) in arrived {
            if self.sides[from as usize] == self.sides[to as usize] {
                let heard = self.limiters[to as usize].heard(from, message);
                self.heard.push(heard);
            }
        }
        self.interval += 1;
    }

    fn send(&mut self, message: (u32, u32, Message)) {
        if self.chance(self.conduct.loss) {
            return;
        }
        let copies = 1 + u32::from(self.chance(self.conduct.twice));
        for _ in 0..copies {
            let (least, most) = self.conduct.delay;
            let delay = least + self.random.next_u64() % (most - least + 1);
            let arrives = self.under_way.entry(self.interval + delay).or_default();
            arrives.push(message);
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        uniform(&mut self.random) >= 1.0 - probability
    }

    /// How far each limiter's view of the sum of its side is off, its own number included, as a part of the sum.
    pub(super) fn errors(&self) -> Vec<f64> {
        let limiters = self.limiters.iter().enumerate();
        limiters
            .map(|(me, exchange)| {
                let side = |other: &usize| self.sides[*other] == self.sides[me];
                let peers = (0..self.own.len()).filter(side);
                let sum: f64 = peers.map(|other| self.own[other].demand()).sum();
                let remote = exchange.remote();
                let seen = remote.others.demand() + self.own[me].demand();
                (seen - sum).abs() / sum
            })
            .collect()
    }

    pub(super) fn worst(&self) -> f64 {
        self.errors().into_iter().fold(0.0, f64::max)
    }

    /// Demand, what passes and weight of all limiters and all messages under way, each with its absolute values' sum.
    pub(super) fn mass(&self) -> [f64; 3] {
        let mut sums = [0.0; 3];
        for exchange in &self.limiters {
            for (sum, part) in sums.iter_mut().zip(exchange.mass.parts()) {
                *sum += part;
            }
        }
        for (_, _, message) in self.under_way.values().flatten() {
            for (sum, part) in sums
                .iter_mut()
                .zip([message.demand, message.passed, message.weight])
            {
                *sum += f64::from(part);
            }
        }
        sums
    }
}
