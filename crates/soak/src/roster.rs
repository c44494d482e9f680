//! Brokers that find each other without a controller (`--gossip-join`) and share a limit, under one seed: what they say and believe is the
//! product's own, down to the sealed datagrams (`broker::sharing::Sharer`).
//!
//! What is published at each, and what goes wrong, is drawn from the seed. While all is as it was for ten seconds, whatever that is, they keep
//! the limit together as `docs/sharing-topics.md` promises ([`crate::laws::gossip`]); and once nothing goes wrong any more they find
//! each other, and what is asked for passes.

mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Instant, Streams};

use crate::broker::alone::{Alone, TOPIC};
use crate::chance::Chance;
use crate::event::{Actor, Event};
use crate::laws::Books;
use crate::laws::gossip::{Gossiped, heard_after};
use crate::laws::limits::Bound;
use crate::network::Network;
use crate::outside::Outside;
use crate::{Outcome, Simulated};
use plan::{Deed, Plan};

/// The run begins here.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// How such brokers gossip: interval, and to how many others (`broker/sharing`).
const GOSSIP: (Duration, u16) = (Duration::from_millis(50), 3);
/// Between two looks at what must hold.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// After the last fault everything is to be in order within so long.
const RECOVERY: Duration = Duration::from_secs(60);
/// So long they are looked at once they are.
const WATCHED: Duration = Duration::from_secs(5);

/// Some brokers, and what is between them.
struct World {
    plan: Plan,
    out: Outside,
    brokers: Vec<Alone>,
    /// Those whose process is stopped, with what has happened to them since.
    paused: BTreeMap<usize, Vec<Event>>,
    /// Once nothing goes wrong any more: until when all is to be in order, and since when it is.
    calm: Option<(Instant, Option<Instant>)>,
    is_over: bool,
    is_traced: bool,
    events: u64,
    hash: u64,
}

/// Runs a seed to its end; `is_traced` prints every event.
#[must_use]
pub fn run(seed: u64, is_traced: bool) -> Outcome {
    crate::run_to_end(World::new(seed, is_traced), seed)
}

impl Simulated for World {
    fn step(&mut self) -> bool {
        if self.out.books.violation().is_some() || self.is_over {
            return false;
        }
        let Some((at, event)) = self.out.net.agenda.pop() else {
            return false;
        };
        self.out.net.now = self.out.net.now.max(at);
        self.out.books.now = self.out.net.now;
        self.events += 1;
        self.note(&event);
        let backlog = place_of(&event).and_then(|place| self.paused.get_mut(&place));
        match backlog {
            Some(backlog) => backlog.push(event),
            None => self.happen(event),
        }
        true
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn books(&self) -> &Books {
        &self.out.books
    }

    fn messages(&self) -> usize {
        self.out.books.messages_passed as usize
    }

    fn age(&self) -> Duration {
        self.out.net.now - BEGIN
    }

    fn hash(&self) -> u64 {
        self.hash
    }
}

impl World {
    fn new(seed: u64, is_traced: bool) -> World {
        let streams = Streams::new(seed);
        let plan = Plan::of(&streams, BEGIN);
        let mut out = Outside {
            net: Network::new(&streams, plan.weather, BEGIN),
            books: Books::default(),
            chance: Chance::new(&streams, "processes"),
            in_bytes: false,
        };
        let places = 0..plan.brokers;
        let brokers = places.map(|place| {
            let join = plan.join[place].clone();
            Alone::new(place, join, plan.limit(1.0), &streams)
        });
        let brokers = brokers.collect();
        let bound = Bound {
            rate: plan.limit.0,
            burst: plan.limit.1,
        };
        let heard_after = heard_after(GOSSIP, plan.brokers);
        let law = Gossiped::among_found(plan.policy, bound, heard_after, BEGIN);
        out.books.gossiped.insert(TOPIC.to_owned(), law);
        for (number, (at, _)) in plan.deeds.iter().enumerate() {
            out.net.agenda.note(*at, Event::Due(number));
        }
        out.net.after(LOOK_INTERVAL, Event::Look);
        World {
            plan,
            out,
            brokers,
            paused: BTreeMap::new(),
            calm: None,
            is_over: false,
            is_traced,
            events: 0,
            hash: seed,
        }
    }

    fn happen(&mut self, event: Event) {
        let out = &mut self.out;
        match event {
            Event::Wake(Actor::Broker(place), life) => self.brokers[place].wake(life, out),
            Event::Datagram(from, to, bytes) => {
                let is_open = out.net.life(Actor::Broker(to)).is_some();
                if is_open {
                    self.brokers[to].heard(from, &bytes, out);
                }
            }
            Event::Due(number) => {
                let deed = self.plan.deeds[number].1.clone();
                let now = out.net.now;
                self.law().disturbed(now);
                self.carry_out(deed);
            }
            Event::Look => self.look(),
            _ => {}
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        let out = &mut self.out;
        match deed {
            Deed::Start(place) => self.brokers[place].start(out),
            Deed::Kill(place) => {
                self.paused.remove(&place);
                self.brokers[place].kill(out);
            }
            Deed::Stop(place) => {
                self.resume(place);
                self.brokers[place].stop(&mut self.out);
            }
            Deed::Pause(place) => {
                self.paused.entry(place).or_default();
            }
            Deed::Resume(place) => self.resume(place),
            Deed::Cut(ways) => ways
                .into_iter()
                .for_each(|(from, to)| out.net.cut(from, to)),
            Deed::Mend(ways) => ways
                .into_iter()
                .for_each(|(from, to)| out.net.mend(from, to)),
            Deed::Weather(weather) => out.net.weather = weather,
            Deed::Forget(at, gone) => self.brokers[at].forget(gone, out),
            Deed::Limit(place, factor) => {
                let limit = self.plan.limit(factor);
                self.brokers[place].declare(Some(limit), out);
            }
            Deed::Unlimit(place) => self.brokers[place].declare(None, out),
            Deed::Demand(place, rates) => self.brokers[place].demand(rates, out),
            Deed::Calm => self.calm(),
        }
    }

    fn resume(&mut self, place: usize) {
        for event in self.paused.remove(&place).unwrap_or_default() {
            let now = self.out.net.now;
            self.out.net.agenda.note(now, event);
        }
    }

    /// Everything works from now on, and all have one limit.
    fn calm(&mut self) {
        self.out.net.mend_all();
        self.out.net.weather = self.plan.weather;
        for place in 0..self.plan.brokers {
            self.resume(place);
            let (lost, limit) = (self.plan.lost, self.plan.limit(1.0));
            let (broker, out) = (&mut self.brokers[place], &mut self.out);
            match lost == Some(place) {
                true => broker.kill(out),
                false => broker.start(out),
            }
            broker.declare(Some(limit), out);
        }
        self.calm = Some((self.out.net.now + RECOVERY, None));
    }

    /// Looks at what must hold at every instant.
    fn look(&mut self) {
        self.out.net.after(LOOK_INTERVAL, Event::Look);
        let now = self.out.net.now;
        let seen = self.brokers.iter_mut();
        let seen = seen.filter_map(|broker| broker.seen(now)).collect();
        let looked = self.law().look(seen, now);
        self.out.books.check("gossip", looked);
        let Some((until, well_since)) = self.calm else {
            return;
        };
        match (self.disorder(), well_since) {
            (Some(problem), _) if now >= until => self.out.books.breaks("liveness", problem),
            (Some(_), _) => self.calm = Some((until, None)),
            (None, None) => self.calm = Some((until, Some(now))),
            (None, Some(since)) => self.is_over = now >= since + WATCHED,
        }
    }

    /// What is not as it is to be where nothing is wrong.
    fn disorder(&mut self) -> Option<String> {
        let now = self.out.net.now;
        let here = self.brokers.iter().filter(|broker| broker.is_running());
        let asked: f64 = here.map(Alone::demanded).sum();
        let law = self.law();
        law.strangers().or_else(|| law.disorder(asked, now))
    }

    fn law(&mut self) -> &mut Gossiped {
        let law = self.out.books.gossiped.get_mut(TOPIC);
        law.expect("it is there from the beginning")
    }

    fn note(&mut self, event: &Event) {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let number = match event {
            Event::Datagram(from, to, _) => (from << 8 | to) as u64,
            Event::Wake(Actor::Broker(place), _) => (*place as u64) << 16,
            Event::Due(number) => (*number as u64) << 32,
            _ => 1,
        };
        for word in [self.out.net.now.as_nanos(), number] {
            self.hash = (self.hash ^ word).wrapping_mul(PRIME);
        }
        if self.is_traced {
            let age = (self.out.net.now - BEGIN).as_secs_f64();
            match event {
                Event::Due(number) => println!("{age:10.6} {:?}", self.plan.deeds[*number].1),
                Event::Look => println!("{age:10.6} {:?}", self.law()),
                event => println!("{age:10.6} {event:?}"),
            }
        }
    }
}

/// The broker whose process an event is for.
fn place_of(event: &Event) -> Option<usize> {
    match event {
        Event::Wake(Actor::Broker(place), _) | Event::Datagram(_, place, _) => Some(*place),
        _ => None,
    }
}
