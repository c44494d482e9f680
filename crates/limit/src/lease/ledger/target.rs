//! What each broker is to have: the limit less what silent brokers keep, divided by traffic or
//! weight.

use clock::Instant;

use super::super::member::Member;
use super::{Ledger, Mode};
use crate::adaptor::{Claim, is_worth_moving, round_down, split};
use crate::lease::Exposure;
use crate::{Limit, Share, Traffic};

/// What the present targets were computed from, and when they were last looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    at: Instant,
    basis: Basis,
}

/// When any of this changes, targets are computed anew at once and adopted however small the
/// change.
#[derive(Clone, Debug, PartialEq)]
struct Basis {
    limit: Limit,
    brokers: Vec<u32>,
    reserved: Exposure,
}

impl Ledger {
    /// Looks at the traffic once a period, at brokers that come, go and fall silent at once.
    pub(super) fn retarget(&mut self, now: Instant) {
        if self.is_settling(now) {
            return;
        }
        let basis = self.basis(now);
        let is_same = self
            .planned
            .as_ref()
            .is_some_and(|planned| planned.basis == basis);
        let is_period_over = self
            .planned
            .as_ref()
            .is_none_or(|planned| now >= planned.at + self.config.period);
        if is_same && !is_period_over && !self.is_due {
            return;
        }
        let targets = self.divide(&basis, now);
        let is_worth_it = self.is_worth_it(&basis.brokers, &targets);
        if is_worth_it || !is_same {
            for (broker, target) in basis.brokers.iter().zip(targets) {
                if let Some(member) = self.members.get_mut(broker) {
                    member.target = target;
                }
            }
        }
        self.is_due = false;
        self.planned = Some(Planned { at: now, basis });
    }

    /// Whether a share changes by enough, or the present ones leave some of the limit to nobody.
    fn is_worth_it(&self, brokers: &[u32], wanted: &[Option<Share>]) -> bool {
        const ROUNDING: f64 = 1e-9;
        let present = || brokers.iter().map(|broker| self.members[broker].target);
        let sum = |shares: &mut dyn Iterator<Item = Option<Share>>| {
            shares
                .map(Exposure::from)
                .fold(Exposure::default(), Exposure::plus)
        };
        let (has, gets) = (sum(&mut present()), sum(&mut wanted.iter().copied()));
        let is_left = |has: f64, gets: f64| has < gets * (1.0 - ROUNDING);
        is_left(has.rate, gets.rate)
            || is_left(has.burst, gets.burst)
            || present()
                .zip(wanted)
                .any(|(present, &wanted)| is_worth_moving(present, wanted))
    }

    /// Whether brokers of a former controller are still awaited: each is to keep what it holds.
    fn is_settling(&mut self, now: Instant) -> bool {
        let Some(until) = self.settling_until else {
            return false;
        };
        for member in self.members.values_mut().filter(|each| !each.is_leaving) {
            member.target = member.held;
        }
        let awaits = self.members.values().any(|member| member.is_awaited);
        if awaits && now < until {
            return true;
        }
        self.settling_until = None;
        let basis = self.basis(now);
        // Nobody new, nobody missing: what they hold stays for a period. Anything else is seen at
        // once.
        let is_as_it_was = !awaits && self.members.values().all(|member| member.held.is_some());
        if is_as_it_was {
            self.is_due = false;
            self.planned = Some(Planned { at: now, basis });
        }
        is_as_it_was
    }

    fn basis(&self, now: Instant) -> Basis {
        let is_served =
            |member: &Member| !member.is_leaving && now < self.config.lease_end(member.heard_at);
        let served = self.members.iter().filter(|(_, member)| is_served(member));
        let others = self.members.values().filter(|member| !is_served(member));
        Basis {
            limit: self.limit,
            brokers: served.map(|(&broker, _)| broker).collect(),
            reserved: others
                .map(|member| member.outstanding.exposure(now))
                .fold(Exposure::default(), Exposure::plus),
        }
    }

    /// The shares of the brokers that are heard of, in their order.
    fn divide(&self, basis: &Basis, now: Instant) -> Vec<Option<Share>> {
        let (rate, burst) = (self.limit.rate.get(), self.limit.burst.get());
        let available = Exposure {
            rate: round_down(rate - basis.reserved.rate, rate),
            burst: round_down(burst - basis.reserved.burst, burst),
        };
        let Some(available) = available.to_share() else {
            return vec![None; basis.brokers.len()];
        };
        let limit = Limit {
            rate: available.rate,
            burst: available.burst,
            ..self.limit
        };
        let members: Vec<&Member> = basis.brokers.iter().map(|id| &self.members[id]).collect();
        let traffic = self.traffic(&members, now);
        // Whoever claims many times what may pass leaves the others what they ask for, up to equal parts: a broker that is wrong
        // about itself, or lies, harms itself.
        let is_absurd = traffic.iter().any(|traffic| exceeds(*traffic, &limit));
        let brokers = members.len();
        let claims: Vec<Claim> = members
            .iter()
            .zip(traffic)
            .map(|(member, traffic)| Claim {
                traffic,
                floor: is_absurd.then(|| asked(traffic, &limit, brokers)).flatten(),
                is_holder: member.target.is_some(),
            })
            .collect();
        let shares = split(&limit, &claims, self.config.batch_tokens);
        // Part of what is available, but added up with what others have of the whole.
        let rounded = |share: Share| {
            let part = Exposure {
                rate: round_down(share.rate.get(), rate),
                burst: round_down(share.burst.get(), burst),
            };
            part.to_share()
        };
        shares
            .into_iter()
            .map(|share| share.and_then(rounded))
            .collect()
    }

    /// The traffic to go by. A broker whose history is younger than the window counts at least as
    /// much as its weight says, measured by the brokers with a whole history; while there is none
    /// of them, weights alone count.
    fn traffic(&self, members: &[&Member], now: Instant) -> Vec<Traffic> {
        let is_settled = |member: &Member| {
            member
                .known_since
                .is_some_and(|since| now >= since + self.config.window)
        };
        let all_weights: f64 = members.iter().map(|member| member.weight).sum();
        let settled: Vec<&&Member> = members.iter().filter(|member| is_settled(member)).collect();
        let is_by_weight = self.config.mode == Mode::Frozen || settled.is_empty();
        if is_by_weight && (all_weights > 0.0 || self.config.mode == Mode::Frozen) {
            return members
                .iter()
                .map(|member| believed(member.weight, member.weight))
                .collect();
        }
        let sum = |of: fn(&Member) -> f64| -> f64 { settled.iter().map(|member| of(member)).sum() };
        let weights = sum(|member| member.weight);
        let per_weight = |quantity: f64| {
            if weights > 0.0 {
                quantity / weights
            } else {
                0.0
            }
        };
        let rate_per_weight = per_weight(sum(|member| member.traffic.mean_rate()));
        let backlog_per_weight = per_weight(sum(|member| member.traffic.max_backlog()));
        let of = |member: &&Member| {
            if is_settled(member) {
                return member.traffic;
            }
            believed(
                (member.weight * rate_per_weight).max(member.traffic.mean_rate()),
                (member.weight * backlog_per_weight).max(member.traffic.max_backlog()),
            )
        };
        members.iter().map(of).collect()
    }
}

fn believed(mean_rate: f64, max_backlog: f64) -> Traffic {
    Traffic::new(mean_rate.min(Traffic::MAX), max_backlog.min(Traffic::MAX)).unwrap_or_default()
}

/// A backlog beyond what a limit passes in so many seconds is no backlog.
const BACKLOG_MAX_S: f64 = 3600.0;

/// A rate of more than so many limits is not believed: a flood that is real is divided by like all traffic.
const LIMITS_CLAIMED_MAX: f64 = 10.0;

/// Whether this is many times the whole limit, or waits for longer than anybody would.
fn exceeds(traffic: Traffic, limit: &Limit) -> bool {
    let (rate, burst) = (limit.rate.get(), limit.burst.get());
    traffic.mean_rate() > LIMITS_CLAIMED_MAX * rate
        || traffic.max_backlog() > rate * BACKLOG_MAX_S + burst
}

/// What one of so many brokers asks for, up to its equal part.
fn asked(traffic: Traffic, limit: &Limit, brokers: usize) -> Option<Share> {
    let part = |whole: f64, claimed: f64| claimed.min(whole / brokers.max(1) as f64);
    let asked = Exposure {
        rate: part(limit.rate.get(), traffic.mean_rate()),
        burst: part(limit.burst.get(), traffic.max_backlog().max(1.0)),
    };
    asked.to_share()
}
