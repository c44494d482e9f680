//! Shifts publishers from brokers that violate the SLO in a replay to brokers of the same k with room.
//!
//! It is the paper's iteration (SRTM-long, section 4.2, step 3) played against the replay: cut what violates
//! to what it holds, call it full, spread the excess over the rest. Every round fills at least one broker,
//! so there are at most k rounds.

use super::ReplayFit;
use super::judge::{Judge, Verdict};
use crate::BrokerIndex;
use crate::fitting::shedding_order;

/// An assignment over the same brokers that holds the SLO by replay, if the shifts find one.
pub(super) fn repair(judge: &mut Judge<'_>, fit: &ReplayFit) -> Option<Vec<Option<BrokerIndex>>> {
    let mut broker_of = fit.broker_of.clone();
    let mut verdicts = fit.verdicts.clone();
    // Brokers beyond the k stay out.
    let own = verdicts.iter().map(|verdict| verdict.own_us);
    let mut is_full: Vec<bool> = own.map(|own_us| own_us.is_none()).collect();
    loop {
        let violating = violating(&verdicts);
        if violating.is_empty() {
            return Some(broker_of);
        }
        for &broker in &violating {
            if std::mem::replace(&mut is_full[broker.0 as usize], true) {
                return None;
            }
        }
        if is_full.iter().all(|&is_full| is_full) {
            return None;
        }
        for broker in violating {
            cut(judge, &mut broker_of, broker);
        }
        let spread = judge.distribute(&broker_of, &is_full, 0).ok()?;
        broker_of = spread.broker_of.into_iter().map(Some).collect();
        verdicts = judge.predict(&broker_of);
    }
}

/// Messages per second that the violating brokers of a fit would have to give away.
pub(super) fn excess_rate(judge: &mut Judge<'_>, fit: &ReplayFit) -> f64 {
    let mut broker_of = fit.broker_of.clone();
    for broker in violating(&fit.verdicts) {
        cut(judge, &mut broker_of, broker);
    }
    let rates = judge
        .publishers
        .iter()
        .map(|publisher| publisher.rate.get());
    let left_over = rates.zip(&broker_of).filter(|(_, place)| place.is_none());
    left_over.map(|(rate, _)| rate).sum()
}

pub(super) fn violating(verdicts: &[Verdict]) -> Vec<BrokerIndex> {
    let brokers = (0u32..).zip(verdicts);
    brokers
        .filter(|(_, verdict)| verdict.is_broken())
        .map(|(broker, _)| BrokerIndex(broker))
        .collect()
}

/// Takes from `broker` all that it cannot hold; bisection over the number that stays.
fn cut(judge: &mut Judge<'_>, broker_of: &mut [Option<BrokerIndex>], broker: BrokerIndex) {
    let members = (0u32..).zip(broker_of.iter());
    let members = members
        .filter(|(_, place)| **place == Some(broker))
        .map(|(at, _)| at);
    let order = shedding_order(&judge.publishers, members.collect(), judge.problem.policy);
    let (mut fitting, mut violating) = (0, order.len());
    while fitting + 1 < violating {
        let kept = fitting.midpoint(violating);
        keep(broker_of, broker, &order, kept);
        if judge.predict_at(broker, broker_of, 1.0).is_broken() {
            violating = kept;
        } else {
            fitting = kept;
        }
    }
    keep(broker_of, broker, &order, fitting);
}

fn keep(broker_of: &mut [Option<BrokerIndex>], broker: BrokerIndex, order: &[u32], kept: usize) {
    for (place, &publisher) in order.iter().enumerate() {
        broker_of[publisher as usize] = (place < kept).then_some(broker);
    }
}
