//! What a run is about, and what goes wrong in it.

use std::time::Duration;

use clock::{Instant, Streams};
use limit::{JudgedBy, Limit, OnExceed, SharePolicy};

use crate::chance::Chance;
use crate::event::Actor;
use crate::network::{Host, Weather};

/// How long faults go on.
const TROUBLED: Duration = Duration::from_secs(90);

/// One thing that is done, or goes wrong.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// A process is started.
    Start(usize),
    /// kill -9.
    Kill(usize),
    /// It is stopped in order.
    Stop(usize),
    /// SIGSTOP.
    Pause(usize),
    /// SIGCONT.
    Resume(usize),
    /// Ways are cut.
    Cut(Vec<(Host, Host)>),
    /// They are mended.
    Mend(Vec<(Host, Host)>),
    /// Packets fare otherwise.
    Weather(Weather),
    /// An operator says at a broker that another one is gone for good.
    Forget(usize, usize),
    /// The topic has so much of its limit at a broker.
    Limit(usize, f64),
    /// It has none there.
    Unlimit(usize),
    /// So much is published at a broker, by each publisher.
    Demand(usize, Vec<f64>),
    /// Nothing more goes wrong.
    Calm,
}

/// A run.
pub(super) struct Plan {
    pub(super) brokers: usize,
    /// Which places each place names.
    pub(super) join: Vec<Vec<usize>>,
    pub(super) policy: SharePolicy,
    /// Messages per second, and at once.
    pub(super) limit: (f64, f64),
    pub(super) weather: Weather,
    /// A broker that stays dead; never the only one by which others find each other.
    pub(super) lost: Option<usize>,
    /// In order; those that begin the run first.
    pub(super) deeds: Vec<(Instant, Deed)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kill,
    Stop,
    Pause,
    Isolate,
    OneWay,
    Split,
    Slow,
    Forget,
    Limit,
    Unlimit,
    Demand,
}

const KINDS: [Kind; 11] = [
    Kind::Kill,
    Kind::Stop,
    Kind::Pause,
    Kind::Isolate,
    Kind::OneWay,
    Kind::Split,
    Kind::Slow,
    Kind::Forget,
    Kind::Limit,
    Kind::Unlimit,
    Kind::Demand,
];

impl Plan {
    /// The plan of a seed; it begins at `begin`.
    pub(super) fn of(streams: &Streams, begin: Instant) -> Plan {
        let mut chance = Chance::new(streams, "roster");
        let brokers = 2 + chance.below(4);
        let rate = 20.0 + chance.below(60) as f64;
        let join = names(brokers, &mut chance);
        let mut plan = Plan {
            brokers,
            policy: chance.pick(&[SharePolicy::Fps, SharePolicy::Gtb, SharePolicy::Grd]),
            limit: (rate, 10.0 + chance.below(20) as f64),
            weather: Weather {
                least_us: 100,
                most_us: chance.pick(&[1000, 5000, 30_000]),
                slow: 0.001,
                slow_ms: 300,
                lost: 0.01,
                twice: 0.02,
            },
            lost: chance
                .happens(0.2)
                .then(|| chance.below(brokers))
                .filter(|lost| find_each_other_without(*lost, &join)),
            join,
            deeds: Vec::new(),
        };
        plan.begin(begin, &mut chance);
        let from = begin + Duration::from_secs(5);
        let until = from + TROUBLED;
        plan.trouble((from, until), &mut chance);
        plan.deeds.retain(|(at, _)| *at < until);
        plan.deeds.push((until, Deed::Calm));
        plan.deeds.sort_by_key(|(at, _)| *at);
        plan
    }

    /// A limit of so much of what is planned.
    pub(super) fn limit(&self, factor: f64) -> Limit {
        let (rate, burst) = self.limit;
        let limit = Limit::messages(rate * factor, burst * factor);
        Limit {
            judged_by: JudgedBy::Release,
            sharing: self.policy,
            on_exceed: match self.policy {
                SharePolicy::Grd => OnExceed::Drop,
                _ => OnExceed::Delay,
            },
            ..limit.expect("limits of plans are in range")
        }
    }

    fn begin(&mut self, begin: Instant, chance: &mut Chance) {
        for place in 0..self.brokers {
            let rates = self.rates(chance);
            self.deeds.push((begin, Deed::Demand(place, rates)));
            let late = match chance.happens(0.3) {
                true => chance.span_ms(0, 20_000),
                false => chance.span_ms(0, 1000),
            };
            self.deeds.push((begin + late, Deed::Start(place)));
        }
    }

    /// What publishers of a broker publish: often more than the limit.
    fn rates(&self, chance: &mut Chance) -> Vec<f64> {
        let publishers = chance.pick(&[0, 1, 2, 4, 8]);
        let each = self.limit.0 * chance.pick(&[0.05, 0.2, 0.5]);
        vec![each; publishers]
    }

    fn trouble(&mut self, (from, until): (Instant, Instant), chance: &mut Chance) {
        let kinds = KINDS.into_iter().filter(|_| chance.happens(0.4));
        let mut kinds: Vec<Kind> = kinds.collect();
        if kinds.is_empty() {
            kinds.push(chance.pick(&KINDS));
        }
        // Sometimes there is time to settle in between, as the law of sums wants.
        let (least_ms, most_ms) =
            chance.pick(&[(100, 2000), (500, 8000), (5000, 25_000), (5000, 25_000)]);
        let mut at = from;
        loop {
            at += chance.span_ms(least_ms, most_ms);
            if at >= until {
                break;
            }
            let lasts = match chance.happens(0.4) {
                true => chance.span_ms(5000, 30_000),
                false => chance.span_ms(50, 4000),
            };
            let kind = chance.pick(&kinds);
            self.trouble_one(kind, at, (at + lasts).min(until), chance);
        }
    }

    fn trouble_one(&mut self, kind: Kind, at: Instant, end: Instant, chance: &mut Chance) {
        let place = chance.below(self.brokers);
        let mut both = |begins: Deed, ends: Deed| {
            self.deeds.push((at, begins));
            self.deeds.push((end, ends));
        };
        match kind {
            Kind::Kill => both(Deed::Kill(place), Deed::Start(place)),
            Kind::Stop => both(Deed::Stop(place), Deed::Start(place)),
            Kind::Pause => both(Deed::Pause(place), Deed::Resume(place)),
            Kind::Isolate | Kind::OneWay | Kind::Split => {
                let ways = ways(kind, place, self.brokers, chance);
                both(Deed::Cut(ways.clone()), Deed::Mend(ways));
            }
            Kind::Slow => {
                let weather = Weather {
                    slow: 0.02 + 0.002 * chance.below(100) as f64,
                    slow_ms: 50 + chance.below(1500) as u64,
                    lost: 0.3,
                    ..self.weather
                };
                both(Deed::Weather(weather), Deed::Weather(self.weather));
            }
            Kind::Forget => {
                let deed = Deed::Forget(chance.below(self.brokers), place);
                self.deeds.push((at, deed));
            }
            Kind::Limit => {
                // An operator goes from broker to broker.
                let factor = chance.pick(&[0.5, 0.7, 1.0, 1.5]);
                let mut at = at;
                for place in 0..self.brokers {
                    self.deeds.push((at, Deed::Limit(place, factor)));
                    at += chance.span_ms(0, 1500);
                }
            }
            Kind::Unlimit => both(Deed::Unlimit(place), Deed::Limit(place, 1.0)),
            Kind::Demand => {
                let rates = self.rates(chance);
                self.deeds.push((at, Deed::Demand(place, rates)));
            }
        }
    }
}

/// Which places each names: mostly all, sometimes one that another one names.
fn names(brokers: usize, chance: &mut Chance) -> Vec<Vec<usize>> {
    let has_all = chance.happens(0.7);
    let mut named = |place: usize| match (has_all, place) {
        (true, _) => (0..brokers).collect(),
        (false, 0) => vec![1],
        (false, place) => vec![chance.below(place)],
    };
    (0..brokers).map(&mut named).collect()
}

/// Whether all others find each other, begun anew: each hears of those that it names, and of those that name it.
fn find_each_other_without(lost: usize, join: &[Vec<usize>]) -> bool {
    let others: Vec<usize> = (0..join.len()).filter(|place| *place != lost).collect();
    let mut found: Vec<usize> = others.iter().copied().take(1).collect();
    for _ in &others {
        let is_linked = |place: usize| {
            let mut known = found.iter();
            known.any(|known| join[place].contains(known) || join[*known].contains(&place))
        };
        let next = others.iter().copied();
        let next = next.filter(|place| found.contains(place) || is_linked(*place));
        found = next.collect();
    }
    found.len() == others.len()
}

/// Ways that are cut together.
fn ways(kind: Kind, place: usize, brokers: usize, chance: &mut Chance) -> Vec<(Host, Host)> {
    let host = |place: usize| Actor::Broker(place).host();
    let side: Vec<bool> = (0..brokers)
        .map(|other| match kind {
            Kind::Split => chance.happens(0.5),
            _ => other == place,
        })
        .collect();
    let pairs = (0..brokers).flat_map(|from| (0..brokers).map(move |to| (from, to)));
    let is_apart = |&(from, to): &(usize, usize)| side[from] != side[to];
    let is_out = |&(from, _): &(usize, usize)| side[from];
    let goes_out = chance.happens(0.5);
    let cut = pairs.filter(is_apart);
    let cut = cut.filter(|pair| kind != Kind::OneWay || is_out(pair) == goes_out);
    cut.map(|(from, to)| (host(from), host(to))).collect()
}
