//! Messages under way.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};
use limit::{Grant, Report};
use rand::RngExt;

/// What is sent, and over which connection of which life of the broker.
#[derive(Clone, Debug)]
pub struct Letter {
    pub broker: u32,
    pub life: u64,
    pub link: u64,
    pub text: Text,
}

#[derive(Clone, Debug)]
pub enum Text {
    /// With the round before which its broker has left all.
    Report(Report, u64),
    Grant(Grant),
    /// A round, and the other brokers on its list.
    Round(u64, Vec<u32>),
}

/// What brokers ask each other: whether they vouch for a round.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub by: u32,
    pub life: u64,
    pub of: u32,
    pub round: u64,
    /// By the clock of who asks.
    pub asked_at: Instant,
    pub is_answer: bool,
}

/// How letters travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Each on its own: late, lost, twice, in any order, and delivered to whoever is there then.
    Datagrams,
    /// In order and whole, while the connection stands.
    Links,
}

pub struct Network {
    pub transport: Transport,
    pub is_calm: bool,
    pub slowest: Duration,
    pub loss: f64,
    /// Brokers that are cut off from the controller.
    pub cut: Vec<bool>,
    /// Brokers that are cut off from the other brokers.
    pub apart: Vec<bool>,
    /// When the last letter of each connection and direction arrives.
    last: BTreeMap<(u32, bool), Instant>,
    random: Xoshiro256PlusPlus,
}

impl Network {
    pub fn new(transport: Transport, brokers: usize, mut random: Xoshiro256PlusPlus) -> Self {
        Network {
            transport,
            is_calm: false,
            slowest: Duration::from_millis(random.random_range(5..3000)),
            loss: random.random_range(0.0..0.4),
            cut: vec![false; brokers],
            apart: vec![false; brokers],
            last: BTreeMap::new(),
            random,
        }
    }

    /// When a letter that is sent now arrives: never, once, or twice.
    pub fn arrivals(&mut self, letter: &Letter, now: Instant) -> Vec<Instant> {
        if self.cut[letter.broker as usize] {
            return Vec::new();
        }
        match self.transport {
            _ if self.is_calm => vec![self.in_order(letter, now)],
            Transport::Links => vec![self.in_order(letter, now)],
            Transport::Datagrams => {
                let copies = match self.random.random::<f64>() {
                    lost if lost < self.loss => 0,
                    twice if twice > 0.9 => 2,
                    _ => 1,
                };
                (0..copies).map(|_| now + self.delay()).collect()
            }
        }
    }

    /// When a question or its answer arrives.
    pub fn asked(&mut self, question: &Question, now: Instant) -> Vec<Instant> {
        let is_apart = self.apart[question.by as usize] || self.apart[question.of as usize];
        if is_apart {
            return Vec::new();
        }
        if self.is_calm {
            return vec![now + self.delay()];
        }
        let copies = match self.random.random::<f64>() {
            lost if lost < self.loss => 0,
            twice if twice > 0.9 => 2,
            _ => 1,
        };
        (0..copies).map(|_| now + self.delay()).collect()
    }

    fn in_order(&mut self, letter: &Letter, now: Instant) -> Instant {
        let arrives = now + self.delay();
        let is_report = matches!(letter.text, Text::Report(..));
        let last = self
            .last
            .entry((letter.broker, is_report))
            .or_insert(arrives);
        *last = arrives.max(*last);
        *last
    }

    fn delay(&mut self) -> Duration {
        if self.is_calm {
            Duration::from_micros(self.random.random_range(50..5000))
        } else {
            self.slowest.mul_f64(self.random.random::<f64>())
        }
    }

    /// A connection breaks: the next one owes nothing to its order.
    pub fn forget(&mut self, broker: u32) {
        self.last.remove(&(broker, false));
        self.last.remove(&(broker, true));
    }
}
