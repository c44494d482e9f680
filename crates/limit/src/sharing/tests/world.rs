//! Limiters, flows and the transport of demand between limiters, in virtual time.
//!
//! A flow is a rate that sends packets: greedy ones grow by a constant per second and halve when
//! something is dropped, once per round trip at most, as TCP does on the whole; steady ones do not
//! care. It is not TCP: nothing is retransmitted, there are no timeouts and no windows.

use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus, stream, uniform};
use rand::Rng;

use super::super::{Limiter, Remote, Sharing, Update, Verdict};
use super::peers::Peers;

/// A step of the world; flows send in it what they owe.
const STEP: Duration = Duration::from_millis(5);

/// What is left after a second of what gossip made of its sums: a change enters them at one limiter, N times too large.
const GOSSIP_MEMORY_1S: f64 = 0.01;

/// At most one halving in this time.
const ROUND_TRIP: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub limiter: usize,
    /// Units per second at present.
    pub rate: f64,
    /// What something else than the limiter lets it have.
    pub most: f64,
    /// Units per second that a greedy flow gains per second; 0 for a steady one.
    pub growth: f64,
    pub from: Instant,
    pub until: Instant,
    owed: f64,
    doubling: bool,
    halved_at: Instant,
    pub passed: f64,
    pub dropped: f64,
}

impl Flow {
    /// Takes what it gets, about `fair`, and asks for `growth` more every second.
    pub fn greedy(limiter: usize, fair: f64, growth: f64) -> Self {
        Flow {
            limiter,
            rate: fair / 16.0,
            most: f64::INFINITY,
            growth,
            from: Instant::ZERO,
            until: Instant::MAX,
            owed: 0.0,
            doubling: true,
            halved_at: Instant::ZERO,
            passed: 0.0,
            dropped: 0.0,
        }
    }

    /// Sends `rate` whatever happens.
    pub fn steady(limiter: usize, rate: f64) -> Self {
        Flow {
            rate,
            doubling: false,
            ..Flow::greedy(limiter, rate, 0.0)
        }
    }

    pub fn begins_at_s(self, second: f64) -> Self {
        Flow {
            from: at_s(second),
            ..self
        }
    }

    pub fn ends_at_s(self, second: f64) -> Self {
        Flow {
            until: at_s(second),
            ..self
        }
    }

    fn lives(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    fn grow(&mut self) {
        let seconds = STEP.as_secs_f64();
        if self.doubling {
            self.rate *= (seconds / ROUND_TRIP.as_secs_f64()).exp2();
        } else {
            self.rate += self.growth * seconds;
        }
        self.rate = self.rate.min(self.most);
    }

    fn lost(&mut self, now: Instant) {
        if self.growth > 0.0 && now - self.halved_at >= ROUND_TRIP {
            self.rate /= 2.0;
            self.doubling = false;
            self.halved_at = now;
        }
    }
}

/// How limiters hear of each other; always one interval late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Each hears the true sum.
    Oracle,
    /// Each hears each by name, and every update is lost with this probability.
    Named { loss: f64 },
    /// Push-sum over this many random others per interval.
    Gossip { branches: usize },
}

pub struct World {
    pub limiters: Vec<Box<dyn Limiter>>,
    pub flows: Vec<Flow>,
    order: Vec<usize>,
    /// Limiters that nobody hears any more, and that hear nobody.
    pub gone: Vec<bool>,
    pub now: Instant,
    /// Units that passed each limiter since the world began.
    pub passed: Vec<f64>,
    pub arrived: Vec<f64>,
    /// The demands as told at the last interval's end.
    pub told: Vec<Update>,
    interval: Duration,
    packet: f64,
    transport: Transport,
    peers: Vec<Peers>,
    mass: Vec<Mass>,
    estimated_at: Instant,
    random: Xoshiro256PlusPlus,
}

/// Push-sum's sums and weight at a limiter, and what it makes of them.
#[derive(Clone, Copy, Debug)]
struct Mass {
    demand: f64,
    passed: f64,
    weight: f64,
    smoothed: Update,
}

pub fn at_s(second: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(second)
}

impl World {
    pub fn new(
        sharing: &Sharing,
        transport: Transport,
        packet: f64,
        flows: Vec<Flow>,
        seed: u64,
    ) -> Self {
        let count = sharing.config().limiters;
        let limiters = (0..count)
            .map(|index| sharing.limiter(index, Instant::ZERO).expect("in range"))
            .collect();
        Self::of(limiters, sharing, transport, packet, flows, seed)
    }

    pub fn of(
        limiters: Vec<Box<dyn Limiter>>,
        sharing: &Sharing,
        transport: Transport,
        packet: f64,
        flows: Vec<Flow>,
        seed: u64,
    ) -> Self {
        let count = limiters.len();
        let nothing = Mass {
            demand: 0.0,
            passed: 0.0,
            weight: 1.0,
            smoothed: Update::default(),
        };
        let mut random = stream(seed, "world");
        let order = (0..flows.len()).collect();
        let flows = flows
            .into_iter()
            .map(|flow| Flow {
                owed: packet * uniform(&mut random),
                ..flow
            })
            .collect();
        World {
            limiters,
            flows,
            order,
            gone: vec![false; count],
            now: Instant::ZERO,
            passed: vec![0.0; count],
            arrived: vec![0.0; count],
            told: vec![Update::default(); count],
            interval: sharing.config().estimate_interval,
            packet,
            transport,
            peers: vec![Peers::new(sharing.config().limiters); count],
            mass: vec![nothing; count],
            estimated_at: Instant::ZERO,
            random,
        }
    }

    /// Runs until second `second` of the world.
    pub fn run_until_s(&mut self, second: f64) {
        while self.now < at_s(second) {
            self.step();
        }
    }

    /// Units per second that passed, per limiter, in the next `seconds`.
    pub fn passed_in_s(&mut self, seconds: f64) -> Vec<f64> {
        let before = self.passed.clone();
        let until = self.now.as_nanos() as f64 / 1e9 + seconds;
        self.run_until_s(until);
        let pairs = self.passed.iter().zip(before);
        pairs
            .map(|(after, before)| (after - before) / seconds)
            .collect()
    }

    /// Local limits, units per second.
    pub fn local_limits(&self) -> Vec<f64> {
        let rates = self
            .limiters
            .iter()
            .map(|limiter| limiter.part().rate.get());
        rates.collect()
    }

    pub fn step(&mut self) {
        // Who comes first gets the tokens: the order is another one in every step.
        for place in 0..self.order.len() {
            let other = self.random.next_u64() as usize % (place + 1);
            self.order.swap(place, other);
        }
        for place in 0..self.order.len() {
            self.send(self.order[place]);
        }
        self.now += STEP;
        if self.now - self.estimated_at >= self.interval {
            self.estimated_at = self.now;
            self.exchange();
        }
    }

    fn send(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if !flow.lives(self.now) {
            return;
        }
        flow.grow();
        // Some jitter, or flows and limiters fall into step.
        let jitter = 0.5 + uniform(&mut self.random);
        flow.owed += flow.rate * STEP.as_secs_f64() * jitter;
        while flow.owed >= self.packet {
            flow.owed -= self.packet;
            self.arrived[flow.limiter] += self.packet;
            let limiter = &mut self.limiters[flow.limiter];
            match limiter.handle(self.now, index as u64, self.packet) {
                Verdict::Forward => {
                    flow.passed += self.packet;
                    self.passed[flow.limiter] += self.packet;
                }
                Verdict::Drop => {
                    flow.dropped += self.packet;
                    flow.lost(self.now);
                }
            }
        }
    }

    /// Ends an interval at all limiters; what they say now is heard at the end of the next.
    fn exchange(&mut self) {
        let remotes: Vec<Remote> = (0..self.limiters.len()).map(|at| self.remote(at)).collect();
        let before = self.told.clone();
        for (at, remote) in remotes.into_iter().enumerate() {
            self.told[at] = self.limiters[at].estimate(self.now, remote);
        }
        match self.transport {
            Transport::Oracle => {}
            Transport::Named { loss } => self.tell_by_name(loss),
            Transport::Gossip { branches } => self.gossip(&before, branches),
        }
    }

    fn remote(&self, at: usize) -> Remote {
        let known = |of: &dyn Fn(fn(Update) -> f64) -> f64| {
            let known = Update::new(of(Update::demand).max(0.0), of(Update::passed).max(0.0));
            known.expect("sums of updates")
        };
        let connected = self.gone.iter().filter(|&&gone| !gone).count() as u32;
        let others = match self.transport {
            _ if self.gone[at] => {
                return Remote {
                    others: Update::default(),
                    connected: 1,
                };
            }
            Transport::Named { .. } => return self.peers[at].remote(),
            Transport::Oracle => known(&|field| {
                let present =
                    (0..self.told.len()).filter(|&other| other != at && !self.gone[other]);
                present.map(|other| field(self.told[other])).sum()
            }),
            Transport::Gossip { .. } => {
                known(&|field| field(self.mass[at].smoothed) - field(self.told[at]))
            }
        };
        Remote { others, connected }
    }

    fn tell_by_name(&mut self, loss: f64) {
        for from in 0..self.told.len() {
            for to in (0..self.told.len()).filter(|&to| to != from) {
                let peers = &mut self.peers[to];
                if self.gone[from] {
                    peers.lost(from);
                } else if uniform(&mut self.random) >= loss {
                    peers.heard(from, self.told[from]);
                }
            }
        }
    }

    /// Push-sum: each limiter keeps one part of its mass and sends the others away.
    fn gossip(&mut self, before: &[Update], branches: usize) {
        let count = self.mass.len();
        let parts = (branches + 1) as f64;
        let mut sent = Vec::with_capacity(count);
        for (at, mass) in self.mass.iter_mut().enumerate() {
            mass.demand = (mass.demand + self.told[at].demand() - before[at].demand()) / parts;
            mass.passed = (mass.passed + self.told[at].passed() - before[at].passed()) / parts;
            mass.weight /= parts;
            sent.push(*mass);
        }
        for (from, part) in sent.into_iter().enumerate() {
            for _ in 0..branches {
                let to = (from + 1 + self.random.next_u64() as usize % (count - 1)) % count;
                self.mass[to].demand += part.demand;
                self.mass[to].passed += part.passed;
                self.mass[to].weight += part.weight;
            }
        }
        let kept = GOSSIP_MEMORY_1S.powf(self.interval.as_secs_f64());
        for mass in &mut self.mass {
            let scale = count as f64 / mass.weight;
            let smoothed = |old: f64, sum: f64| (old * kept + sum * scale * (1.0 - kept)).max(0.0);
            let demand = smoothed(mass.smoothed.demand(), mass.demand);
            let passed = smoothed(mass.smoothed.passed(), mass.passed);
            mass.smoothed = Update::new(demand, passed).expect("sums of updates");
        }
    }
}
