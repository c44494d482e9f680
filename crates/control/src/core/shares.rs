//! The TB Adaptor's side of the registry: who carries a topic, and what each may use of its limit.
//!
//! The arithmetic and the leases are [`limit::Ledger`]'s; here its members are kept in step with
//! placement and traffic, and its grants are sent.

use clock::Instant;
use limit::InvalidReport;
use limit::lease::Mode;
use limit::{Grant, Ledger, LedgerConfig, Report, Traffic};
use link::{ToBroker, TopicReport};

use super::words::Carried;
use super::{Broker, BrokerNumber, Core, Liveness, Topic};

/// A broker that carries a topic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carrier {
    pub(super) broker: BrokerNumber,
    /// Messages per second placed there, or that arrive there from clients that cannot be moved.
    pub(super) rate: f64,
}

impl Core {
    /// Keeps the members of a topic's ledger in step and sends what it grants.
    pub(super) fn drive_shares(&mut self, name: &str, now: Instant) {
        let Some(topic) = self.topics.get(name).filter(|topic| topic.shares.is_some()) else {
            return self.due.shares.remove(name);
        };
        let carriers = self.carriers(name, topic);
        let config = self.ledger_config();
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        topic.learn(&self.brokers, &self.rounds);
        let Some(ledger) = &mut topic.shares else {
            return;
        };
        let brokers = (0u32..).zip(&self.brokers);
        for (number, broker) in brokers.filter(|(_, broker)| broker.topics.contains_key(name)) {
            broker.bring_up_to_date(number, ledger);
        }
        if !are_alike(&carriers, &topic.carriers) {
            topic.follow_carriers(name, carriers, &self.brokers, now);
        }
        let Some(ledger) = &mut topic.shares else {
            return;
        };
        let is_stale = topic.placed_at.is_some_and(|at| now - at < config.window);
        ledger.set_mode(if is_stale { Mode::Frozen } else { config.mode });
        let grants = self.plan_grants(name, is_stale, now);
        for (broker, grant) in grants {
            self.send(
                broker,
                ToBroker::Grant {
                    topic: name.to_owned(),
                    grant,
                },
            );
        }
    }

    /// What is to be granted: kept before it is sent, or no more than is kept.
    fn plan_grants(
        &mut self,
        name: &str,
        is_stale: bool,
        now: Instant,
    ) -> Vec<(BrokerNumber, Grant)> {
        let Some(topic) = self.topics.get_mut(name) else {
            return Vec::new();
        };
        let Some(ledger) = &mut topic.shares else {
            return Vec::new();
        };
        if self.held.is_held() {
            let kept = topic.kept_shares.iter();
            let number = |name: &String| self.broker_by_name.get(name).copied();
            let kept = kept.filter_map(|(name, share)| Some((number(name)?, *share)));
            self.due.shares.insert(name);
            return ledger.plan_within(&kept.collect(), now);
        }
        let grants = ledger.plan(now);
        let brokers = &self.brokers;
        let is_heard = |number: BrokerNumber| brokers[number as usize].is_heard();
        match !is_stale && ledger.is_at_rest(now, is_heard) {
            true => self.due.shares.remove(name),
            false => self.due.shares.insert(name),
        }
        self.keep_shares(name, now);
        grants
    }

    /// Brokers that publishers of the topic are placed on, or whose reports show traffic of it.
    fn carriers(&self, name: &str, topic: &Topic) -> Vec<Carrier> {
        let placed = topic.placed_rates(self.brokers.len());
        let brokers = (0u32..).zip(&self.brokers).zip(placed);
        let carriers = brokers.filter(|((_, broker), _)| broker.counts());
        carriers
            .filter_map(|((number, broker), placed)| {
                let carried = broker.topics.get(name);
                let fixed = carried.map_or(0.0, |carried| carried.fixed_rate);
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

    /// Has leases at a broker that has reported renewed: all at once.
    pub(super) fn renew_leases(&mut self, number: BrokerNumber, now: Instant) {
        let config = self.ledger_config();
        let broker = &mut self.brokers[number as usize];
        let is_due = |last: Renewal| now - last.received_at >= config.ttl / RENEWALS_PER_LEASE;
        if broker.topics.is_empty() || !broker.renewal.is_none_or(is_due) {
            return;
        }
        // Leases that have ended meanwhile are not renewed.
        let ends_after = config.ttl + config.drift;
        let unbroken = broker
            .renewal
            .filter(|last| now < last.received_at + ends_after);
        broker.renewal = Some(Renewal {
            since: unbroken.map_or(now, |last| last.since),
            received_at: now,
        });
        let report = broker.report_number;
        self.send(number, ToBroker::Renewed { report });
    }

    /// What a broker's report says about its share and its traffic.
    pub(super) fn share_reported(
        &mut self,
        number: BrokerNumber,
        report: u64,
        carried: &Carried,
        now: Instant,
    ) {
        let said = &carried.report;
        let Some(topic) = self.topics.get_mut(&said.topic) else {
            return;
        };
        topic.learn(&self.brokers, &self.rounds);
        let Some(ledger) = &mut topic.shares else {
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
            Err(error) => self.distrust(number, &error.to_string()),
        }
    }

    /// The epoch of a new ledger: greater than that of any ledger before, so that its grants count.
    pub(super) fn ledger_epoch(&mut self) -> u64 {
        self.last_ledger += 1;
        (self.epoch << LEDGER_BITS) + self.last_ledger
    }

    pub(super) fn ledger_config(&self) -> LedgerConfig {
        LedgerConfig {
            ttl: self.settings.lease,
            period: self.settings.adapt_period,
            window: self.settings.adapt_window,
            mode: if self.settings.adapts {
                Mode::Adapting
            } else {
                Mode::Frozen
            },
            ..LedgerConfig::default()
        }
    }
}

impl Topic {
    /// The members of the ledger become those that carry the topic now.
    fn follow_carriers(
        &mut self,
        name: &str,
        carriers: Vec<Carrier>,
        brokers: &[Broker],
        now: Instant,
    ) {
        let Some(ledger) = &mut self.shares else {
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
            self.take_seat(carrier.broker, &brokers[carrier.broker as usize]);
        }
        let Some(ledger) = &mut self.shares else {
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
            if let Some((report, at)) = last_report(&brokers[newcomer.broker as usize], name) {
                // If it does not count, the next one does.
                let _ = ledger.report(newcomer.broker, &report, at);
            }
        }
        ledger.set_weights(&weights);
        ledger.set_batch(
            self.publishers
                .largest_batch_tokens(self.spec.limit.map(|limit| limit.unit)),
        );
        self.carriers = carriers;
    }
}

/// Leases are renewed so many times before they would end.
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

    /// Whether reports come.
    fn is_heard(&self) -> bool {
        self.link.is_some() && self.liveness == Liveness::Up
    }
}

/// Ledgers in one life of the controller: as many as fit.
const LEDGER_BITS: u32 = 32;

/// Rates that differ by less than this part are not worth another division of the limit.
const RATE_CHANGE_MIN: f64 = 0.05;

fn are_alike(now: &[Carrier], before: &[Carrier]) -> bool {
    let is_alike = |(now, before): (&Carrier, &Carrier)| {
        let change = (now.rate - before.rate).abs();
        now.broker == before.broker && change <= RATE_CHANGE_MIN * now.rate.max(before.rate)
    };
    now.len() == before.len() && now.iter().zip(before).all(is_alike)
}

/// A broker's report in the ledger's words.
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
    let carried = broker.topics.get(topic)?;
    let link = broker.link?;
    let named = carried.said_in.filter(|_| carried.link == link);
    let whole = (broker.report_number, broker.heard_at);
    let (number, at) = named.filter(|named| named.0 > whole.0).unwrap_or(whole);
    let report = share_report(number, &carried.report).ok();
    Some((report.filter(|_| number > 0)?, at))
}
