//! All participants, and the loop that lets events happen one after the other.

mod ending;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::{Instant, Streams};
use control::core::{Probe, ProbeAnswer};
use control::service::Next;
use link::{Door, Present, TopicChange};

use crate::Simulated;
use crate::broker::{Broker, MessageDisk, place_of};
use crate::chance::Chance;
use crate::consumer::Consumer;
use crate::controller::Controller;
use crate::event::{Actor, Ask, Event, StreamId};
use crate::faults;
use crate::laws::Books;
use crate::laws::gossip::heard_after;
use crate::laws::limits::Bound;
use crate::network::{Delivery, Host, Network};
use crate::operator::Operator;
use crate::outside::Outside;
use crate::plan::{CHANNELS, Plan};
use crate::publisher::Publisher;
use ending::Stage;

/// The run begins here; instants before it are good for nothing.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// Between two looks at what must hold.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A cluster, its clients, and what is between them.
pub struct World {
    plan: Plan,
    out: Outside,
    controller: Controller,
    brokers: Vec<Broker>,
    publishers: Vec<Publisher>,
    consumers: Vec<Consumer>,
    operator: Operator,
    /// Hosts whose processes are stopped, with what has happened to them since.
    paused: BTreeMap<Host, Vec<Event>>,
    /// Faults that are not mended yet: processes that are to be started again.
    down: BTreeSet<Actor>,
    /// The broker that stays lost.
    lost: Option<usize>,
    /// Promises of which something was said since.
    answered: BTreeSet<String>,
    stage: Stage,
    events: u64,
    hash: u64,
    /// What happens is printed.
    is_traced: bool,
}

impl Simulated for World {
    fn step(&mut self) -> bool {
        if self.out.books.violation().is_some() || self.stage == Stage::Over {
            return false;
        }
        let Some((at, event)) = self.out.net.agenda.pop() else {
            self.out
                .books
                .breaks("liveness", String::from("nothing happens any more"));
            return false;
        };
        self.out.net.now = self.out.net.now.max(at);
        self.out.books.now = self.out.net.now;
        if let Some(backlog) = self
            .host_of(&event)
            .and_then(|host| self.paused.get_mut(&host))
        {
            backlog.push(event);
            return true;
        }
        self.events += 1;
        self.note(&event);
        self.happen(event);
        true
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn books(&self) -> &Books {
        &self.out.books
    }

    fn messages(&self) -> usize {
        self.out.books.deliveries.count()
    }

    fn age(&self) -> Duration {
        self.out.net.now - BEGIN
    }

    fn hash(&self) -> u64 {
        self.hash
    }
}

impl World {
    /// The world of a plan, before its first event.
    #[must_use]
    pub fn new(plan: Plan, is_traced: bool) -> World {
        let streams = Streams::new(plan.seed);
        let mut books = Books::default();
        books.limits.memory = plan.settings().lease * 4;
        if plan.disk_bytes.is_some() {
            books.deliveries.on_disks();
        }
        books.heard_after = heard_after(plan.gossip, plan.brokers);
        let out = Outside {
            net: Network::new(&streams, plan.weather, BEGIN),
            books,
            chance: Chance::new(&streams, "processes"),
            in_bytes: plan.in_bytes,
        };
        let controller = Controller::new(plan.settings(), &streams);
        let stray = Broker::stray(plan.brokers, &streams);
        let mut brokers: Vec<Broker> = (0..plan.brokers)
            .map(|place| Broker::new(place, &streams))
            .collect();
        for broker in &mut brokers {
            broker.has_folder = plan.have_folders;
        }
        brokers.push(stray);
        if let Some(bytes_max) = plan.disk_bytes {
            for broker in &mut brokers {
                broker.disk = Some(MessageDisk::new(broker.place, bytes_max, &streams));
            }
        }
        let mut world = World {
            out,
            controller,
            brokers,
            publishers: Vec::new(),
            consumers: Vec::new(),
            operator: Operator::default(),
            paused: BTreeMap::new(),
            down: BTreeSet::new(),
            lost: None,
            answered: BTreeSet::new(),
            stage: Stage::Declaring,
            events: 0,
            hash: plan.seed,
            is_traced,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.out.net.begins(Actor::Operator, 1);
        self.controller.start(&mut self.out);
        for broker in &mut self.brokers[..self.plan.brokers] {
            broker.start(&mut self.out);
        }
        for topic in self.plan.topics.clone() {
            let put = Ask::PutTopic(topic.name.clone(), topic.spec(1.0));
            self.operator.wish(put, &mut self.out);
            if topic.drops() {
                self.out.books.deliveries.forgive(&topic.name);
            }
            for channel in CHANNELS {
                let change = TopicChange::ChannelCreated {
                    channel: channel.to_owned(),
                };
                let wish = Ask::Change(topic.name.clone(), change);
                self.operator.wish(wish, &mut self.out);
                self.out.books.deliveries.lasts(&topic.name, channel);
            }
        }
        self.out.net.after(LOOK_INTERVAL, Event::Look);
    }

    /// Topics are declared: clients come, and from now on things go wrong.
    fn begin_trouble(&mut self) {
        let (plan, out) = (self.plan.clone(), &mut self.out);
        for topic in &plan.topics {
            for spec in &topic.publishers {
                let number = self.publishers.len();
                let publisher =
                    Publisher::new(number, &topic.name, spec.clone(), plan.is_cumulative, out);
                self.publishers.push(publisher);
            }
            for channel in CHANNELS {
                for _ in 0..topic.consumers {
                    let number = self.consumers.len();
                    let consumer = Consumer::new(number, &topic.name, channel, plan.badness, out);
                    self.consumers.push(consumer);
                }
            }
        }
        let from = out.net.now + Duration::from_secs(2);
        let until = from + faults::TROUBLED;
        let streams = Streams::new(plan.seed);
        for (at, fault) in faults::draw(&plan, &streams, from, until) {
            out.net.agenda.note(at, Event::Fault(fault));
        }
    }

    fn happen(&mut self, event: Event) {
        let out = &mut self.out;
        match event {
            Event::Dialled(stream) => {
                let delivery = out.net.dialled(stream);
                self.deliver(delivery);
            }
            Event::Arrives(stream, end) => {
                let delivery = out.net.arrives(stream, end);
                self.deliver(delivery);
            }
            Event::Broken(stream, end) => {
                let delivery = out.net.broken(stream, end);
                self.deliver(delivery);
            }
            Event::StallOver(stream, end, stalls) => out.net.stall_over(stream, end, stalls),
            Event::Wake(actor, life) => match actor {
                Actor::Controller => self.controller.wake(life, out),
                Actor::Broker(place) => self.brokers[place].wake(life, out),
                Actor::Publisher(number) => self.publishers[number].wake(out),
                Actor::Consumer(number) => self.consumers[number].wake(out),
                Actor::Operator => self.operator.wake(out),
            },
            Event::Part(life) => self.controller.part(life, out),
            Event::Written(life) => self.controller.written(life, out),
            Event::Probe(life, probe) => self.probe(life, probe),
            Event::Probed(life, probe, answer) => {
                self.controller
                    .answered(life, Next::Probed(probe, answer), out);
            }
            Event::Fitted(life, answer) => {
                self.controller.answered(life, Next::Fitted(*answer), out);
            }
            Event::Datagram(from, to, bytes) => self.brokers[to].heard(from, &bytes, out),
            Event::Fault(fault) => self.fault(fault),
            Event::Due(_) => {}
            Event::Look => self.look(),
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let out = &mut self.out;
        match delivery {
            Delivery::Nothing => {}
            Delivery::Accepted(to, stream, port) => {
                if let Actor::Broker(place) = to {
                    self.brokers[place].accepted(stream, port, out);
                }
            }
            Delivery::Packet(to, stream, packet) => match to {
                Actor::Controller => self.controller.arrives(stream, packet, out),
                Actor::Broker(place) => self.brokers[place].arrives(stream, packet, out),
                Actor::Publisher(number) => self.publishers[number].arrives(stream, packet, out),
                Actor::Consumer(number) => self.consumers[number].arrives(stream, packet, out),
                Actor::Operator => self.operator.arrives(stream, packet, out),
            },
            Delivery::Gone(to, stream) => self.gone(to, stream),
        }
    }

    fn gone(&mut self, to: Actor, stream: StreamId) {
        let out = &mut self.out;
        match to {
            Actor::Controller => self.controller.gone(stream, out),
            Actor::Broker(place) => self.brokers[place].gone(stream, out),
            Actor::Publisher(number) => self.publishers[number].gone(stream, out),
            Actor::Consumer(number) => self.consumers[number].gone(stream, out),
            Actor::Operator => self.operator.gone(stream, out),
        }
    }

    /// Finds out, for the controller's host, who is at an address.
    fn probe(&mut self, life: u64, probe: Probe) {
        let Some(place) = place_of(&probe.address).filter(|&place| place < self.brokers.len())
        else {
            return;
        };
        let (here, there) = (Actor::Controller.host(), Actor::Broker(place).host());
        let is_open = self.out.net.is_open(here, there) && self.out.net.is_open(there, here);
        let broker = &self.brokers[place];
        let (answer, after) = match (is_open, broker.is_running()) {
            (false, _) => (ProbeAnswer::Silence, Duration::from_millis(500)),
            // By UDP nobody says that nobody listens.
            (true, false) if probe.door == Door::Gossip => {
                (ProbeAnswer::Silence, Duration::from_millis(500))
            }
            (true, false) => (ProbeAnswer::Refused, self.out.net.way()),
            (true, true) if self.paused.contains_key(&there) => {
                (ProbeAnswer::Open, Duration::from_secs(2))
            }
            (true, true) => {
                let present = Present {
                    broker: broker.name.clone(),
                    identity: broker.identity,
                    life: broker.told_life(),
                };
                (ProbeAnswer::Present(present), self.out.net.way())
            }
        };
        self.out
            .net
            .after(after, Event::Probed(life, probe, answer));
    }

    /// Looks at what must hold at every instant.
    fn look(&mut self) {
        self.out.net.after(LOOK_INTERVAL, Event::Look);
        let now = self.out.net.now;
        for broker in &self.brokers {
            if let Some(here) = broker.contracts() {
                let looked = self.out.books.contracts.look(broker.place, &here);
                self.out.books.check("contracts", looked);
            }
        }
        for topic in self.out.books.limits.topics() {
            if let Some(law) = self.out.books.gossiped.get_mut(&topic) {
                let here = self.brokers.iter_mut();
                let seen = here.filter_map(|broker| broker.gossiped(&topic, now));
                let looked = law.look(seen.collect(), now);
                self.out.books.check("gossip", looked);
                continue;
            }
            let mut sum = Bound {
                rate: 0.0,
                burst: 0.0,
            };
            for broker in &mut self.brokers {
                if let Some(share) = broker.share(&topic, now) {
                    sum.rate += share.rate;
                    sum.burst += share.burst;
                }
            }
            let held = self.out.books.limits.held(&topic, sum, now);
            self.out.books.check("shares", held);
        }
        self.go_on();
    }

    /// The host whose process an event is for.
    fn host_of(&self, event: &Event) -> Option<Host> {
        let actor = match event {
            Event::Arrives(stream, end) | Event::Broken(stream, end) => {
                self.out.net.actor(*stream, *end)?
            }
            Event::Wake(actor, _) => *actor,
            Event::Part(_) | Event::Written(_) | Event::Probed(..) | Event::Fitted(..) => {
                Actor::Controller
            }
            Event::Datagram(_, to, _) => Actor::Broker(*to),
            _ => return None,
        };
        Some(actor.host())
    }

    fn note(&mut self, event: &Event) {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let number = match event {
            Event::Dialled(stream) => stream.0 << 4,
            Event::Arrives(stream, end) => stream.0 << 4 | 1 | (*end as u64) << 3,
            Event::Broken(stream, end) => stream.0 << 4 | 2 | (*end as u64) << 3,
            Event::StallOver(stream, ..) => stream.0 << 4 | 3,
            Event::Wake(actor, _) => (actor.host() as u64) << 4 | 4,
            Event::Part(_) => 5,
            Event::Probe(..) => 6,
            Event::Probed(..) => 7,
            Event::Fitted(..) => 16,
            Event::Datagram(from, to, _) => ((from << 8 | to) as u64) << 8 | 17,
            Event::Fault(_) => 18,
            Event::Look => 19,
            Event::Written(_) => 20,
            Event::Due(_) => 21,
        };
        for word in [self.out.net.now.as_nanos(), number] {
            self.hash = (self.hash ^ word).wrapping_mul(PRIME);
        }
        if self.is_traced {
            let age = self.age().as_secs_f64();
            println!("{age:10.6} {event:?} {}", self.out.net.tell(event));
        }
    }
}
