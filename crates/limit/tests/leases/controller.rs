//! The controller around a ledger: what it keeps, and whom it believes.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};
use limit::{Grant, InvalidReport, Ledger, LedgerConfig, Limit, Report, Share};
use rand::RngExt;

/// What outlives the controller.
#[derive(Clone, Debug, Default)]
struct Kept {
    epoch: u64,
    known: Vec<(u32, Option<Share>)>,
    /// The latest life of each broker, and whether that has ended.
    lives: BTreeMap<u32, (u64, bool)>,
    left: BTreeMap<u32, bool>,
}

pub struct Controller {
    pub ledger: Option<Ledger>,
    kept: Kept,
    /// Life and connection in which each broker was heard last.
    links: BTreeMap<u32, (u64, u64)>,
    heard_at: BTreeMap<u32, Instant>,
    /// The round, and since which one each broker on its list has been on all of them.
    pub round: u64,
    pub since: BTreeMap<u32, u64>,
    silent_after: Duration,
    random: Xoshiro256PlusPlus,
}

impl Controller {
    pub fn new(limit: Limit, config: LedgerConfig, random: Xoshiro256PlusPlus) -> Self {
        let mut controller = Controller {
            ledger: None,
            kept: Kept::default(),
            links: BTreeMap::new(),
            heard_at: BTreeMap::new(),
            round: 0,
            since: BTreeMap::new(),
            silent_after: config.ttl + config.drift,
            random,
        };
        controller.start(limit, config, Instant::ZERO);
        controller
    }

    pub fn start(&mut self, limit: Limit, config: LedgerConfig, now: Instant) {
        self.kept.epoch += 1;
        let (epoch, known) = (self.kept.epoch, &self.kept.known);
        self.links.clear();
        self.heard_at.clear();
        self.since.clear();
        self.round = epoch << 32;
        self.ledger = Some(Ledger::restore(limit, config, epoch, known, now));
    }

    pub fn crash(&mut self) {
        self.ledger = None;
    }

    /// A report from a life of a broker, over one of its connections.
    pub fn hear(
        &mut self,
        broker: u32,
        life: u64,
        link: u64,
        report: &Report,
        left: u64,
        now: Instant,
    ) {
        let leaves = self.has_left(broker);
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let (known_life, has_ended) = *self.kept.lives.entry(broker).or_insert((life, false));
        if life < known_life || (life == known_life && has_ended) {
            return;
        }
        if life > known_life {
            // A process begins when the one before has ended.
            ledger.dead(broker);
            self.kept.lives.insert(broker, (life, false));
        }
        self.heard_at.insert(broker, now);
        if let Some(&since) = self.since.get(&broker) {
            ledger.has_left(broker, since, left);
        }
        let is_new = self.links.insert(broker, (life, link)) != Some((life, link));
        if is_new {
            ledger.reconnected(broker, now);
        }
        let mut heard = ledger.report(broker, report, now);
        if !leaves && heard == Err(InvalidReport::NotAMember { broker }) {
            assert!(ledger.join(broker, now));
            heard = ledger.report(broker, report, now);
        }
        assert!(leaves || heard == Ok(()));
    }

    /// Begins another round when brokers have come or fallen silent; who is to be told of it.
    pub fn begin_round(&mut self, now: Instant) -> Vec<u32> {
        let heard = self.heard_at.iter();
        let present: Vec<u32> = heard
            .filter(|&(_, &at)| now < at + self.silent_after)
            .map(|(&broker, _)| broker)
            .collect();
        let Some(ledger) = &mut self.ledger else {
            return Vec::new();
        };
        if present.iter().eq(self.since.keys()) {
            return Vec::new();
        }
        self.round += 1;
        ledger.begin_round(self.round, present.clone().into());
        let round = self.round;
        self.since.retain(|broker, _| present.contains(broker));
        for broker in &present {
            self.since.entry(*broker).or_insert(round);
        }
        present
    }

    /// Where a grant goes.
    pub fn heard_over(&self, broker: u32) -> Option<(u64, u64)> {
        self.links.get(&broker).copied()
    }

    /// Proof that a life of a broker has ended.
    pub fn dead(&mut self, broker: u32, life: u64) {
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let latest = self.kept.lives.entry(broker).or_insert((life, true));
        if latest.0 <= life {
            *latest = (life, true);
            ledger.dead(broker);
        }
    }

    pub fn leave(&mut self, broker: u32, leaves: bool, now: Instant) {
        self.kept.left.insert(broker, leaves);
        if let Some(ledger) = &mut self.ledger {
            if leaves {
                ledger.leave(broker);
            } else {
                assert!(ledger.join(broker, now));
            }
        }
    }

    pub fn has_left(&self, broker: u32) -> bool {
        self.kept.left.get(&broker) == Some(&true)
    }

    /// What to send; kept first. Now and then the controller dies in between.
    pub fn plan(&mut self, now: Instant, may_die: bool) -> Vec<(u32, Grant)> {
        let Some(ledger) = &mut self.ledger else {
            return Vec::new();
        };
        let grants = ledger.plan(now);
        self.kept.known = ledger.known(now);
        for (&broker, &leaves) in &self.kept.left {
            if leaves {
                ledger.leave(broker);
            }
        }
        if may_die && self.random.random_bool(0.002) {
            self.crash();
            return Vec::new();
        }
        grants
    }
}
