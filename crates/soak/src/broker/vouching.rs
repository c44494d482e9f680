//! Words with the other brokers of a round (`broker/sharing/rounds.rs`): the real [`limit::Vouches`], words as values.

use std::time::Duration;

use clock::Instant;
use limit::{Prolongation, Vouches};
use link::Round;

use super::{Process, place_of, tcp_address};
use crate::event::{Actor, Event};
use crate::outside::Outside;

/// Time between two questions to everybody.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// A question, or the answer to it; it is sealed in the product, and only who has the key is heard.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    is_answer: bool,
    round: u64,
    /// Which process asked, and when by its clock.
    life: u64,
    asked_at: Instant,
}

/// What this broker vouches for, and whom it asks.
#[derive(Debug)]
pub(super) struct Vouching {
    vouches: Vouches,
    others: Vec<String>,
    life: u64,
    next_at: Instant,
}

impl Vouching {
    pub(super) fn new(life: u64) -> Vouching {
        Vouching {
            vouches: Vouches::new(),
            others: Vec::new(),
            life,
            next_at: Instant::ZERO,
        }
    }

    /// The controller began a round.
    pub(super) fn told(&mut self, round: &Round, now: Instant) {
        if round.number > self.vouches.round() {
            self.vouches.told(round.number, round.others.len(), now);
            self.others.clone_from(&round.others);
        }
    }

    /// The round before which all are left.
    pub(super) fn left(&self, now: Instant) -> u64 {
        self.vouches.left(now)
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        (!self.others.is_empty()).then_some(self.next_at)
    }
}

impl Process {
    /// Where others gossip with this broker.
    pub(super) fn gossip_address(&self) -> String {
        tcp_address(self.place)
    }

    /// Asks the others, if it is time, and holds on to what may be held on to.
    pub(super) fn drive_vouching(&mut self, out: &mut Outside) {
        if self.vouching.others.is_empty() || self.vouching.next_at > out.net.now {
            return;
        }
        self.vouching.next_at = out.net.now + ASK_INTERVAL;
        let now = self.local(out.net.now);
        let question = Word {
            is_answer: false,
            round: self.vouching.vouches.round(),
            life: self.vouching.life,
            asked_at: now,
        };
        for other in &self.vouching.others {
            if let Some(place) = place_of(other) {
                out.net.datagram(self.me, place, question);
            }
        }
        if let Some(until) = self.vouching.vouches.held_until() {
            let round = self.vouching.vouches.round();
            self.prolong(Prolongation::Held { round, until }, now);
        }
    }

    /// All leases hear a word; now and then each hears those that it has missed.
    pub(super) fn prolong(&mut self, by: Prolongation, now: Instant) {
        if !self.table.prolong_leases(by, now) {
            return;
        }
        let mut slot = 0;
        while self.table.settle_lease(slot, now) {
            slot += 1;
        }
    }

    /// A word of the broker in place `from`.
    pub(super) fn heard(&mut self, from: usize, word: Word, out: &mut Outside) {
        let now = self.local(out.net.now);
        let vouching = &mut self.vouching;
        let mut others = vouching.others.iter();
        let Some(place) = others.position(|other| place_of(other) == Some(from)) else {
            return;
        };
        if word.is_answer {
            if word.life == vouching.life && word.asked_at <= now {
                vouching.vouches.answered(word.round, place, word.asked_at);
            }
        } else if vouching.vouches.vouches_for(word.round) {
            let answer = Word {
                is_answer: true,
                ..word
            };
            out.net.datagram(self.me, from, answer);
        }
    }
}

impl crate::network::Network {
    /// A word on its way: lost, late, twice, or overtaken by others.
    fn datagram(&mut self, from: Actor, to: usize, word: Word) {
        let Actor::Broker(sender) = from else {
            return;
        };
        if !self.is_open(from.host(), Actor::Broker(to).host()) {
            return;
        }
        for _ in 0..self.copies() {
            let way = self.way();
            self.after(way, Event::Word(sender, to, word));
        }
    }
}
