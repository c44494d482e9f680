//! Which grants to send: every target, as far as it is free now.

use std::collections::BTreeMap;

use clock::Instant;

use super::super::member::{Heard, Sent};
use super::super::outstanding::Allowed;
use super::Ledger;
use crate::Share;
use crate::adaptor::{least_burst, least_rate, round_down};
use crate::lease::{Exposure, Grant};

impl Ledger {
    /// Grants to all brokers whose latest report can still be answered, smaller shares first; none grows beyond what
    /// `kept` has of it.
    pub(super) fn grants(
        &mut self,
        now: Instant,
        kept: Option<&BTreeMap<u32, Option<Share>>>,
    ) -> Vec<(u32, Grant)> {
        let mut grants = Vec::new();
        for broker in self.in_order(now) {
            let most = kept.map(|kept| Exposure::from(kept.get(&broker).copied().flatten()));
            if let Some(grant) = self.grant(broker, most, now) {
                grants.push((broker, grant));
            }
        }
        grants
    }

    /// Who gets a grant, in this order: those that grow by nothing, then those that have nothing,
    /// then the others.
    fn in_order(&self, now: Instant) -> Vec<u32> {
        let mut order: Vec<(u8, u32)> = self
            .members
            .iter()
            .filter(|(_, member)| {
                let answerable = |heard: Heard| now < heard.received_at + self.config.ttl;
                member.report.is_some_and(answerable)
            })
            .map(|(&broker, member)| {
                let exposed = member.outstanding.exposure(now);
                let rank = if exposed.covers(Exposure::from(member.target)) {
                    0
                } else if exposed == Exposure::default() {
                    1
                } else {
                    2
                };
                (rank, broker)
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, broker)| broker).collect()
    }

    /// The grant for one broker, unless the latest one says the same and its report is answered.
    fn grant(&mut self, broker: u32, most: Option<Exposure>, now: Instant) -> Option<Grant> {
        let member = self.members.get(&broker)?;
        let report = member.report?;
        let total = self.exposure(now);
        let free = Exposure {
            rate: (self.limit.rate.get() - total.rate).max(0.0),
            burst: (self.limit.burst.get() - total.burst).max(0.0),
        };
        // Where more is claimed than there is, a claim is reserved but gives no right: it may be
        // old news of a share that others have got since.
        let exposed = if total.is_within(&self.limit) {
            member.outstanding.exposure(now)
        } else {
            member.outstanding.granted(now)
        };
        let free = most.map_or(free, |most| Exposure {
            rate: free.rate.min((most.rate - exposed.rate).max(0.0)),
            burst: free.burst.min((most.burst - exposed.burst).max(0.0)),
        });
        let share = self.affordable(member.target, exposed, free);
        let floor = share.and_then(|share| self.floor_of(share));
        let is_said = |sent: Sent| (sent.share, sent.floor) == (share, floor);
        if report.is_answered && member.sent.is_some_and(is_said) {
            return None;
        }
        self.seq += 1;
        let round = self.round_of(broker);
        let grant = Grant {
            epoch: self.epoch,
            seq: self.seq,
            share,
            floor,
            ttl_ms: self.config.ttl_ms(),
            answers_report: report.number,
            round,
        };
        let ends_at = self.config.lease_end(report.received_at);
        let member = self.members.get_mut(&broker)?;
        member.sent = Some(Sent {
            seq: grant.seq,
            share,
            floor,
            round,
        });
        member.report = Some(Heard {
            is_answered: true,
            ..report
        });
        member.outstanding.sent(Allowed {
            seq: grant.seq,
            share: share.into(),
            floor: floor.into(),
            ends_at,
            round,
            is_over: self.leavers.have_ended(broker, round),
        });
        Some(grant)
    }

    /// As much of `wanted` as the broker may be using already or is free. Less than one batch is
    /// none.
    fn affordable(
        &self,
        wanted: Option<Share>,
        exposed: Exposure,
        free: Exposure,
    ) -> Option<Share> {
        let wanted = wanted?;
        let part = |wanted: f64, exposed: f64, free: f64, whole: f64| {
            if wanted <= exposed {
                wanted
            } else {
                wanted.min(exposed.max(round_down(exposed + free, whole)))
            }
        };
        let (rate, burst) = (wanted.rate.get(), wanted.burst.get());
        let share = Exposure {
            rate: part(rate, exposed.rate, free.rate, self.limit.rate.get()),
            burst: part(burst, exposed.burst, free.burst, self.limit.burst.get()),
        };
        let least = Exposure {
            rate: least_rate(self.limit.rate, self.members.len()).min(rate),
            burst: least_burst(self.limit.burst, self.config.batch_tokens).min(burst),
        };
        if share.covers(least) {
            share.to_share()
        } else {
            None
        }
    }

    /// What stays of a share when its lease has ended: a fraction, but one batch.
    fn floor_of(&self, share: Share) -> Option<Share> {
        let fraction = self.config.floor_fraction;
        if fraction.is_nan() || fraction <= 0.0 {
            return None;
        }
        let part = |whole: f64, limit: f64| round_down(whole * fraction.min(1.0), limit).min(whole);
        let least = least_burst(self.limit.burst, self.config.batch_tokens);
        let burst = share.burst.get();
        let floor = Exposure {
            rate: part(share.rate.get(), self.limit.rate.get()),
            burst: part(burst, self.limit.burst.get())
                .max(round_down(least, self.limit.burst.get()).min(burst)),
        };
        floor.to_share()
    }
}
