//! Rounds: which brokers may hold on to their shares while this controller is away ([`limit::Vouches`]).
//!
//! A round begins when a broker has come, fallen silent, died or moved its gossip address. Grants are of the round in which
//! they are made. What a silent broker may hold on to is taken back when another broker of its round has left it.

use std::collections::BTreeMap;
use std::sync::Arc;

use limit::Ledger;
use link::{Door, Round, ToBroker};

use super::{BrokerNumber, Core};

/// The round, and who is on its list.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    number: u64,
    members: BTreeMap<BrokerNumber, Member>,
    /// By broker, also of those that are not on the list any more: since which round it was on all lists, and before which it has left
    /// all.
    left: BTreeMap<BrokerNumber, (u64, u64)>,
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

/// Brokers that ask each other, at most: of more of them none holds on to anything.
const ROUND_BROKERS_MAX: usize = 64;

/// Rounds in one life of the controller: as many as fit.
const ROUND_BITS: u32 = 32;

impl Rounds {
    /// Those who may hold on to shares. One broker alone has nobody who vouches for it, nor anybody who could leave the round and so
    /// end what was granted in it.
    fn able_to_hold(&self) -> Arc<[BrokerNumber]> {
        match (2..=ROUND_BROKERS_MAX).contains(&self.members.len()) {
            true => self.members.keys().copied().collect(),
            false => Arc::default(),
        }
    }
}

impl Core {
    /// Begins another round if other brokers are there than before.
    pub(super) fn drive_rounds(&mut self) {
        let up = (0u32..).zip(&self.brokers).filter_map(|(number, broker)| {
            let address = broker.answering(Door::Gossip);
            address
                .filter(|_| broker.is_up())
                .map(|address| (number, address))
        });
        let members = self.rounds.members.iter();
        let members = members.map(|(number, member)| (*number, &member.gossip_address));
        if up.clone().eq(members) {
            return;
        }
        let present: Vec<(BrokerNumber, String)> = up
            .map(|(number, address)| (number, address.clone()))
            .collect();
        let round = (self.rounds.number + 1).max(self.epoch << ROUND_BITS);
        let mut former = std::mem::take(&mut self.rounds.members);
        let members = present.into_iter().map(|(number, gossip_address)| {
            let known = former.remove(&number);
            let stays = known.filter(|member| member.gossip_address == gossip_address);
            let member = stays.unwrap_or(Member {
                gossip_address,
                since: round,
            });
            (number, member)
        });
        self.rounds.members = members.collect();
        self.rounds.number = round;
        self.rounds.holders = self.rounds.able_to_hold();
        self.rounds.version += 1;
        self.look_at_all_shares();
        let told: Vec<BrokerNumber> = self.rounds.members.keys().copied().collect();
        for number in told {
            self.send_round(number);
        }
    }

    /// Tells a broker of the round, if it is on the list.
    pub(super) fn send_round(&mut self, number: BrokerNumber) {
        let is_linked = self.broker(number).link.is_some();
        if !is_linked || !self.rounds.members.contains_key(&number) {
            return;
        }
        let members = self.rounds.members.iter();
        let can_hold = !self.rounds.holders.is_empty();
        let others = members.filter(|(other, _)| can_hold && **other != number);
        let round = Round {
            number: self.rounds.number,
            others: others
                .map(|(_, member)| member.gossip_address.clone())
                .collect(),
            key: self.sharing.key.clone(),
        };
        self.send(number, ToBroker::Round(round));
    }

    /// A broker says before which round it has left all.
    pub(super) fn round_left(&mut self, number: BrokerNumber, left: u64) {
        let Some(member) = self.rounds.members.get(&number) else {
            return;
        };
        let before = self.rounds.left.get(&number).copied();
        let is_known =
            before.is_some_and(|(since, before)| since == member.since && left <= before);
        if left == 0 || is_known || left > self.rounds.number {
            return;
        }
        self.rounds.left.insert(number, (member.since, left));
        self.rounds.version += 1;
        self.look_at_all_shares();
    }
}

impl Rounds {
    /// Another number whenever ledgers are to be told something.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Tells a ledger what is known of rounds.
    pub(super) fn tell(&self, ledger: &mut Ledger) {
        ledger.begin_round(self.number, Arc::clone(&self.holders));
        for (&number, &(since, left)) in &self.left {
            ledger.has_left(number, since, left);
        }
    }
}
