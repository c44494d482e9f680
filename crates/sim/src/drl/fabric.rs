//! The transport of updates between limiters.

use std::time::Duration;

use clock::{Instant, Streams, Xoshiro256PlusPlus, uniform};
use gossip::{Branches, Exchange, Message};
use limit::sharing::{Remote, Update};

use super::scenario::{Reach, Updates};

/// An update with its headers, bytes (DRL, section 3.1).
const UPDATE_BYTES: u64 = 48;

#[derive(Debug)]
pub(super) struct Fabric {
    updates: Updates,
    delay: Duration,
    interval: Duration,
    means: Means,
    random: Xoshiro256PlusPlus,
    /// How many limiters, from 0 on, are on one side of a cut.
    side: Option<u32>,
    messages: u64,
    lost: u64,
}

#[derive(Debug)]
enum Means {
    Oracle(Oracle),
    Exchanges(Vec<Exchange>),
}

/// Knows what all said last.
#[derive(Debug)]
struct Oracle {
    said: Vec<Update>,
    /// As [`Fabric::side`], once it was noticed.
    noticed: Option<u32>,
}

/// A message that will arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) at: Instant,
    pub(super) to: u32,
    pub(super) message: Message,
}

impl Fabric {
    pub(super) fn new(limiters: u32, updates: Updates, interval: Duration, seed: u64) -> Self {
        let branches = match updates.reach {
            Reach::Oracle => None,
            Reach::Mesh => Some(Branches::Mesh),
            Reach::Random(branches) => Some(Branches::Random(branches)),
        };
        let means = match branches {
            None => Means::Oracle(Oracle {
                said: vec![Update::default(); limiters as usize],
                noticed: None,
            }),
            Some(branches) => Means::Exchanges(
                (0..limiters)
                    .map(|me| {
                        let mut exchange = Exchange::new(limiters, me, branches, interval);
                        let others = (0..limiters).filter(|&other| other != me);
                        others.for_each(|other| exchange.connected(other));
                        exchange
                    })
                    .collect(),
            ),
        };
        Fabric {
            updates,
            delay: Duration::from_secs_f64(updates.delay_ms / 1e3),
            interval,
            means,
            random: Streams::new(seed).stream("updates"),
            side: None,
            messages: 0,
            lost: 0,
        }
    }

    pub(super) fn remote(&self, limiter: u32) -> Remote {
        match &self.means {
            Means::Oracle(oracle) => oracle.remote(limiter),
            Means::Exchanges(exchanges) => exchanges[limiter as usize].remote(),
        }
    }

    /// Limiter `from` found `own`; adds what it sends to `departures`.
    pub(super) fn end_interval(
        &mut self,
        now: Instant,
        from: u32,
        own: Update,
        departures: &mut Vec<Departure>,
    ) {
        let exchange = match &mut self.means {
            Means::Oracle(oracle) => {
                oracle.said[from as usize] = own;
                return;
            }
            Means::Exchanges(exchanges) => &mut exchanges[from as usize],
        };
        let at = now + self.delay;
        let sent = departures.len();
        exchange.end_interval(own, &mut self.random, |to, message| {
            departures.push(Departure { at, to, message });
        });
        self.messages += (departures.len() - sent) as u64;
        let Updates {
            loss, reordered, ..
        } = self.updates;
        if loss == 0.0 && reordered == 0.0 && self.side.is_none() {
            return;
        }
        let mut kept = sent;
        for at in sent..departures.len() {
            let mut departure = departures[at];
            let cut = self
                .side
                .is_some_and(|side| (from < side) != (departure.to < side));
            if uniform(&mut self.random) < loss || cut {
                self.lost += 1;
                continue;
            }
            if uniform(&mut self.random) < reordered {
                departure.at += self.interval.mul_f64(2.0 * uniform(&mut self.random));
            }
            departures[kept] = departure;
            kept += 1;
        }
        departures.truncate(kept);
    }

    pub(super) fn heard(&mut self, from: u32, to: u32, message: Message) {
        if let Means::Exchanges(exchanges) = &mut self.means {
            exchanges[to as usize].heard(from, message);
        }
    }

    /// From now on the first `side` limiters and the others cannot hear each other; or all can.
    pub(super) fn cut(&mut self, side: Option<u32>) {
        self.side = side;
    }

    /// All notice who is on the other side of the first `side` limiters: gone, or there again.
    pub(super) fn notice(&mut self, side: u32, cut: bool) {
        match &mut self.means {
            Means::Oracle(oracle) => oracle.noticed = cut.then_some(side),
            Means::Exchanges(exchanges) => {
                let limiters = exchanges.len() as u32;
                for (me, exchange) in exchanges.iter_mut().enumerate() {
                    let others = if (me as u32) < side {
                        side..limiters
                    } else {
                        0..side
                    };
                    for other in others {
                        if cut {
                            exchange.disconnected(other);
                        } else {
                            exchange.connected(other);
                        }
                    }
                }
            }
        }
    }

    /// Messages sent, lost, and bytes of all of them.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.messages, self.lost, self.messages * UPDATE_BYTES)
    }
}

impl Oracle {
    fn remote(&self, limiter: u32) -> Remote {
        let all = self.said.len();
        let connected = match self.noticed {
            None => 0..all,
            Some(side) if limiter < side => 0..side as usize,
            Some(side) => side as usize..all,
        };
        let count = connected.len() as u32;
        let first = connected.start;
        let others = self.said[connected].iter().enumerate();
        let others = others.filter(|(at, _)| first + at != limiter as usize);
        let (demand, passed) = others.fold((0.0, 0.0), |(demand, passed), (_, said)| {
            (demand + said.demand(), passed + said.passed())
        });
        Remote {
            // Sums of what was in range stay in range.
            others: Update::new(demand, passed).unwrap_or_default(),
            connected: count,
        }
    }
}
