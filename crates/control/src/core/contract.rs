//! Contracts on their way to the brokers: each broker confirms when one is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use link::Contract;

use super::outbox::Outbox;
use super::registry::Brokers;
use super::topics::Topics;
use super::{BrokerNumber, Effect, Liveness};

/// Brokers that do not confirm within this time are named to whoever waits.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

/// A contract that differs at a broker is told again after this many of its reports.
const REFRESH_REPORTS: u64 = 10;

/// What brokers are told and confirm: contracts, and channels of topics.
#[derive(Debug, Default)]
pub(super) struct Contracts {
    last_ticket: u64,
    /// By number, those that not all brokers have confirmed.
    pending: BTreeMap<u64, Pending>,
}

/// A contract that not all brokers have confirmed.
#[derive(Debug)]
struct Pending {
    waiting: Vec<BrokerNumber>,
    until: Instant,
}

impl Contracts {
    /// Another number for what a broker is told and is to confirm.
    pub(super) fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Sends a topic's contract to all brokers that are up; gives its number.
    pub(super) fn announce(
        &mut self,
        name: &str,
        topics: &mut Topics,
        brokers: &mut Brokers,
        out: &mut Outbox,
        now: Instant,
    ) -> u64 {
        let ticket = self.next_ticket();
        if let Some(topic) = topics.get_mut(name) {
            topic.ticket = ticket;
        }
        let contract = topics.contract_of(name, ticket);
        let up = brokers
            .numbered()
            .filter(|(_, broker)| broker.link.is_some() && broker.liveness == Liveness::Up);
        let waiting: Vec<BrokerNumber> = up.map(|(number, _)| number).collect();
        for &number in &waiting {
            out.send(number, contract.clone());
            // Whether it takes it, later reports show, and those need not name the topic.
            let broker = &mut brokers[number];
            if broker.reports.get(name).is_some() {
                let told = broker.report_number;
                broker.told_again.insert(name.to_owned(), told);
            }
        }
        let until = now + CONFIRM_TIMEOUT;
        self.pending.insert(ticket, Pending { waiting, until });
        self.settle(ticket, false, brokers, out);
        ticket
    }

    /// A broker has a contract in force. Contracts travel in order, so that those before it are too.
    pub(super) fn in_force(
        &mut self,
        number: BrokerNumber,
        ticket: u64,
        brokers: &mut Brokers,
        out: &mut Outbox,
    ) {
        let confirmed = &mut brokers[number].confirmed_ticket;
        if ticket <= *confirmed {
            return;
        }
        let pending = self.pending.range_mut(*confirmed + 1..=ticket);
        *confirmed = ticket.min(self.last_ticket);
        let mut settled = Vec::new();
        for (&ticket, pending) in pending {
            pending.waiting.retain(|&waiting| waiting != number);
            if pending.waiting.is_empty() {
                settled.push(ticket);
            }
        }
        for ticket in settled {
            self.settle(ticket, false, brokers, out);
        }
    }

    /// Those whose time is over, the oldest first.
    pub(super) fn expire(&mut self, brokers: &Brokers, out: &mut Outbox, now: Instant) {
        while let Some((&ticket, oldest)) = self.pending.first_key_value()
            && now >= oldest.until
        {
            self.settle(ticket, true, brokers, out);
        }
    }

    fn settle(&mut self, ticket: u64, is_over: bool, brokers: &Brokers, out: &mut Outbox) {
        let is_settled = |pending: &Pending| pending.waiting.is_empty() || is_over;
        if !self.pending.get(&ticket).is_some_and(is_settled) {
            return;
        }
        let waiting = self.pending.remove(&ticket).map(|pending| pending.waiting);
        let name = |number: BrokerNumber| brokers[number].name.clone();
        let missing = waiting.into_iter().flatten().map(name).collect();
        out.push(Effect::ContractSettled { ticket, missing });
    }
}

/// Tells a broker again what it has otherwise than declared by its report numbered `report`: contracts that were
/// removed or changed while it was away, and shares and other words of topics that were deleted there. A topic's contract is not told
/// again with every report, for the order may be under way, or cannot be carried out.
pub(super) fn refresh(
    number: BrokerNumber,
    report: u64,
    named: &[String],
    topics: &Topics,
    brokers: &mut Brokers,
    out: &mut Outbox,
) {
    let broker = &brokers[number];
    let mut orders = Vec::new();
    let mut told_again = BTreeMap::new();
    let watched = broker.told_again.keys();
    let watched: BTreeSet<&String> = watched.chain(named).collect();
    let reports = watched
        .into_iter()
        .filter_map(|name| broker.reports.get(name));
    for said in reports.map(|carried| &carried.report) {
        let declared = topics.get(&said.topic);
        let Contract {
            limit,
            cpu_share,
            on_full,
            durability,
        } = declared.map_or_else(Contract::default, |topic| topic.spec.contract);
        let is_so =
            (said.cpu_share, said.on_full, said.durability) == (cpu_share, on_full, durability);
        if is_so && (limit.is_some() || !said.is_limited) {
            continue;
        }
        // A report that is heard in parts comes here with each of them.
        let told = broker.told_again.get(&said.topic).copied();
        let told = told.filter(|&told| told <= report && report - told < REFRESH_REPORTS);
        told_again.insert(said.topic.clone(), told.unwrap_or(report));
        if told.is_none() {
            let ticket = declared.map_or(0, |topic| topic.ticket);
            orders.push((
                cpu_share > said.cpu_share,
                topics.contract_of(&said.topic, ticket),
            ));
        }
    }
    // Those that give up time make room for those that get some.
    orders.sort_by_key(|(gets_more, _)| *gets_more);
    brokers[number].told_again = told_again;
    for (_, order) in orders {
        out.send(number, order);
    }
}
