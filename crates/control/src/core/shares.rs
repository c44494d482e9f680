//! The TB Adaptor's side of the registry: who carries a topic, and how much of its limit each may
//! use.
//!
//! [`limit::Ledger`] does the arithmetic and keeps the leases; here its members are kept in step
//! with placement and traffic, and its grants are sent.

use clock::Instant;
use limit::InvalidReport;
use limit::lease::Mode;
use limit::{Grant, Ledger, LedgerConfig, Report, Traffic};
use link::{ToBroker, TopicReport};

use super::ground::Ground;
use super::registry::Brokers;
use super::reports::Carried;
use super::seats::{Carrier, Shares};
use super::{Broker, BrokerNumber, Liveness, Topic};

/// Divides the limits of topics into shares, as the TB Adaptor does.
pub(super) struct Adaptor<'a> {
    pub(super) ground: Ground<'a>,
}

impl Adaptor<'_> {
    /// Keeps the members of a topic's ledger in step and sends what it grants.
    pub(super) fn drive(&mut self, name: &str, now: Instant) {
        let topic = self.ground.topics.get(name);
        let Some(topic) = topic.filter(|topic| topic.shares.ledger.is_some()) else {
            return self.ground.due.shares.remove(name);
        };
        let carriers = self.carriers(name, topic);
        let config = self.ground.rules.ledger_config();
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        let batch = topic.largest_batch_tokens();
        let shares = &mut topic.shares;
        shares.learn(self.ground.brokers, self.ground.rounds);
        let Some(ledger) = &mut shares.ledger else {
            return;
        };
        let brokers = self.ground.brokers.numbered();
        for (number, broker) in brokers.filter(|(_, broker)| broker.reports.get(name).is_some()) {
            broker.bring_up_to_date(number, ledger);
        }
        if !are_alike(&carriers, &shares.carriers) {
            shares.follow_carriers(name, carriers, batch, self.ground.brokers, now);
        }
        let Some(ledger) = &mut shares.ledger else {
            return;
        };
        let is_stale = topic.placed_at.is_some_and(|at| now - at < config.window);
        ledger.set_mode(if is_stale { Mode::Frozen } else { config.mode });
        let grants = self.plan_grants(name, is_stale, now);
        for (broker, grant) in grants {
            self.ground.out.send(
                broker,
                ToBroker::Grant {
                    topic: name.to_owned(),
                    grant,
                },
            );
        }
    }

    /// The grants to send: kept before they are sent, or no greater than what is kept.
    fn plan_grants(
        &mut self,
        name: &str,
        is_stale: bool,
        now: Instant,
    ) -> Vec<(BrokerNumber, Grant)> {
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return Vec::new();
        };
        let Some(ledger) = &mut topic.shares.ledger else {
            return Vec::new();
        };
        if self.ground.out.held.is_held() {
            let kept = topic.shares.kept.iter();
            let number = |name: &String| self.ground.brokers.named(name);
            let kept = kept.filter_map(|(name, share)| Some((number(name)?, *share)));
            self.ground.due.shares.insert(name);
            return ledger.plan_within(&kept.collect(), now);
        }
        let grants = ledger.plan(now);
        let brokers = self.ground.brokers;
        let is_heard = |number: BrokerNumber| brokers[number].is_heard();
        match !is_stale && ledger.is_at_rest(now, is_heard) {
            true => self.ground.due.shares.remove(name),
            false => self.ground.due.shares.insert(name),
        }
        self.ground.out.keep_shares(name, topic, brokers, now);
        grants
    }

    /// Brokers that publishers of the topic are placed on, or whose reports show traffic of it.
    fn carriers(&self, name: &str, topic: &Topic) -> Vec<Carrier> {
        let placed = topic.placed_rates(self.ground.brokers.len());
        let limit = topic.shares.ledger.as_ref().map(Ledger::limit);
        let whole = limit.map_or(f64::MAX, |limit| limit.rate.get());
        let brokers = self.ground.brokers.numbered().zip(placed);
        let carriers = brokers.filter(|((_, broker), _)| broker.counts());
        carriers
            .filter_map(|((number, broker), placed)| {
                let carried = broker.reports.get(name);
                // More than all of the limit counts as that: who says so has no more of it for that.
                let fixed = carried.map_or(0.0, |carried| carried.fixed_rate.min(whole));
                let has_traffic = carried.is_some_and(|carried| {
                    let report = &carried.report;
                    report.messages > 0 || report.depth > 0 || report.mean_rate > 0.0
                });
                let rate = (placed + fixed).max(if has_traffic { 1e-3 } else { 0.0 });
                (rate > 0.0).then_some(Carrier {
                    broker: number,
                    rate,
                })
            })
            .collect()
    }

    /// What a broker's report says about its share and its traffic.
    pub(super) fn reported(
        &mut self,
        number: BrokerNumber,
        report: u64,
        carried: &Carried,
        now: Instant,
    ) {
        let said = &carried.report;
        let Some(topic) = self.ground.topics.get_mut(&said.topic) else {
            return;
        };
        topic.shares.learn(self.ground.brokers, self.ground.rounds);
        let Some(ledger) = &mut topic.shares.ledger else {
            return;
        };
        let heard =
            share_report(report, said).and_then(|report| ledger.report(number, &report, now));
        if said.messages == 0 {
            ledger.rest(number);
        }
        match heard {
            // It is not a member yet; its traffic makes it one.
            Ok(()) | Err(InvalidReport::NotAMember { .. }) => {}
            Err(error) => self
                .ground
                .out
                .distrust(&self.ground.brokers[number], &error.to_string()),
        }
    }
}

impl Shares {
    /// The members of the ledger become those that carry the topic now.
    fn follow_carriers(
        &mut self,
        name: &str,
        carriers: Vec<Carrier>,
        batch: f64,
        brokers: &Brokers,
        now: Instant,
    ) {
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let weights: Vec<(u32, f64)> = carriers
            .iter()
            .map(|carrier| (carrier.broker, carrier.rate))
            .collect();
        for former in &self.carriers {
            if !carriers
                .iter()
                .any(|carrier| carrier.broker == former.broker)
            {
                ledger.leave(former.broker);
            }
        }
        for carrier in &carriers {
            ledger.join(carrier.broker, now);
        }
        for carrier in &carriers {
            self.take_seat(carrier.broker, &brokers[carrier.broker]);
        }
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let newcomers = carriers.iter().filter(|carrier| {
            !self
                .carriers
                .iter()
                .any(|former| former.broker == carrier.broker)
        });
        for newcomer in newcomers {
            // What it said last says what it holds: it need not be waited for.
            if let Some((report, at)) = last_report(&brokers[newcomer.broker], name) {
                // If it does not count, the next one does.
                let _ = ledger.report(newcomer.broker, &report, at);
            }
        }
        ledger.set_weights(&weights);
        ledger.set_batch(batch);
        self.carriers = carriers;
    }
}

/// How often leases are renewed before they would end.
const RENEWALS_PER_LEASE: u32 = 4;

/// How long leases at a broker last that were renewed all at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Renewal {
    /// Leases that ended before were not renewed; since then all were, time and again.
    since: Instant,
    /// When the report came for which they were renewed last.
    received_at: Instant,
}

impl Broker {
    /// Whether its leases, all at once, are to be renewed now that it has reported; then they are.
    pub(super) fn renew_leases(&mut self, config: &LedgerConfig, now: Instant) -> bool {
        let is_due = |last: Renewal| now - last.received_at >= config.ttl / RENEWALS_PER_LEASE;
        if self.reports.all().is_empty() || !self.renewal.is_none_or(is_due) {
            return false;
        }
        // Leases that have ended meanwhile are not renewed.
        let ends_after = config.ttl + config.drift;
        let unbroken = self
            .renewal
            .filter(|last| now < last.received_at + ends_after);
        self.renewal = Some(Renewal {
            since: unbroken.map_or(now, |last| last.since),
            received_at: now,
        });
        true
    }

    /// Tells a ledger of a topic that was not named lately what that means.
    fn bring_up_to_date(&self, number: BrokerNumber, ledger: &mut Ledger) {
        // One that has fallen silent is granted nothing more, least of all in a round that it is not in.
        if self.is_heard() {
            ledger.unchanged(number, self.report_number, self.heard_at);
        }
        if let Some(Renewal { since, received_at }) = self.renewal {
            ledger.renewed(number, since, received_at);
        }
    }

    /// Its last word on a topic while it reports: of one that has fallen silent the last word says nothing of what follows.
    pub(super) fn word(&self, name: &str) -> Option<&Carried> {
        self.reports.get(name).filter(|_| self.is_heard())
    }

    /// Whether reports come.
    fn is_heard(&self) -> bool {
        self.link.is_some() && self.liveness == Liveness::Up
    }
}

/// Rates that differ by less than this part are not worth another division of the limit.
const RATE_CHANGE_MIN: f64 = 0.05;

fn are_alike(now: &[Carrier], before: &[Carrier]) -> bool {
    let is_alike = |(now, before): (&Carrier, &Carrier)| {
        let change = (now.rate - before.rate).abs();
        now.broker == before.broker && change <= RATE_CHANGE_MIN * now.rate.max(before.rate)
    };
    now.len() == before.len() && now.iter().zip(before).all(is_alike)
}

/// A broker's report in the form that the ledger takes.
fn share_report(number: u64, said: &TopicReport) -> Result<Report, InvalidReport> {
    Ok(Report {
        number,
        confirmed: said.confirmed,
        held: said.held,
        traffic: Traffic::new(said.mean_rate, said.max_backlog)?,
    })
}

/// A broker's last report on a topic on its present link, and when it came: the one that named it, or a later one that did not.
fn last_report(broker: &Broker, topic: &str) -> Option<(Report, Instant)> {
    let carried = broker.reports.get(topic)?;
    let link = broker.link?;
    let named = carried.said_in.filter(|_| carried.link == link);
    let whole = (broker.report_number, broker.heard_at);
    let (number, at) = named.filter(|named| named.0 > whole.0).unwrap_or(whole);
    let report = share_report(number, &carried.report).ok();
    Some((report.filter(|_| number > 0)?, at))
}
