//! The topic's limit over the brokers: the ledger of the control plane and the brokers' leases, in virtual time.

use clock::Instant;
use limit::lease::Mode;
use limit::{
    Burst, Gossip, History, JudgedBy, LeaseHolder, Ledger, LedgerConfig, Limit, OnExceed, Rate,
    Report, Share, SharePolicy, TokenBucket, Traffic, Unit,
};
use placement::{Gate, Station};

use crate::Scene;

/// Who may use how much, and who knows of it.
pub(super) struct Shares {
    ledger: Ledger,
    holders: Vec<LeaseHolder>,
    /// By broker, whether it carries the topic.
    is_member: Vec<bool>,
    reports: u64,
}

impl Shares {
    /// Exchanges of reports and grants after which a division is in force: shrink, confirm, grow, confirm.
    pub(super) const ROUNDS_TO_SETTLE: usize = 4;

    pub(super) fn new((rate, burst): (Rate, Burst), scene: &Scene) -> Self {
        let batch = scene.publishers.iter().map(|each| each.batch_messages);
        let config = LedgerConfig {
            batch_tokens: f64::from(batch.max().unwrap_or(1)),
            mode: if scene.spec.topic.adaptor {
                Mode::Adapting
            } else {
                Mode::Frozen
            },
            ..LedgerConfig::default()
        };
        let limit = Limit {
            rate,
            burst,
            unit: Unit::Messages,
            on_exceed: OnExceed::Delay,
            judged_by: JudgedBy::Arrival,
            sharing: SharePolicy::Lease,
            gossip: Gossip::default(),
        };
        Shares {
            ledger: Ledger::new(limit, config, 1),
            holders: vec![LeaseHolder::new(); scene.brokers.len()],
            is_member: vec![false; scene.brokers.len()],
            reports: 0,
        }
    }

    /// Messages per second that are placed on each broker.
    pub(super) fn carry(&mut self, rates: &[f64], now: Instant) {
        let mut weights = Vec::new();
        for (broker, &rate) in (0u32..).zip(rates) {
            let is_member = &mut self.is_member[broker as usize];
            if rate > 0.0 {
                self.ledger.join(broker, now);
                weights.push((broker, rate));
                *is_member = true;
            } else if *is_member {
                self.ledger.leave(broker);
            }
        }
        self.ledger.set_weights(&weights);
    }

    /// Every broker reports, every grant arrives.
    pub(super) fn exchange(
        &mut self,
        now: Instant,
        stations: &mut [Station],
        histories: &mut [History],
    ) {
        self.reports += 1;
        for (broker, holder) in (0u32..).zip(&mut self.holders) {
            if !self.is_member[broker as usize] {
                continue;
            }
            holder.report_sent(self.reports, now);
            let traffic = histories
                .get_mut(broker as usize)
                .map_or(Traffic::default(), |history| history.traffic(now));
            let report = Report {
                number: self.reports,
                confirmed: holder.confirmation(),
                held: holder.in_force(now),
                traffic,
            };
            // One that has left is no member any more, and that is all that could be refused.
            if self.ledger.report(broker, &report, now).is_err() {
                self.is_member[broker as usize] = false;
            }
        }
        for (broker, grant) in self.ledger.plan(now) {
            let holder = &mut self.holders[broker as usize];
            if holder.receive(&grant, now) {
                apply(
                    stations[broker as usize].gate_mut(),
                    holder.in_force(now),
                    now,
                );
            }
        }
        debug_assert!(
            self.ledger.exposure(now).is_within(self.ledger.limit()),
            "{:?} beyond {:?}",
            self.ledger.exposure(now),
            self.ledger.limit()
        );
    }

    /// A broker's process has ended: what it held is free, and its bucket is gone.
    pub(super) fn dead(&mut self, broker: u32, station: &mut Station) {
        self.ledger.dead(broker);
        self.holders[broker as usize] = LeaseHolder::new();
        self.is_member[broker as usize] = false;
        *station.gate_mut() = Gate::Shut;
    }
}

/// A bucket begins empty, keeps its tokens when it is resized, and is gone with the share.
fn apply(gate: &mut Gate, share: Option<Share>, now: Instant) {
    match (share, gate) {
        (None, gate) => *gate = Gate::Shut,
        (Some(share), Gate::Bucket(bucket)) => {
            if (bucket.rate(), bucket.burst()) != (share.rate, share.burst) {
                bucket.resize(now, share.rate, share.burst);
            }
        }
        (Some(share), gate) => {
            *gate = Gate::Bucket(TokenBucket::empty(share.rate, share.burst, now));
        }
    }
}
