//! Brokers that queue messages, around a [`Core`]: several topics, publishers that send what they
//! like, and a count of every second in which a promise was broken.

mod node;
mod seen;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use clock::{stream, uniform};
use link::{Door, Hello, Identity, ToBroker, ToController};
use model::ServiceModel;

use super::cluster::HOST;
use super::stage::{self, Stage, present};
use crate::core::{Core, Event, Probe, ProbeAnswer, Settings};
use crate::store::MemoryStore;
use crate::view::{PublisherSpec, Slo, TopicSpec};
use node::{Node, Waiting, Window};

/// Service time of a message: a broker carries 1,000 messages/s.
const SERVICE_NS: u64 = 1_000_000;

const IDENTITY: Identity = Identity([9; 16]);

const STEP_NS: u64 = 50_000_000;

/// Who sends: topic and id.
pub(super) type Who = (String, String);

pub(super) struct Sensor {
    spec: PublisherSpec,
    /// What it really sends, messages per second.
    pub(super) rate: f64,
    phase: f64,
    next_ns: u64,
    pub(super) at: Option<usize>,
    pub(super) moved: Vec<Instant>,
}

/// Deliveries of a topic in one second: all, late ones, and the latencies.
#[derive(Clone, Debug, Default)]
pub(super) struct Second {
    pub(super) delivered: u64,
    pub(super) late: u64,
}

pub(super) struct World {
    pub(super) core: Core,
    settings: Settings,
    kept: MemoryStore,
    links: u64,
    pub(super) now: Instant,
    pub(super) nodes: Vec<Node>,
    pub(super) sensors: BTreeMap<Who, Sensor>,
    pub(super) promises_us: BTreeMap<String, f64>,
    /// By topic and second.
    pub(super) seconds: BTreeMap<String, BTreeMap<u64, Second>>,
    /// By topic, the states that it was in: since when.
    pub(super) states: BTreeMap<String, Vec<(Instant, String)>>,
    pub(super) events: Vec<(Instant, String)>,
    pub(super) spawns: u32,
    /// Steps in which a promise that was not kept was called fitted.
    pub(super) lies: u32,
    /// Whether publishers declare their groups.
    pub(super) tells_groups: bool,
    /// When the test began what it is about.
    pub(super) began: Instant,
    seed: u64,
}

impl World {
    pub(super) fn new(brokers: usize, window: Duration, seed: u64) -> World {
        let now = Instant::from_nanos(1_000_000_000);
        let settings = Settings {
            profile_window: window,
            ..Settings::default()
        };
        let mut world = World {
            core: Core::restore(settings, &MemoryStore::default(), now).expect("nothing is kept"),
            settings,
            kept: MemoryStore::default(),
            links: 0,
            now,
            nodes: Vec::new(),
            sensors: BTreeMap::new(),
            promises_us: BTreeMap::new(),
            seconds: BTreeMap::new(),
            states: BTreeMap::new(),
            events: Vec::new(),
            spawns: 0,
            lies: 0,
            tells_groups: true,
            began: now,
            seed,
        };
        for _ in 0..brokers {
            world.join();
        }
        world
    }

    /// A broker joins.
    pub(super) fn join(&mut self) {
        self.nodes.push(Node::new(self.now));
        self.dial(self.nodes.len() - 1);
    }

    /// kill -9 of a broker: its host says so, its publishers ask where to go.
    pub(super) fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.is_dead = true;
        node.queue.clear();
        node.topics.clear();
        node.windows.clear();
        node.changes.clear();
        let (number, link, life) = (node.number, node.link, node.life);
        for sensor in self.sensors.values_mut() {
            sensor.at = sensor.at.filter(|&of| of != at);
        }
        self.core.link_lost(link, self.now);
        let probe = Probe {
            broker: number,
            life,
            door: Door::Clients,
            address: format!("10.0.0.{}:4150", at + 1),
            is_known: true,
        };
        self.core.probed(&probe, &ProbeAnswer::Refused, self.now);
        self.carry_out();
    }

    /// A broker says nothing any more, and its connections are gone; nothing proves that it is.
    pub(super) fn fall_silent(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.is_dead = true;
        node.queue.clear();
        for sensor in self.sensors.values_mut() {
            sensor.at = sensor.at.filter(|&of| of != at);
        }
    }

    /// kill -9 of the controller, which comes back with what it kept; all brokers dial it.
    pub(super) fn restart_controller(&mut self) {
        self.core = Core::restore(self.settings, &self.kept, self.now).expect("kept");
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_dead {
                continue;
            }
            let attached = self.sensors.iter();
            let attached = attached.filter(|(_, sensor)| sensor.at == Some(at));
            let attached = attached.map(|(who, _)| (who.clone(), true)).collect();
            let node = &mut self.nodes[at];
            (node.reports, node.changes) = (0, attached);
            self.dial(at);
        }
    }

    /// A broker says hello.
    fn dial(&mut self, at: usize) {
        let hello = Hello {
            broker: format!("b{}", at + 1),
            identity: IDENTITY,
            life: self.nodes[at].life,
            tcp_address: format!("10.0.0.{}:4150", at + 1),
            http_address: None,
            gossip_address: None,
            mcap: None,
            model: Some(ServiceModel {
                per_message_ns: SERVICE_NS as f64,
                per_batch_ns: 0.0,
                per_active_connection_ns: 0.0,
                base_ns: 0.0,
                servers: 1,
            }),
        };
        self.links += 1;
        let said = self.core.hello((self.links, HOST), &hello, self.now);
        let node = &mut self.nodes[at];
        (node.number, node.link) = (said.expect("a good hello"), self.links);
        self.carry_out();
    }

    /// Declares a topic with `count` publishers of `rate` messages/s, in groups of `size` that send `batch` messages each
    /// at the same instants; promised are `promise_ms` at p99, if anything.
    pub(super) fn topic(
        &mut self,
        topic: &str,
        promise_ms: Option<f64>,
        count: usize,
        (rate, batch, size): (f64, u32, usize),
    ) {
        let slo = promise_ms.map(|ms| Slo {
            percentile: 99.0,
            latency_us: ms * 1000.0,
        });
        if let Some(slo) = slo {
            self.promises_us.insert(topic.to_owned(), slo.latency_us);
        }
        let spec = TopicSpec {
            slo,
            ..TopicSpec::default()
        };
        self.core
            .put_topic(topic, spec, self.now)
            .expect("a good topic");
        let mut random = stream(self.seed, topic);
        let mut phases = Vec::new();
        let mut specs = Vec::new();
        for number in 0..count {
            let group = number / size;
            if phases.len() <= group {
                phases.push(uniform(&mut random));
            }
            let spec = PublisherSpec {
                id: format!("s{number:03}"),
                rate,
                batch,
                group: (size > 1 && self.tells_groups).then(|| format!("g{group}")),
            };
            specs.push(spec.clone());
            let sensor = Sensor {
                spec,
                rate,
                phase: phases[group],
                next_ns: 0,
                at: None,
                moved: Vec::new(),
            };
            self.sensors
                .insert((topic.to_owned(), specs[number].id.clone()), sensor);
        }
        self.core
            .put_publishers(topic, specs, self.now)
            .expect("good publishers");
        self.carry_out();
        self.connect();
    }

    /// All publishers of a topic send at another rate from now on.
    pub(super) fn rate(&mut self, topic: &str, rate: f64) {
        let now_ns = self.now.as_nanos();
        for ((of, _), sensor) in &mut self.sensors {
            if of == topic {
                sensor.rate = rate;
                sensor.next_ns = next_after(sensor, now_ns);
            }
        }
    }

    fn connect(&mut self) {
        let now_ns = self.now.as_nanos();
        let apart: Vec<Who> = self
            .sensors
            .iter()
            .filter(|(_, sensor)| sensor.at.is_none())
            .map(|(who, _)| who.clone())
            .collect();
        for who in apart {
            let Ok(index) = self.core.ask_place(&who.0, &who.1, None, self.now) else {
                continue;
            };
            let view = self.core.publisher_view(&who.0, index).expect("just found");
            let place = view.broker.and_then(|at| self.node_at(&at.tcp_address));
            let place = place.filter(|&at| !self.nodes[at].is_dead);
            let sensor = self.sensors.get_mut(&who).expect("known");
            sensor.at = place;
            sensor.next_ns = next_after(sensor, now_ns);
            if let Some(at) = place {
                self.nodes[at].changes.push((who, true));
            }
        }
        self.carry_out();
    }

    fn node_at(&self, address: &str) -> Option<usize> {
        (0..self.nodes.len()).find(|at| address == format!("10.0.0.{}:4150", at + 1))
    }

    pub(super) fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.step();
        }
    }

    /// Runs until all promised topics are in `state`; gives the seconds it took, `most` at most.
    pub(super) fn run_until(&mut self, state: &str, most: f64) -> f64 {
        let begin = self.now;
        let is_so = |world: &World| {
            world
                .promises_us
                .keys()
                .all(|topic| world.state(topic) == state)
        };
        while !is_so(self) && (self.now - begin).as_secs_f64() < most {
            self.step();
        }
        (self.now - begin).as_secs_f64()
    }

    pub(super) fn state(&self, topic: &str) -> String {
        self.core.topic_view(topic).expect("declared").state
    }

    fn step(&mut self) {
        self.connect();
        let begin_ns = self.now.as_nanos();
        self.now += Duration::from_nanos(STEP_NS);
        self.send_all(begin_ns + STEP_NS);
        self.deliver_all();
        self.answer_windows();
        self.report_all();
        self.core.tick(self.now);
        self.carry_out();
        self.note_states();
    }

    fn send_all(&mut self, end_ns: u64) {
        let mut sends = Vec::new();
        for (who, sensor) in &mut self.sensors {
            let Some(at) = sensor.at.filter(|_| sensor.rate > 0.0) else {
                continue;
            };
            while sensor.next_ns < end_ns {
                sends.push((sensor.next_ns, at, who.clone(), sensor.spec.batch));
                sensor.next_ns = next_after(sensor, sensor.next_ns);
            }
        }
        sends.sort();
        for (at_ns, at, (topic, id), batch) in sends {
            let node = &mut self.nodes[at];
            if let Some(window) = node
                .windows
                .get_mut(&topic)
                .filter(|window| window.with_trace)
            {
                window.arrivals.push((at_ns, id, batch));
            }
            let here = node.topics.entry(topic.clone()).or_default();
            here.messages += u64::from(batch);
            here.depth += u64::from(batch);
            for _ in 0..batch {
                node.free_at_ns = node.free_at_ns.max(at_ns) + SERVICE_NS;
                node.queue.push_back(Waiting {
                    done_ns: node.free_at_ns,
                    arrived_ns: at_ns,
                    topic: topic.clone(),
                });
            }
        }
    }

    fn deliver_all(&mut self) {
        let now_ns = self.now.as_nanos();
        for node in &mut self.nodes {
            while node
                .queue
                .front()
                .is_some_and(|head| head.done_ns <= now_ns)
            {
                let Some(message) = node.queue.pop_front() else {
                    break;
                };
                let latency_us = (message.done_ns - message.arrived_ns) as f64 / 1e3;
                let here = node.topics.entry(message.topic.clone()).or_default();
                here.depth -= 1;
                here.lateness.delivered += 1;
                let is_late = |promise_us: &f64| latency_us > *promise_us;
                here.lateness.late += u64::from(here.promise_us.as_ref().is_some_and(is_late));
                if let Some(window) = node.windows.get_mut(&message.topic)
                    && message.arrived_ns >= window.begin_ns
                {
                    window.latencies_us.push(latency_us);
                }
                let second = self
                    .seconds
                    .entry(message.topic.clone())
                    .or_default()
                    .entry(message.done_ns / 1_000_000_000)
                    .or_default();
                second.delivered += 1;
                let promise = self.promises_us.get(&message.topic);
                second.late += u64::from(promise.is_some_and(is_late));
            }
        }
    }

    fn answer_windows(&mut self) {
        for node in &mut self.nodes {
            for word in node.windows_over(self.now) {
                self.core.heard(node.number, word, self.now);
            }
        }
        self.carry_out();
    }

    fn report_all(&mut self) {
        for node in &mut self.nodes {
            if node.is_dead || self.now - node.reported_at < Duration::from_secs(1) {
                continue;
            }
            let report = node.report(&self.sensors, self.now);
            let word = ToController::Report(report);
            self.core.heard(node.number, word, self.now);
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        stage::carry_out(self);
    }
}

impl Stage for World {
    fn parts(&mut self) -> (&mut Core, &mut MemoryStore, Instant) {
        (&mut self.core, &mut self.kept, self.now)
    }

    fn order(&mut self, number: u32, message: ToBroker) {
        let now = self.now;
        let Some(at) = self.nodes.iter().position(|node| node.number == number) else {
            return;
        };
        match message {
            ToBroker::Welcome { life, .. } => self.nodes[at].life = life,
            ToBroker::Measure {
                window,
                topic,
                seconds,
                percentile,
                promise_us,
                with_trace,
            } => {
                let node = &mut self.nodes[at];
                node.topics.entry(topic.clone()).or_default().promise_us = promise_us;
                let open = Window {
                    number: window,
                    begin_ns: now.as_nanos(),
                    until: now + Duration::from_secs_f64(seconds),
                    seconds,
                    percentile,
                    with_trace,
                    latencies_us: Vec::new(),
                    arrivals: Vec::new(),
                };
                node.windows.insert(topic, open);
            }
            ToBroker::Migrate { topic, moves } => {
                for each in moves {
                    let to = self.node_at(&each.to).expect("a broker's address");
                    let who = (topic.clone(), each.publisher);
                    let sensor = self.sensors.get_mut(&who).expect("known");
                    if sensor.at != Some(at) {
                        continue;
                    }
                    sensor.at = Some(to);
                    sensor.moved.push(now);
                    self.nodes[at].changes.push((who.clone(), false));
                    self.nodes[to].changes.push((who, true));
                }
            }
            ToBroker::Contract { topic, ticket, .. } => {
                self.core
                    .heard(number, ToController::ContractInForce { topic, ticket }, now);
            }
            ToBroker::Topic { state, ticket } => {
                let topic = state.topic;
                let ready = ToController::TopicReady { topic, ticket };
                self.core.heard(number, ready, now);
            }
            _ => {}
        }
    }

    fn at(&self, probe: &Probe) -> Option<ProbeAnswer> {
        let broker = format!("b{}", probe.broker + 1);
        Some(present(broker, IDENTITY, probe))
    }

    fn spawned(&mut self) {
        self.spawns += 1;
    }

    fn told(&mut self, event: Event) {
        let (topic, broker) = (event.topic, event.broker);
        let text = format!("{} {topic:?} {broker:?}: {}", event.kind, event.text);
        self.events.push((self.now, text));
    }
}

/// When a sensor sends next after `at_ns`.
fn next_after(sensor: &Sensor, at_ns: u64) -> u64 {
    let period_ns = (1e9 * f64::from(sensor.spec.batch) / sensor.rate.max(1e-6)) as u64;
    let phase_ns = (sensor.phase * period_ns as f64) as u64;
    let turn = at_ns.saturating_sub(phase_ns) / period_ns + u64::from(at_ns >= phase_ns);
    turn * period_ns + phase_ns
}
