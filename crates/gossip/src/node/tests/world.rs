//! Nodes and a network between them, in virtual time.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;

use super::super::*;
use rand::Rng;

pub(super) const LIMIT: LimitId = LimitId(7);
pub(super) const INTERVAL: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(5);

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conduct {
    pub(super) loss: f64,
    pub(super) twice: f64,
    /// Least and most time under way, milliseconds.
    pub(super) delay_ms: (u64, u64),
}

pub(super) const CALM: Conduct = Conduct {
    loss: 0.0,
    twice: 0.0,
    delay_ms: (20, 20),
};

pub(super) const ROUGH: Conduct = Conduct {
    loss: 0.2,
    twice: 0.05,
    delay_ms: (5, 120),
};

/// A datagram as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) nodes: Vec<Option<Node>>,
    pub(super) demands: Vec<f64>,
    pub(super) conduct: Conduct,
    /// Datagrams pass only within a side.
    pub(super) sides: Vec<u8>,
    /// Everything that was sent, while this is set.
    pub(super) recording: Option<Vec<Sent>>,
    branches: Branches,
    ticks: u64,
    under_way: BTreeMap<(Instant, u64), Sent>,
    sent: u64,
    random: Xoshiro256PlusPlus,
}

pub(super) fn address(index: usize) -> SocketAddr {
    let [high, low] = (index as u16 + 1).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(10, 0, high, low), 4000))
}

pub(super) fn key(text: &str) -> Key {
    Key::from_passphrase(text).expect("not empty")
}

pub(super) fn config(
    limiters: usize,
    me: usize,
    branches: Branches,
    incarnation: u64,
) -> NodeConfig {
    NodeConfig {
        me: address(me),
        peers: (0..limiters).map(address).collect(),
        key: key("sesame"),
        branches,
        interval: INTERVAL,
        incarnation,
        seed: 5,
    }
}

pub(super) fn own(demand: f64) -> Update {
    Update::new(demand, demand).expect("in range")
}

impl World {
    pub(super) fn new(limiters: usize, branches: Branches, conduct: Conduct) -> Self {
        let mut world = World {
            now: Instant::from_nanos(1_000_000_000),
            nodes: Vec::new(),
            demands: (0..limiters)
                .map(|index| (index % 6) as f64 + 1.0)
                .collect(),
            conduct,
            sides: vec![0; limiters],
            recording: None,
            branches,
            ticks: 0,
            under_way: BTreeMap::new(),
            sent: 0,
            random: clock::stream(3, "world"),
        };
        for index in 0..limiters {
            let node = world.born(index, limiters, 1000);
            world.nodes.push(Some(node));
        }
        world
    }

    fn born(&self, index: usize, limiters: usize, incarnation: u64) -> Node {
        let config = config(limiters, index, self.branches, incarnation);
        let mut node = Node::new(config, self.now).expect("configured well");
        node.add_limit(LIMIT).expect("the first");
        node
    }

    pub(super) fn crash(&mut self, index: usize) {
        self.nodes[index] = None;
    }

    pub(super) fn start(&mut self, index: usize, incarnation: u64) {
        self.nodes[index] = Some(self.born(index, self.nodes.len(), incarnation));
    }

    pub(super) fn node(&mut self, index: usize) -> &mut Node {
        self.nodes[index].as_mut().expect("it runs")
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms / TICK.as_millis() as u64 {
            self.tick();
        }
    }

    /// Runs until the condition holds, at most `ms`; says how long it took.
    pub(super) fn run_until(&mut self, ms: u64, is_so: impl Fn(&World) -> bool) -> u64 {
        let mut taken = 0;
        while !is_so(self) {
            assert!(taken < ms, "not within {ms} ms");
            self.tick();
            taken += TICK.as_millis() as u64;
        }
        taken
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.ticks += 1;
        while let Some(first) = self
            .under_way
            .first_entry()
            .filter(|sent| sent.key().0 <= self.now)
        {
            let sent = first.remove();
            let index = |of: SocketAddr| (0..self.nodes.len()).find(|at| address(*at) == of);
            let Some(to) = index(sent.to) else { continue };
            let passes = index(sent.from).is_none_or(|from| self.sides[from] == self.sides[to]);
            if let Some(node) = self.nodes[to].as_mut().filter(|_| passes) {
                node.receive(self.now, sent.from, &sent.bytes);
            }
        }
        let interval_ticks = (INTERVAL.as_millis() / TICK.as_millis()) as u64;
        for index in 0..self.nodes.len() {
            let own = own(self.demands[index]);
            let now = self.now;
            let Some(node) = &mut self.nodes[index] else {
                continue;
            };
            node.wake(now);
            // Intervals do not end at the same time everywhere.
            if (self.ticks + index as u64).is_multiple_of(interval_ticks) {
                node.queue_updates(now, LIMIT, own).expect("added");
            }
            let mut out = Vec::new();
            while let Some(transmit) = node.poll_transmit() {
                out.push(Sent {
                    from: address(index),
                    to: transmit.to,
                    bytes: transmit.bytes().to_vec(),
                });
            }
            for sent in out {
                self.send(sent);
            }
        }
    }

    fn send(&mut self, sent: Sent) {
        if let Some(recording) = &mut self.recording {
            recording.push(sent.clone());
        }
        if self.chance(self.conduct.loss) {
            return;
        }
        let copies = 1 + u32::from(self.chance(self.conduct.twice));
        for _ in 0..copies {
            let (least, most) = self.conduct.delay_ms;
            let delay = Duration::from_millis(least + self.random.next_u64() % (most - least + 1));
            self.sent += 1;
            self.under_way
                .insert((self.now + delay, self.sent), sent.clone());
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        clock::uniform(&mut self.random) >= 1.0 - probability
    }

    /// Whether each node that runs has so many connected.
    pub(super) fn all_connected(&self, limiters: u32) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        nodes.all(|node| node.connected() == limiters && node.remote(LIMIT).connected == limiters)
    }

    /// The greatest error of a node's view of the sum of its side, as a part of it.
    pub(super) fn worst(&self) -> f64 {
        let mut worst = 0.0_f64;
        for (me, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let side = |other: &usize| {
                self.sides[*other] == self.sides[me] && self.nodes[*other].is_some()
            };
            let sum: f64 = (0..self.nodes.len())
                .filter(side)
                .map(|at| self.demands[at])
                .sum();
            let seen = node.remote(LIMIT).others.demand() + self.demands[me];
            worst = worst.max((seen - sum).abs() / sum);
        }
        worst
    }

    pub(super) fn totals(&self) -> Counters {
        let mut totals = Counters::default();
        for counters in self.nodes.iter().flatten().map(Node::counters) {
            totals.updates_sent += counters.updates_sent;
            totals.update_bytes_sent += counters.update_bytes_sent;
            totals.membership_sent += counters.membership_sent;
            totals.membership_bytes_sent += counters.membership_bytes_sent;
            totals.overflowed += counters.overflowed;
            totals.updates_received += counters.updates_received;
            totals.membership_received += counters.membership_received;
            totals.lost += counters.lost;
            totals.overtaken += counters.overtaken;
            totals.forged += counters.forged;
            totals.replayed += counters.replayed;
            totals.malformed += counters.malformed;
            totals.unknown_peer += counters.unknown_peer;
            totals.unknown_limit += counters.unknown_limit;
            totals.refused += counters.refused;
        }
        totals
    }
}
