//! The world: takes events in order, lets each end of a flow and each limiter do its part, and
//! records what happens.

use std::hash::Hasher;
use std::time::Duration;

use clock::{Instant, Streams, Xoshiro256PlusPlus, uniform};
use limit::sharing::{Limiter, Policy, Verdict};
use rustc_hash::FxHasher;

use super::chance::bounded_pareto;
use super::fabric::{Departure, Fabric};
use super::flow::Flow;
use super::network::{Link, SlowLink, at_s};
use super::outcome::{LimiterOutcome, Outcome};
use super::scenario::{Flows, Scenario};
use super::schedule::{Event, Schedule};
use crate::SimError;
use crate::gap::exponential_ns;
use crate::tcp::{Content, Segment};

/// How long a packet may take from its sender to the access link, at most. Without it flows fall into step.
const JITTER: Duration = Duration::from_micros(100);

/// Simulates a scenario.
///
/// # Errors
/// [`SimError::Scenario`], [`SimError::Sharing`], [`SimError::Limit`] for what cannot be.
pub fn run(scenario: &Scenario) -> Result<Outcome, SimError> {
    scenario.check()?;
    let mut world = World::new(scenario)?;
    world.begin();
    let end = at_s(scenario.duration_s);
    while let Some((now, event)) = world.schedule.next_until(end) {
        world.events += 1;
        world.happen(now, event);
    }
    Ok(world.outcome())
}

struct World<'a> {
    scenario: &'a Scenario,
    interval: Duration,
    bin_ns: u64,
    schedule: Schedule,
    /// One per limiter, or one for all of them.
    limiters: Vec<Box<dyn Limiter>>,
    links: Vec<Link>,
    bottlenecks: Vec<SlowLink>,
    flows: Vec<Flow>,
    web: Vec<Xoshiro256PlusPlus>,
    fabric: Fabric,
    departures: Vec<Departure>,
    jitter: Xoshiro256PlusPlus,
    noted: Vec<LimiterOutcome>,
    hash: FxHasher,
    events: u64,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, SimError> {
        let sharing = scenario.sharing()?;
        let interval = scenario.estimate_interval()?;
        let streams = Streams::new(scenario.seed);
        let deciding = match scenario.policy {
            Policy::Ctb => 1,
            _ => scenario.limiters,
        };
        let limiters: Result<Vec<_>, _> = (0..deciding)
            .map(|index| sharing.limiter(index, Instant::ZERO))
            .collect();
        let count = scenario.limiters as usize;
        Ok(World {
            scenario,
            interval,
            bin_ns: ((scenario.bin_ms * 1e6) as u64).max(1),
            schedule: Schedule::default(),
            limiters: limiters?,
            links: vec![Link::new(scenario.link_mbps); count],
            bottlenecks: scenario.bottlenecks.iter().map(SlowLink::new).collect(),
            flows: Vec::new(),
            web: (0..scenario.web.len())
                .map(|index| streams.stream(&format!("web-{index}")))
                .collect(),
            fabric: Fabric::new(deciding, scenario.updates, interval, scenario.seed),
            departures: Vec::new(),
            jitter: streams.stream("jitter"),
            noted: vec![LimiterOutcome::default(); count],
            hash: FxHasher::default(),
            events: 0,
        })
    }

    /// Schedules what the scenario says.
    fn begin(&mut self) {
        // Limiters have clocks of their own: their intervals do not end together.
        let mut phases = Streams::new(self.scenario.seed).stream("phases");
        for limiter in 0..self.limiters.len() as u32 {
            let at = Instant::ZERO + self.interval.mul_f64(uniform(&mut phases));
            self.schedule.add(at, Event::Estimate { limiter });
        }
        for kind in &self.scenario.flows {
            for number in 0..kind.count {
                let spacing_s = kind.spacing_ms / 1e3 * f64::from(number);
                let at = at_s(kind.start_s + spacing_s);
                let flow = self.flows.len() as u32;
                self.flows.push(Flow::new(kind, at, None));
                self.schedule.add(at, Event::Begin { flow });
                if let Some(stop_s) = kind.stop_s {
                    self.schedule.add(at_s(stop_s), Event::Stop { flow });
                }
            }
        }
        for sessions in 0..self.scenario.web.len() {
            let kind = &self.scenario.web[sessions];
            let start = at_s(kind.start_s);
            match kind.clients {
                None => self.await_web(start, sessions),
                Some(clients) => (0..clients).for_each(|_| {
                    let sessions = sessions as u32;
                    self.schedule.add(start, Event::Web { sessions });
                }),
            }
        }
        for cut in &self.scenario.cuts {
            let notice = Duration::from_secs_f64(cut.notice_ms / 1e3);
            for (at_s_, cut) in [(cut.at_s, true), (cut.heal_s, false)] {
                self.schedule.add(at_s(at_s_), Event::Cut { cut });
                self.schedule
                    .add(at_s(at_s_) + notice, Event::Noticed { cut });
            }
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Begin { flow } => {
                self.flows[flow as usize].sender.open(now);
                self.send(now, flow);
            }
            Event::Stop { flow } => self.flows[flow as usize].sender.stop(),
            Event::AtLink { flow, segment } => self.pass_link(now, now, flow, segment),
            Event::AtLimiter { flow, segment } => self.decide(now, flow, segment),
            Event::AtReceiver { flow, segment } => self.receive(now, flow, segment),
            Event::AtSender { flow, ack } => {
                self.flows[flow as usize].sender.acknowledged(now, ack);
                self.send(now, flow);
            }
            Event::SenderDue { flow } => {
                let at = &mut self.flows[flow as usize];
                if at.sender_alarm.rings(now) {
                    at.sender.expire(now);
                    self.send(now, flow);
                }
            }
            Event::ReceiverDue { flow } => self.answer_late(now, flow),
            Event::Web { sessions } => self.begin_web(now, sessions as usize),
            Event::Estimate { limiter } => self.estimate(now, limiter),
            Event::Update { from, to, message } => self.fabric.heard(from, to, message),
            Event::Cut { cut } => {
                let side = self.scenario.cuts.first().map(|cut| cut.first);
                self.fabric.cut(side.filter(|_| cut));
            }
            Event::Noticed { cut } => {
                if let Some(side) = self.scenario.cuts.first().map(|cut| cut.first) {
                    self.fabric.notice(side, cut);
                }
            }
        }
    }

    /// Puts on the wire what a sender wants to send.
    fn send(&mut self, now: Instant, flow: u32) {
        while let Some(segment) = self.flows[flow as usize].sender.next_segment(now) {
            let ready = now + JITTER.mul_f64(uniform(&mut self.jitter));
            let at = &mut self.flows[flow as usize];
            let Some(bottleneck) = at.bottleneck else {
                self.pass_link(now, ready, flow, segment);
                continue;
            };
            match self.bottlenecks[bottleneck].pass(ready, segment.ip_bytes()) {
                Some(passed) => self.schedule.add(passed, Event::AtLink { flow, segment }),
                None => at.outcome.drops_upstream += 1,
            }
        }
        let at = &mut self.flows[flow as usize];
        if at.sender.is_done() && at.outcome.finished.is_none() {
            at.outcome.finished = Some(now);
            if let Some(sessions) = at.session {
                self.fetch_next(now, sessions);
            }
        }
        let at = &mut self.flows[flow as usize];
        let deadline = at.sender.deadline();
        if at.sender_alarm.sets(deadline) {
            self.schedule
                .add(deadline.max(now), Event::SenderDue { flow });
        }
    }

    fn pass_link(&mut self, now: Instant, ready: Instant, flow: u32, segment: Segment) {
        let limiter = self.flows[flow as usize].limiter as usize;
        let passed = self.links[limiter].pass(ready.max(now), segment.ip_bytes());
        self.schedule
            .add(passed, Event::AtLimiter { flow, segment });
    }

    fn decide(&mut self, now: Instant, flow: u32, segment: Segment) {
        let at = &mut self.flows[flow as usize];
        let limiter = at.limiter as usize;
        let deciding = limiter.min(self.limiters.len() - 1);
        let bytes = segment.ip_bytes();
        let verdict = self.limiters[deciding].handle(now, u64::from(flow), f64::from(bytes));
        self.hash.write_u64(now.as_nanos());
        self.hash.write_u32(flow);
        let noted = &mut self.noted[limiter];
        match verdict {
            Verdict::Forward => {
                self.hash.write_u8(1);
                noted.forward((now.as_nanos() / self.bin_ns) as usize, bytes);
                let arrives = now + at.half_trip;
                self.schedule
                    .add(arrives, Event::AtReceiver { flow, segment });
            }
            Verdict::Drop => {
                self.hash.write_u8(0);
                noted.drops += 1;
                at.outcome.drops += 1;
            }
        }
    }

    fn receive(&mut self, now: Instant, flow: u32, segment: Segment) {
        let at = &mut self.flows[flow as usize];
        let before = at.receiver.received_bytes();
        let ack = at.receiver.receive(now, segment);
        if let Content::Data { .. } = segment.content {
            let bytes = at.receiver.received_bytes() - before;
            at.outcome.deliver(now, bytes);
        }
        if let Some(ack) = ack {
            let arrives = now + at.half_trip;
            self.schedule.add(arrives, Event::AtSender { flow, ack });
        }
        self.await_late_answer(flow);
    }

    fn answer_late(&mut self, now: Instant, flow: u32) {
        let at = &mut self.flows[flow as usize];
        if !at.receiver_alarm.rings(now) {
            return;
        }
        if let Some(ack) = at.receiver.expire(now) {
            let arrives = now + at.half_trip;
            self.schedule.add(arrives, Event::AtSender { flow, ack });
        }
        self.await_late_answer(flow);
    }

    fn await_late_answer(&mut self, flow: u32) {
        let at = &mut self.flows[flow as usize];
        let deadline = at.receiver.deadline();
        if at.receiver_alarm.sets(deadline) {
            self.schedule.add(deadline, Event::ReceiverDue { flow });
        }
    }

    fn await_web(&mut self, now: Instant, sessions: usize) {
        let kind = &self.scenario.web[sessions];
        let gap_ns = exponential_ns(&mut self.web[sessions], 1e9 / kind.per_s);
        let at = now + Duration::from_nanos(gap_ns as u64);
        if kind.stop_s.is_none_or(|stop_s| at < at_s(stop_s)) {
            let sessions = sessions as u32;
            self.schedule.add(at, Event::Web { sessions });
        }
    }

    /// A client that has what it asked for asks for the next.
    fn fetch_next(&mut self, now: Instant, sessions: u32) {
        let kind = &self.scenario.web[sessions as usize];
        let goes_on = kind.stop_s.is_none_or(|stop_s| now < at_s(stop_s));
        if kind.clients.is_some() && goes_on {
            self.schedule.add(now, Event::Web { sessions });
        }
    }

    fn begin_web(&mut self, now: Instant, sessions: usize) {
        let kind = &self.scenario.web[sessions];
        let random = &mut self.web[sessions];
        let bytes = bounded_pareto(random, kind.shape, kind.least_bytes, kind.most_bytes);
        let transfer = Flows {
            limiter: kind.limiter,
            rtt_ms: kind.rtt_ms,
            transfer_bytes: Some(bytes as u64),
            ..Flows::default()
        };
        let flow = self.flows.len() as u32;
        let (clients, stop_s) = (kind.clients, kind.stop_s);
        let new = Flow::new(&transfer, now, Some(sessions as u32));
        self.flows.push(new);
        self.flows[flow as usize].sender.open(now);
        self.send(now, flow);
        if clients.is_none() {
            self.await_web(now, sessions);
        } else if let Some(stop_s) = stop_s {
            self.schedule.add(at_s(stop_s), Event::Stop { flow });
        }
    }

    fn estimate(&mut self, now: Instant, limiter: u32) {
        let remote = self.fabric.remote(limiter);
        let deciding = &mut self.limiters[limiter as usize];
        let own = deciding.estimate(now, remote);
        let part = deciding.part();
        self.noted[limiter as usize].sample(now, part.rate.get(), own.demand());
        let mut departures = std::mem::take(&mut self.departures);
        self.fabric.end_interval(now, limiter, own, &mut departures);
        for Departure { at, to, message } in departures.drain(..) {
            let from = limiter;
            self.schedule.add(at, Event::Update { from, to, message });
        }
        self.departures = departures;
        self.schedule
            .add(now + self.interval, Event::Estimate { limiter });
    }

    fn outcome(self) -> Outcome {
        let (updates, updates_lost, control_bytes) = self.fabric.counts();
        let flows = self.flows.into_iter().map(|flow| {
            let mut outcome = flow.outcome;
            outcome.sender = flow.sender.counts();
            outcome
        });
        Outcome {
            hash: self.hash.finish(),
            duration_s: self.scenario.duration_s,
            bin_s: self.bin_ns as f64 * 1e-9,
            limiters: self.noted,
            flows: flows.collect(),
            updates,
            updates_lost,
            control_bytes,
            events: self.events,
        }
    }
}
