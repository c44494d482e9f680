//! Rounds: which brokers may keep their shares while this controller is away ([`limit::Vouches`]).
//!
//! A round begins when a broker has come, fallen silent, died or moved its gossip address. Grants
//! belong to the round in which they are made. What a silent broker may keep is taken back when
//! another broker of its round has left the round.

use std::collections::BTreeMap;
use std::sync::Arc;

use limit::Ledger;
use link::{Door, Round, ToBroker};

use super::BrokerNumber;
use super::outbox::Outbox;
use super::registry::Brokers;

/// The round, and who is on its list.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    number: u64,
    members: BTreeMap<BrokerNumber, Member>,
    /// By broker: when it was on the list before, at the address that it has, latest last.
    stays: BTreeMap<BrokerNumber, Vec<Stay>>,
    /// By broker, including those no longer on the list: the round before which it has left all.
    left: BTreeMap<BrokerNumber, u64>,
    /// Those on the list who may hold on to shares, in order.
    holders: Arc<[BrokerNumber]>,
    /// Counts up with all that ledgers are told of rounds.
    version: u64,
}

/// A broker on the list.
#[derive(Debug)]
struct Member {
    gossip_address: String,
    /// The first of the rounds that it has been on all lists of.
    since: u64,
}

/// A time for which a broker was on the list, and is not any more.
#[derive(Debug)]
struct Stay {
    gossip_address: String,
    /// The first of its rounds.
    since: u64,
    /// The first round that it was not on the list of.
    until: u64,
}

/// Former times on the list that are remembered of a broker, at most: what was granted in rounds of before stays reserved if its broker is lost.
const STAYS_MAX: usize = 3;

/// Brokers that ask each other, at most: of more of them none holds on to anything.
const ROUND_BROKERS_MAX: usize = 64;

/// Rounds in one life of the controller: as many as fit.
const ROUND_BITS: u32 = 32;

impl Rounds {
    /// Begins another round if other brokers are there than before; whether it did.
    pub(super) fn drive(
        &mut self,
        epoch: u64,
        key: Option<&String>,
        brokers: &Brokers,
        out: &mut Outbox,
    ) -> bool {
        let up = brokers.numbered().filter_map(|(number, broker)| {
            let address = broker.answering(Door::Gossip);
            address
                .filter(|_| broker.is_up())
                .map(|address| (number, address))
        });
        let members = self.members.iter();
        let members = members.map(|(number, member)| (*number, &member.gossip_address));
        if up.clone().eq(members) {
            return false;
        }
        let present: Vec<(BrokerNumber, String)> = up
            .map(|(number, address)| (number, address.clone()))
            .collect();
        let round = (self.number + 1).max(epoch << ROUND_BITS);
        let mut former = std::mem::take(&mut self.members);
        let members = present.into_iter().map(|(number, gossip_address)| {
            let known = former.remove(&number);
            let stays = known.filter(|member| member.gossip_address == gossip_address);
            let member = stays.unwrap_or(Member {
                gossip_address,
                since: round,
            });
            (number, member)
        });
        self.members = members.collect();
        self.number = round;
        self.note_stays(former);
        self.holders = self.able_to_hold();
        self.version += 1;
        for &number in self.members.keys() {
            self.send(number, key, brokers, out);
        }
        true
    }

    /// Tells a broker of the round, if it is on the list.
    pub(super) fn send(
        &self,
        number: BrokerNumber,
        key: Option<&String>,
        brokers: &Brokers,
        out: &mut Outbox,
    ) {
        let is_linked = brokers[number].link.is_some();
        if !is_linked || !self.members.contains_key(&number) {
            return;
        }
        let members = self.members.iter();
        let can_hold = !self.holders.is_empty();
        let others = members.filter(|(other, _)| can_hold && **other != number);
        let round = Round {
            number: self.number,
            others: others
                .map(|(_, member)| member.gossip_address.clone())
                .collect(),
            key: key.cloned(),
        };
        out.send(number, ToBroker::Round(round));
    }

    /// A broker says before which round it has left all; whether that is news.
    pub(super) fn left(&mut self, number: BrokerNumber, left: u64) -> bool {
        if !self.members.contains_key(&number) {
            return false;
        }
        let known = self.left.get(&number).copied();
        if left <= known.unwrap_or(0) || left > self.number {
            return false;
        }
        self.left.insert(number, left);
        self.version += 1;
        true
    }

    /// Another number whenever ledgers are to be told something.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Tells a ledger what is known of rounds.
    pub(super) fn tell(&self, ledger: &mut Ledger) {
        ledger.begin_round(self.number, Arc::clone(&self.holders));
        for (&number, &left) in &self.left {
            let present = self.members.get(&number);
            let present = present.map(|member| (member.since, u64::MAX));
            let former = self.stays.get(&number).into_iter().flatten();
            let former = former.map(|stay| (stay.since, stay.until));
            for (since, until) in former.chain(present) {
                ledger.has_left(number, since, left.min(until));
            }
        }
    }

    /// Brokers have left the list with the present round. One that comes back at the same address ends rounds of before too: whoever was
    /// vouched for there has nobody else to ask.
    fn note_stays(&mut self, gone: BTreeMap<BrokerNumber, Member>) {
        for (number, member) in gone {
            let stays = self.stays.entry(number).or_default();
            if stays.len() == STAYS_MAX {
                stays.remove(0);
            }
            stays.push(Stay {
                gossip_address: member.gossip_address,
                since: member.since,
                until: self.number,
            });
        }
        for (number, member) in &self.members {
            if let Some(stays) = self.stays.get_mut(number) {
                stays.retain(|stay| stay.gossip_address == member.gossip_address);
            }
        }
    }

    /// Those who may hold on to shares. One broker alone has nobody who vouches for it, nor anybody who could leave the round and so
    /// end what was granted in it.
    fn able_to_hold(&self) -> Arc<[BrokerNumber]> {
        match (2..=ROUND_BROKERS_MAX).contains(&self.members.len()) {
            true => self.members.keys().copied().collect(),
            false => Arc::default(),
        }
    }
}
