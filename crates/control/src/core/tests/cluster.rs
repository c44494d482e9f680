//! Virtual brokers and publishers around a [`Core`]: they hold leases, follow migrations, and answer windows by
//! replaying what their publishers would have sent.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use clock::Instant;
use limit::{Limit, Share};
use link::{ToBroker, ToController, Traced, WindowReport};
use model::ServiceModel;
use placement::{Arrival, PublisherIndex, Trace, replay};

use super::stage::{self, Stage, present};
use super::virtual_broker::VirtualBroker;
use crate::core::{Core, Effect, Event, Probe, ProbeAnswer, Settings};
use crate::store::{Change, MemoryStore, Store, Table};
use crate::view::{Contract, PublisherSpec, Slo, TopicSpec};

pub(super) const TOPIC: &str = "telemetry";

/// Where all brokers dial from.
pub(super) const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The whole.
pub(super) struct Cluster {
    pub(super) core: Core,
    pub(super) kept: MemoryStore,
    pub(super) now: Instant,
    pub(super) brokers: Vec<VirtualBroker>,
    pub(super) truth: ServiceModel,
    /// Publishers by id: rate, batch, phase group.
    pub(super) sensors: BTreeMap<String, Sensor>,
    pub(super) limit: Option<Limit>,
    /// Nobody sends anything.
    pub(super) is_idle: bool,
    pub(super) moves: u32,
    pub(super) spawns: u32,
    pub(super) events: Vec<(&'static str, String)>,
    links: u64,
    /// The store takes nothing.
    pub(super) is_full: bool,
    /// What it did not take.
    waiting: Option<Vec<Change>>,
}

#[derive(Clone)]
pub(super) struct Sensor {
    pub(super) spec: PublisherSpec,
    pub(super) phase_ns: u64,
}

pub(super) fn settings() -> Settings {
    Settings {
        profile_window: Duration::from_secs(10),
        moves_per_s: 500.0,
        lease: Duration::from_secs(5),
        mcap: 20_000.0,
        ..Settings::default()
    }
}

impl Cluster {
    pub(super) fn new(brokers: usize) -> Cluster {
        let now = Instant::from_nanos(1_000_000_000);
        let mut cluster = Cluster {
            core: Core::restore(settings(), &MemoryStore::default(), now).expect("nothing is kept"),
            kept: MemoryStore::default(),
            now,
            brokers: Vec::new(),
            truth: ServiceModel {
                per_message_ns: 18_000.0,
                per_batch_ns: 0.0,
                per_active_connection_ns: 0.0,
                base_ns: 50_000.0,
                servers: 1,
            },
            sensors: BTreeMap::new(),
            limit: None,
            is_idle: false,
            moves: 0,
            spawns: 0,
            events: Vec::new(),
            links: 0,
            is_full: false,
            waiting: None,
        };
        for _ in 0..brokers {
            cluster.add_broker();
        }
        cluster
    }

    pub(super) fn add_broker(&mut self) -> usize {
        let index = self.brokers.len();
        self.brokers.push(VirtualBroker::new(index, self.now));
        self.start(index);
        index
    }

    /// Starts a broker's process: it knows nothing but the topics that it kept.
    pub(super) fn start(&mut self, index: usize) {
        self.brokers[index].start();
        self.dial(index);
    }

    /// A broker's process dials the controller.
    pub(super) fn dial(&mut self, index: usize) {
        self.links += 1;
        let broker = &mut self.brokers[index];
        let hello = broker.dial(self.links, self.truth);
        broker.number = self
            .core
            .hello((broker.link, HOST), &hello, self.now)
            .expect("a good hello");
        self.carry_out();
        self.say_inventory(index);
        self.carry_out();
    }

    fn say_inventory(&mut self, index: usize) {
        let broker = &self.brokers[index];
        let mut parts = broker.topics.states();
        let last = parts.split_off(parts.len() / 2);
        for (topics, is_last) in [(parts, false), (last, true)] {
            let inventory = ToController::Inventory { topics, is_last };
            self.core.heard(broker.number, inventory, self.now);
        }
    }

    /// kill -9: the process is gone, its host says so.
    pub(super) fn kill(&mut self, index: usize) {
        let broker = &mut self.brokers[index];
        broker.is_running = false;
        broker.attached.clear();
        let link = std::mem::take(&mut broker.link);
        self.core.link_lost(link, self.now);
        self.carry_out();
    }

    /// Declares the topic and its sensors: `groups` of `size` that send batches of 10 at 10 msg/s at the same instants.
    pub(super) fn workload(&mut self, sensors: usize, size: usize, spec: TopicSpec) {
        self.limit = spec.contract.limit;
        self.core
            .put_topic(TOPIC, spec, self.now)
            .expect("a good topic");
        let mut specs = Vec::new();
        for number in 0..sensors {
            let group = number / size;
            let spec = PublisherSpec {
                id: format!("s{number:04}"),
                rate: 10.0,
                batch: 10,
                group: Some(format!("g{group}")),
            };
            // Phases of the groups are spread by the golden ratio: even, yet never in step.
            let phase_ns = ((group as f64 * 0.618_033_988_75).fract() * 1e9) as u64;
            self.sensors.insert(
                spec.id.clone(),
                Sensor {
                    spec: spec.clone(),
                    phase_ns,
                },
            );
            specs.push(spec);
        }
        self.core
            .put_publishers(TOPIC, specs, self.now)
            .expect("good publishers");
        self.carry_out();
    }

    /// Every sensor that is connected nowhere asks for its place and connects there.
    pub(super) fn connect_sensors(&mut self) {
        let ids: Vec<String> = self.sensors.keys().cloned().collect();
        for id in ids {
            let is_attached = self
                .brokers
                .iter()
                .any(|broker| broker.attached.contains(&id));
            if is_attached {
                continue;
            }
            let Ok(index) = self.core.ask_place(TOPIC, &id, None, self.now) else {
                continue;
            };
            let view = self.core.publisher_view(TOPIC, index).expect("just found");
            let place = view
                .broker
                .and_then(|at| self.brokers.iter_mut().find(|b| b.name == at.broker));
            if let Some(broker) = place.filter(|broker| broker.is_running) {
                broker.attached.insert(id.clone());
                broker.changes.push((id, true));
            }
        }
        self.carry_out();
    }

    /// Lets time pass in steps of 100 ms, checking the law of shares at each.
    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.report_all();
            self.vouch_all();
            self.core.tick(self.now);
            self.carry_out();
            self.check_shares();
        }
    }

    /// Runs until `is_done`, at most `most`.
    pub(super) fn run_until(
        &mut self,
        most: Duration,
        is_done: impl Fn(&Cluster) -> bool,
    ) -> Duration {
        let begin = self.now;
        while !is_done(self) && self.now - begin < most {
            self.connect_sensors();
            self.run(Duration::from_millis(500));
        }
        self.now - begin
    }

    pub(super) fn state(&self) -> String {
        self.core.topic_view(TOPIC).expect("declared").state
    }

    /// The broker that sensors are connected to.
    pub(super) fn carrier(&self) -> usize {
        let all = self.brokers.iter();
        let found = all
            .into_iter()
            .position(|broker| !broker.attached.is_empty());
        found.expect("sensors are connected")
    }

    /// A limited topic on one broker, its sensors connected and its share granted.
    pub(super) fn carrying(brokers: usize) -> Cluster {
        let mut cluster = Cluster::new(brokers);
        cluster.workload(200, 10, promise(3000.0, 300.0, 1e6));
        cluster.connect_sensors();
        cluster.run(Duration::from_secs(5));
        cluster
    }

    /// Brokers that sensors are connected to.
    pub(super) fn carriers(&self) -> usize {
        self.brokers
            .iter()
            .filter(|broker| !broker.attached.is_empty())
            .count()
    }

    /// Σ shares in force ≤ limit, whatever else happens.
    pub(super) fn check_shares(&self) {
        let Some(limit) = self.limit else {
            return;
        };
        let held: Vec<Share> = self
            .brokers
            .iter()
            .filter(|broker| broker.is_running)
            .filter_map(|broker| broker.holder.in_force(self.now))
            .collect();
        let rate: f64 = held.iter().map(|share| share.rate.get()).sum();
        let burst: f64 = held.iter().map(|share| share.burst.get()).sum();
        assert!(
            rate <= limit.rate.get() * (1.0 + 1e-9) && burst <= limit.burst.get() * (1.0 + 1e-9),
            "shares of {rate} and {burst} exceed {limit} at {:?}",
            self.now
        );
    }

    fn report_all(&mut self) {
        for index in 0..self.brokers.len() {
            let broker = &mut self.brokers[index];
            let is_due = self.now - broker.reported_at >= Duration::from_secs(1)
                || !broker.changes.is_empty();
            let is_heard = broker.is_running && !broker.is_stopped && !broker.is_cut;
            if !is_heard || broker.link == 0 || !is_due {
                continue;
            }
            let sending = broker.attached.iter().filter(|_| !self.is_idle);
            let rate: f64 = sending.map(|id| self.sensors[id].spec.rate).sum();
            let report = broker.report(rate, self.now);
            let number = broker.number;
            self.core
                .heard(number, ToController::Report(report), self.now);
            self.answer_windows(index);
        }
        self.carry_out();
    }

    fn answer_windows(&mut self, index: usize) {
        let broker = &mut self.brokers[index];
        let number = broker.number;
        let due: Vec<_> = broker
            .windows
            .extract_if(.., |window| window.1 <= self.now)
            .collect();
        for (window, _, seconds, with_trace) in due {
            let (ids, trace) = self.trace_of(index, seconds);
            if with_trace {
                let arrivals = trace.arrivals.iter().map(|arrival| {
                    (
                        arrival.at_ns,
                        arrival.publisher.0,
                        u32::from(arrival.messages),
                    )
                });
                let part = Traced {
                    window,
                    topic: TOPIC.to_owned(),
                    publishers: ids,
                    arrivals: arrivals.collect(),
                };
                self.core.heard(number, ToController::Trace(part), self.now);
            }
            let share = self.brokers[index]
                .holder
                .in_force(self.now)
                .map(|share| (share.rate, share.burst));
            let mut latencies = replay(&trace, |_| true, share, &self.truth, 0.0);
            let report = WindowReport {
                window,
                topic: TOPIC.to_owned(),
                seconds,
                messages: latencies.messages(),
                latency_us: latencies.percentile_us(99.0),
                p50_us: latencies.percentile_us(50.0),
                samples: latencies.messages(),
                is_trace_cut: false,
            };
            self.core
                .heard(number, ToController::Window(report), self.now);
        }
    }

    /// What the sensors of a broker sent in the last `seconds`.
    fn trace_of(&self, index: usize, seconds: f64) -> (Vec<String>, Trace) {
        let ids: Vec<String> = self.brokers[index].attached.iter().cloned().collect();
        let (end_ns, span_ns) = (self.now.as_nanos(), (seconds * 1e9) as u64);
        let begin_ns = end_ns.saturating_sub(span_ns);
        let mut arrivals = Vec::new();
        for (number, id) in (0u32..).zip(&ids) {
            let sensor = &self.sensors[id];
            let period_ns = (1e9 * f64::from(sensor.spec.batch) / sensor.spec.rate) as u64;
            let first = begin_ns / period_ns * period_ns + sensor.phase_ns % period_ns;
            let mut at_ns = first;
            while at_ns < end_ns {
                if at_ns >= begin_ns {
                    arrivals.push(Arrival {
                        at_ns,
                        publisher: PublisherIndex(number),
                        messages: sensor.spec.batch as u16,
                    });
                }
                at_ns += period_ns;
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        (
            ids,
            Trace {
                arrivals,
                begin_ns,
                end_ns,
            },
        )
    }

    /// The store takes what it did not take before.
    pub(super) fn make_room(&mut self) {
        self.is_full = false;
        let waiting = self.waiting.take().unwrap_or_default();
        self.kept.commit(&waiting).expect("memory takes all");
        self.core.release();
    }

    /// kill -9 of the controller, and another one with what was kept; there is room.
    pub(super) fn restart(&mut self) {
        (self.is_full, self.waiting) = (false, None);
        self.core = Core::restore(settings(), &self.kept.clone(), self.now).expect("kept");
        for index in 0..self.brokers.len() {
            if self.brokers[index].is_running {
                self.dial(index);
            }
        }
    }

    pub(super) fn carry_out(&mut self) {
        stage::carry_out(self);
    }

    fn follow(&mut self, from: usize, id: &str, to: &str) {
        let target = self.brokers.iter().position(|broker| {
            broker.is_running && format!("10.0.0.{}:4150", &broker.name[1..]) == to
        });
        let Some(target) = target else {
            return;
        };
        if !self.brokers[from].attached.remove(id) {
            return;
        }
        self.moves += 1;
        self.brokers[from].changes.push((id.to_owned(), false));
        self.brokers[target].attached.insert(id.to_owned());
        self.brokers[target].changes.push((id.to_owned(), true));
    }
}

impl Stage for Cluster {
    fn parts(&mut self) -> (&mut Core, &mut MemoryStore, Instant) {
        (&mut self.core, &mut self.kept, self.now)
    }

    fn order(&mut self, number: u32, order: ToBroker) {
        let now = self.now;
        let mut brokers = self.brokers.iter();
        let Some(index) = brokers.position(|broker| broker.hears(number)) else {
            return;
        };
        if let ToBroker::Migrate { moves, .. } = &order {
            for each in moves {
                self.follow(index, &each.publisher, &each.to);
            }
        }
        if let Some(word) = self.brokers[index].obey(order, now) {
            self.core.heard(number, word, now);
        }
    }

    fn at(&self, probe: &Probe) -> Option<ProbeAnswer> {
        let mut running = self.brokers.iter().filter(|broker| broker.is_running);
        let (door, address) = (probe.door, &probe.address);
        Some(
            match running.find(|broker| broker.announced(door).as_ref() == Some(address)) {
                None => ProbeAnswer::Refused,
                Some(broker) if broker.shut.contains(&door) => ProbeAnswer::Silence,
                Some(broker) if broker.is_stopped || broker.is_cut => ProbeAnswer::Open,
                Some(broker) => present(broker.name.clone(), broker.identity, probe),
            },
        )
    }

    fn spawned(&mut self) {
        self.spawns += 1;
    }

    fn told(&mut self, event: Event) {
        self.events.push((event.kind, event.text));
    }

    /// Where the store is full: orders that rest on what is not kept are the service's to hold back.
    fn keep(&mut self) -> Vec<Effect> {
        let mut changes = self.core.take_changes();
        let mut effects = self.core.take_effects();
        if !self.is_full {
            self.kept.commit(&changes).expect("memory takes all");
            return effects;
        }
        if self.waiting.is_none() && !changes.is_empty() {
            effects = self.core.hold(effects);
            changes.append(&mut self.core.take_changes());
        }
        changes.retain(|change| change.table != Table::Shares);
        if !changes.is_empty() {
            self.waiting.get_or_insert_default().append(&mut changes);
        }
        effects
    }
}

pub(super) fn promise(rate: f64, burst: f64, latency_us: f64) -> TopicSpec {
    TopicSpec {
        contract: Contract::of_limit(Limit::messages(rate, burst).expect("a good limit")),
        slo: Some(Slo {
            percentile: 99.0,
            latency_us,
        }),
        ..TopicSpec::default()
    }
}
