//! Brokers, controller and network in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Instant, Streams, Xoshiro256PlusPlus};
use limit::{Exposure, LedgerConfig, Limit, Report, Share, Traffic, VOUCHED, oracle};
use rand::RngExt;

use crate::broker::{Broker, Skew};
use crate::controller::Controller;
use crate::network::{Letter, Network, Question, Text, Transport};
use crate::schedule::{self, Fault};

/// How long things go wrong.
const TROUBLE: Duration = Duration::from_secs(60);
const PLAN_INTERVAL: Duration = Duration::from_millis(500);
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Faults {
    None,
    All,
    AllAndLimits,
}

#[derive(Clone, Debug)]
enum Event {
    ReportTick(u32, u64),
    AskTick(u32, u64),
    Asked(Question),
    Arrives(Letter),
    PlanTick,
    LeaseEnds,
    DeathProved(u32, u64),
    Happens(Fault),
}

pub struct World {
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    events_made: u64,
    limit: Limit,
    /// The greatest limit so far, for windows that span changes.
    greatest: Exposure,
    /// What may be in force: the limit, or what was in force when it shrank.
    ceiling: Exposure,
    has_changed_limit: bool,
    config: LedgerConfig,
    brokers: Vec<Broker>,
    inboxes: Vec<Vec<Letter>>,
    questions: Vec<Vec<Question>>,
    controller: Controller,
    network: Network,
    random: Xoshiro256PlusPlus,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let streams = Streams::new(seed);
        let mut random = streams.stream("world");
        let count = random.random_range(1..=8u32);
        let limit = Limit::messages(
            f64::from(random.random_range(40..800u32)) / 4.0,
            f64::from(random.random_range(2..120u32)) / 2.0,
        )
        .expect("in range");
        let config = LedgerConfig {
            ttl: Duration::from_millis(random.random_range(2000..8000)),
            floor_fraction: [0.0, 0.5, 0.8, 1.0][random.random_range(0..4)],
            batch_tokens: f64::from(random.random_range(0..5u32)),
            period: Duration::from_millis(random.random_range(1000..5000)),
            ..LedgerConfig::default()
        };
        let worst_ppb = 0.9e9 * config.drift.as_secs_f64() / config.ttl.as_secs_f64();
        let brokers = (0..count).map(|_| {
            let skew = Skew {
                offset_ns: random.random_range(0..1_000_000_000_000),
                parts_per_billion: random.random_range(-worst_ppb..worst_ppb) as i64,
            };
            Broker::new(skew, random.random_range(0.1..10.0))
        });
        let brokers: Vec<Broker> = brokers.collect();
        let transport = [Transport::Datagrams, Transport::Links][(seed % 2) as usize];
        let network = Network::new(transport, brokers.len(), streams.stream("network"));
        let whole = Exposure::from(Some(Share::whole(&limit)));
        let mut world = World {
            now: Instant::ZERO,
            events: BTreeMap::new(),
            events_made: 0,
            greatest: whole,
            ceiling: whole,
            has_changed_limit: false,
            inboxes: vec![Vec::new(); brokers.len()],
            questions: vec![Vec::new(); brokers.len()],
            brokers,
            controller: Controller::new(limit, config, streams.stream("controller")),
            network,
            random,
            limit,
            config,
        };
        world.at(Instant::ZERO, Event::PlanTick);
        if faults == Faults::None {
            world.network.is_calm = true;
            for broker in 0..count {
                let at = Instant::ZERO + schedule::span(&mut world.random, 0.0, 1.0);
                world.at(at, Event::Happens(Fault::Start(broker)));
            }
        } else {
            let changes_limit = faults == Faults::AllAndLimits;
            let mut random = streams.stream("faults");
            for (at, fault) in schedule::draw(count, TROUBLE, &limit, changes_limit, &mut random) {
                world.at(at, Event::Happens(fault));
            }
        }
        world
    }

    pub fn ttl(&self) -> Duration {
        self.config.ttl
    }

    /// All that goes wrong.
    pub fn run_faults(&mut self) {
        self.run_for(TROUBLE);
    }

    /// Faults stop; whoever is still dead is proved so. Then as long as it may take until all is
    /// well.
    pub fn run_calm(&mut self) {
        self.network.is_calm = true;
        if self.controller.ledger.is_none() {
            self.happens(Fault::ControllerStart);
        }
        for broker in 0..self.brokers.len() as u32 {
            if self.network.cut[broker as usize] {
                self.happens(Fault::Mend(broker));
            }
            if self.network.apart[broker as usize] {
                self.happens(Fault::Rejoin(broker));
            }
            let is_stopped = self.brokers[broker as usize].is_stopped;
            if is_stopped {
                self.happens(Fault::Resume(broker));
            }
            if self.controller.has_left(broker) {
                self.happens(Fault::Return(broker));
            }
            if !self.brokers[broker as usize].is_alive {
                let life = self.brokers[broker as usize].life;
                self.controller.dead(broker, life);
            }
        }
        // What was sent before may still come.
        self.run_for(self.network.slowest);
        // A round is left before what is held on to is given up.
        let leaving = VOUCHED + Duration::from_millis(1500);
        self.run_for(2 * self.config.period + self.config.ttl + leaving);
    }

    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.step(event);
            self.check();
        }
        self.now = end;
        for broker in &mut self.brokers {
            broker.release(end);
        }
    }

    /// What each broker has in force.
    pub fn in_force(&self) -> Vec<Option<Share>> {
        let each = self.brokers.iter();
        each.map(|broker| broker.in_force(self.now)).collect()
    }

    pub fn restart_controller(&mut self) {
        self.happens(Fault::ControllerCrash);
        self.happens(Fault::ControllerStart);
    }

    /// Whether there is one broker only.
    pub fn is_alone(&self) -> bool {
        self.brokers.len() == 1
    }

    pub fn crash_controller(&mut self) {
        self.happens(Fault::ControllerCrash);
    }

    /// Cuts a broker off from the others.
    pub fn part(&mut self, broker: u32) {
        self.happens(Fault::Part(broker));
    }

    /// Cuts a broker off from the controller.
    pub fn cut(&mut self, broker: u32) {
        self.happens(Fault::Cut(broker));
    }

    /// All leases have ended.
    pub fn assert_floors(&self) {
        for broker in &self.brokers {
            assert_eq!(broker.in_force(self.now), broker.holder.floor());
        }
    }

    /// Of a broker that is not heard the floor is reserved, and no more is in use.
    pub fn assert_silent_has_a_floor(&self, id: u32) {
        let ledger = self.controller.ledger.as_ref().expect("alive");
        let broker = &self.brokers[id as usize];
        let floor = Exposure::from(broker.holder.floor());
        assert_eq!(ledger.exposure_of(id, self.now), floor, "broker {id}");
        if broker.is_alive {
            assert_eq!(broker.in_force(self.now), broker.holder.floor());
        }
    }

    /// All but the floor of one broker is in use by the others.
    pub fn assert_all_is_used_beside(&self, id: u32) {
        let used = self.used();
        let (rate, burst) = (self.limit.rate.get(), self.limit.burst.get());
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b;
        assert!(
            close(used.rate, rate) && close(used.burst, burst),
            "{used:?} beside {id}"
        );
    }

    /// A broker with a share, if another has one too.
    pub fn with_a_peer(&self) -> Option<u32> {
        let shares = self.in_force();
        let holders: Vec<usize> = (0..shares.len())
            .filter(|&at| shares[at].is_some())
            .collect();
        (holders.len() > 1).then(|| holders[0] as u32)
    }

    pub fn crash(&mut self, broker: u32, is_proved: bool) {
        self.happens(Fault::Crash(broker, is_proved.then_some(Duration::ZERO)));
    }

    /// Messages released, as part of what the limit would have allowed.
    pub fn utilisation(&self) -> f64 {
        let released: usize = self
            .brokers
            .iter()
            .map(|broker| broker.releases.len())
            .sum();
        released as f64 / (self.limit.rate.get() * (self.now - Instant::ZERO).as_secs_f64())
    }

    /// How much of the limit is in force.
    pub fn used(&self) -> Exposure {
        let mut sum = Exposure::default();
        for share in self.in_force().into_iter().flatten() {
            sum.rate += share.rate.get();
            sum.burst += share.burst.get();
        }
        sum
    }

    /// All of the limit is in force, but for what silent brokers keep.
    pub fn assert_all_is_used(&self, nobody_is_silent: bool) {
        let ledger = self.controller.ledger.as_ref().expect("alive");
        let silent = (0u32..)
            .zip(&self.brokers)
            .filter(|(_, broker)| !broker.is_alive);
        let reserved: Vec<Exposure> = silent
            .map(|(id, _)| ledger.exposure_of(id, self.now))
            .collect();
        let kept = |of: fn(&Exposure) -> f64| reserved.iter().map(of).sum::<f64>();
        let used = self.used();
        assert!(!nobody_is_silent || kept(|e| e.rate) + kept(|e| e.burst) == 0.0);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b;
        let sum = Exposure {
            rate: used.rate + kept(|e| e.rate),
            burst: used.burst + kept(|e| e.burst),
        };
        let is_all =
            close(sum.rate, self.limit.rate.get()) && close(sum.burst, self.limit.burst.get());
        assert!(is_all, "{sum:?} of {} is in use", self.limit);
    }

    /// Everybody has what the traffic says, to within what is not worth moving.
    pub fn assert_converged(&self) {
        let ledger = self.controller.ledger.as_ref().expect("alive");
        let alive: Vec<u32> = (0u32..)
            .zip(&self.brokers)
            .filter(|(_, broker)| broker.is_alive)
            .map(|(id, _)| id)
            .collect();
        if alive.is_empty() {
            return;
        }
        let targets: BTreeMap<u32, Option<Share>> = ledger.targets().into_iter().collect();
        for &id in &alive {
            let used = self.brokers[id as usize].in_force(self.now);
            assert_eq!(used, targets[&id], "broker {id}");
        }
        self.assert_all_is_used(true);
        let weights: f64 = alive
            .iter()
            .map(|&id| self.brokers[id as usize].weight)
            .sum();
        let served = alive.iter().filter(|id| targets[id].is_some()).count();
        if served < alive.len() || weights == 0.0 {
            return;
        }
        for &id in &alive {
            let wanted = self.limit.rate.get() * self.brokers[id as usize].weight / weights;
            let got = targets[&id].map_or(0.0, |share| share.rate.get());
            // 1 % of the even share is left to the idle, and 5 % are not worth moving.
            let is_close = (got - wanted).abs() <= 0.065 * wanted + 0.01 * self.limit.rate.get();
            assert!(is_close, "broker {id} has {got}, not {wanted}");
        }
    }

    /// All releases together, as of one bucket.
    pub fn assert_windows(&self) {
        let mut releases: Vec<Instant> = Vec::new();
        for broker in &self.brokers {
            releases.extend(&broker.releases);
        }
        releases.sort_unstable();
        let whole = self.greatest.to_share().expect("a limit");
        let excess = oracle::window_excess(&releases, whole.rate, whole.burst);
        assert!(excess < 1e-3, "{excess} tokens above {whole}");
    }

    fn check(&mut self) {
        let used = self.used();
        assert!(
            self.is_within(used, self.ceiling),
            "at {:?} {used:?} is in force, above {:?}",
            self.now,
            self.ceiling
        );
        let Some(ledger) = &self.controller.ledger else {
            return;
        };
        let exposed = ledger.exposure(self.now);
        // A datagram that was overtaken tells of a share that is gone: that is reserved once more,
        // too much for a while, though it is in nobody's use.
        assert!(
            self.is_within(exposed, self.ceiling) || self.network.transport == Transport::Datagrams,
            "{exposed:?}"
        );
        let whole = Exposure::from(Some(Share::whole(&self.limit)));
        if self.is_within(exposed, whole) {
            self.ceiling = whole;
        }
        for (id, broker) in (0u32..).zip(&self.brokers) {
            let used = Exposure::from(broker.in_force(self.now));
            let most = ledger.exposure_of(id, self.now);
            assert!(
                used.rate <= most.rate && used.burst <= most.burst,
                "at {:?} broker {id} uses {used:?}, more than the {most:?} that are reserved for it",
                self.now
            );
        }
    }

    /// Exactly; but shares of limits of different size add up with rounding.
    fn is_within(&self, sum: Exposure, bound: Exposure) -> bool {
        let slack = if self.has_changed_limit {
            1.0 + 1e-12
        } else {
            1.0
        };
        sum.rate <= bound.rate * slack && sum.burst <= bound.burst * slack
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.events_made += 1;
        self.events.insert((at, self.events_made), event);
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::ReportTick(broker, life) => self.tick(broker, life),
            Event::AskTick(broker, life) => self.ask(broker, life),
            Event::Asked(question) => self.asked(question),
            Event::Arrives(letter) => self.arrives(letter),
            Event::PlanTick => {
                self.plan();
                self.at(self.now + PLAN_INTERVAL, Event::PlanTick);
            }
            Event::LeaseEnds => {}
            Event::DeathProved(broker, life) => {
                self.controller.dead(broker, life);
                self.plan();
            }
            Event::Happens(fault) => self.happens(fault),
        }
    }

    fn plan(&mut self) {
        for broker in self.controller.begin_round(self.now) {
            self.tell_round(broker);
        }
        for (broker, grant) in self.controller.plan(self.now, !self.network.is_calm) {
            let Some((life, link)) = self.controller.heard_over(broker) else {
                continue;
            };
            self.send(Letter {
                broker,
                life,
                link,
                text: Text::Grant(grant),
            });
        }
    }

    fn send(&mut self, letter: Letter) {
        for at in self.network.arrivals(&letter, self.now) {
            self.at(at, Event::Arrives(letter.clone()));
        }
    }

    fn tell_round(&mut self, broker: u32) {
        let Some((life, link)) = self.controller.heard_over(broker) else {
            return;
        };
        let since = &self.controller.since;
        if !since.contains_key(&broker) {
            return;
        }
        let others = since.keys().copied().filter(|other| *other != broker);
        let text = Text::Round(self.controller.round, others.collect());
        self.send(Letter {
            broker,
            life,
            link,
            text,
        });
    }

    fn ask(&mut self, by: u32, life: u64) {
        let broker = &self.brokers[by as usize];
        if !broker.is_alive || broker.life != life {
            return;
        }
        self.at(self.now + ASK_INTERVAL, Event::AskTick(by, life));
        if self.brokers[by as usize].is_stopped {
            return;
        }
        let broker = &self.brokers[by as usize];
        let questions: Vec<Question> = broker
            .others
            .iter()
            .map(|&of| Question {
                by,
                life,
                of,
                round: broker.vouches.round(),
                asked_at: broker.skew.local(self.now),
                is_answer: false,
            })
            .collect();
        for question in questions {
            self.travel(question);
        }
    }

    fn travel(&mut self, question: Question) {
        for at in self.network.asked(&question, self.now) {
            self.at(at, Event::Asked(question));
        }
    }

    fn asked(&mut self, question: Question) {
        let to = match question.is_answer {
            true => question.by,
            false => question.of,
        };
        let broker = &mut self.brokers[to as usize];
        if !broker.is_alive {
            return;
        }
        if broker.is_stopped {
            self.questions[to as usize].push(question);
            return;
        }
        if !question.is_answer {
            if broker.vouches.vouches_for(question.round) {
                self.travel(Question {
                    is_answer: true,
                    ..question
                });
            }
            return;
        }
        let place = broker.others.iter().position(|&other| other == question.of);
        let Some(place) = place.filter(|_| question.life == broker.life) else {
            return;
        };
        broker
            .vouches
            .answered(question.round, place, question.asked_at);
        if let Some(ends) = broker.hold(self.now) {
            self.at(ends.max(self.now), Event::LeaseEnds);
        }
    }

    fn tick(&mut self, id: u32, life: u64) {
        let broker = &mut self.brokers[id as usize];
        if !broker.is_alive || broker.life != life {
            return;
        }
        if broker.is_stopped {
            broker.is_tick_missed = true;
            return;
        }
        broker.release(self.now);
        let local = broker.skew.local(self.now);
        let report = Report {
            number: broker.next_report,
            confirmed: broker.holder.confirmation(),
            held: broker.in_force(self.now),
            traffic: Traffic::new(broker.weight * 10.0, broker.weight * 3.0).expect("sane"),
        };
        broker.next_report += 1;
        broker.holder.report_sent(report.number, local);
        let letter = Letter {
            broker: id,
            life,
            link: broker.link,
            text: Text::Report(report, broker.vouches.left(local)),
        };
        self.send(letter);
        let next = self.now + schedule::span(&mut self.random, 0.95, 1.05);
        self.at(next, Event::ReportTick(id, life));
    }

    fn arrives(&mut self, letter: Letter) {
        let id = letter.broker as usize;
        let broker = &mut self.brokers[id];
        let is_connected = (letter.life, letter.link) == (broker.life, broker.link);
        if self.network.transport == Transport::Links && !(is_connected && broker.is_alive) {
            return;
        }
        match letter.text {
            Text::Report(report, left) => {
                let (life, link) = (letter.life, letter.link);
                self.controller
                    .hear(letter.broker, life, link, &report, left, self.now);
                self.plan();
                if self.network.transport == Transport::Datagrams || report.number == 1 {
                    self.tell_round(letter.broker);
                }
            }
            _ if !broker.is_alive => {}
            _ if broker.is_stopped => self.inboxes[id].push(letter),
            // What was told to a former life is not told to the next.
            Text::Round(..) if letter.life != broker.life => {}
            Text::Round(round, others) => broker.told(round, others, self.now),
            Text::Grant(grant) => {
                if let Some(ends) = broker.receive(&grant, self.now) {
                    self.at(ends.max(self.now), Event::LeaseEnds);
                }
            }
        }
    }

    fn happens(&mut self, fault: Fault) {
        match fault {
            Fault::Start(id) => self.start(id),
            Fault::Crash(id, proof) => {
                self.brokers[id as usize].release(self.now);
                self.brokers[id as usize].is_alive = false;
                self.inboxes[id as usize].clear();
                self.questions[id as usize].clear();
                if let Some(after) = proof {
                    let life = self.brokers[id as usize].life;
                    self.at(self.now + after, Event::DeathProved(id, life));
                }
            }
            Fault::Stop(id) => {
                self.brokers[id as usize].release(self.now);
                self.brokers[id as usize].is_stopped = true;
            }
            Fault::Resume(id) => {
                self.brokers[id as usize].resume(self.now);
                for letter in std::mem::take(&mut self.inboxes[id as usize]) {
                    self.arrives(letter);
                }
                for question in std::mem::take(&mut self.questions[id as usize]) {
                    self.asked(question);
                }
                let broker = &mut self.brokers[id as usize];
                if std::mem::take(&mut broker.is_tick_missed) {
                    let life = broker.life;
                    self.tick(id, life);
                }
            }
            Fault::Cut(id) => self.network.cut[id as usize] = true,
            Fault::Part(id) => self.network.apart[id as usize] = true,
            Fault::Rejoin(id) => self.network.apart[id as usize] = false,
            Fault::Mend(id) => {
                self.network.cut[id as usize] = false;
                self.break_link(id);
            }
            Fault::Leave(id) => {
                self.controller.leave(id, true, self.now);
                self.plan();
            }
            Fault::Return(id) => self.controller.leave(id, false, self.now),
            Fault::BreakLink(id) => self.break_link(id),
            Fault::Traffic(id, weight) => self.brokers[id as usize].weight = weight,
            Fault::ControllerCrash => self.controller.crash(),
            Fault::ControllerStart => {
                self.controller.start(self.limit, self.config, self.now);
                for id in 0..self.brokers.len() as u32 {
                    self.break_link(id);
                }
                if self.has_changed_limit {
                    // What was kept may be of before a lease ended under the old contract.
                    let ledger = self.controller.ledger.as_ref().expect("alive");
                    self.ceiling = greater(self.ceiling, ledger.exposure(self.now));
                }
            }
            Fault::SetLimit(limit) => self.set_limit(limit),
        }
    }

    fn start(&mut self, id: u32) {
        let broker = &mut self.brokers[id as usize];
        broker.link += 1;
        // Over links numbers may begin again: nothing of a former one is delivered.
        let first_report = match self.network.transport {
            Transport::Datagrams => (broker.life + 1) * 1_000_000,
            Transport::Links => 1,
        };
        broker.start(self.now, first_report);
        self.network.forget(id);
        let life = broker.life;
        self.tick(id, life);
        self.ask(id, life);
    }

    fn break_link(&mut self, id: u32) {
        if self.network.transport == Transport::Datagrams {
            return;
        }
        self.network.forget(id);
        self.inboxes[id as usize].clear();
        let broker = &mut self.brokers[id as usize];
        broker.link += 1;
        broker.next_report = 1;
    }

    fn set_limit(&mut self, limit: Limit) {
        let whole = Exposure::from(Some(Share::whole(&limit)));
        self.limit = limit;
        self.has_changed_limit = true;
        self.greatest = greater(self.greatest, whole);
        self.ceiling = greater(self.ceiling, whole);
        if let Some(ledger) = &mut self.controller.ledger {
            ledger.set_limit(limit);
        }
        self.plan();
    }
}

fn greater(a: Exposure, b: Exposure) -> Exposure {
    Exposure {
        rate: a.rate.max(b.rate),
        burst: a.burst.max(b.burst),
    }
}
