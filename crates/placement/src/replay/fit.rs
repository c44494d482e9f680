//! The assignment with the fewest brokers whose replay meets the SLO.

use limit::{Burst, Rate};

use super::judge::{Judge, Verdict};
use super::repair::{excess_rate, repair};
use super::{Neighbour, Trace};
use crate::{BrokerIndex, BrokerState, Policy, Publisher};
use model::ServiceModel;

/// The problem. `brokers`, `models` and `backgrounds` go by broker index.
#[derive(Clone, Copy, Debug)]
pub struct ReplayProblem<'a> {
    /// What arrived.
    pub trace: &'a Trace,
    /// Everybody who is to be placed. Where the trace contradicts a declared rate it is believed instead.
    pub publishers: &'a [Publisher],
    /// Where they may go.
    pub brokers: &'a [BrokerState],
    /// The cost of a message there.
    pub models: &'a [ServiceModel],
    /// Utilisation by other topics there, 0 to 1.
    pub backgrounds: &'a [f64],
    /// The topic's limit, divided over brokers in proportion to what is placed on them.
    pub limit: Option<(Rate, Burst)>,
    /// Latency that is promised, in microseconds.
    pub slo_us: f64,
    /// The percentile that it is promised for.
    pub percentile: f64,
    /// How publishers are distributed over k brokers.
    pub policy: Policy,
    /// Fraction of the SLO that a prediction must stay below it; of the neighbours' too.
    pub margin: f64,
    /// Promised topics on these brokers, which stay where they are; `backgrounds` do not hold those with a trace.
    pub neighbours: &'a [Neighbour<'a>],
}

/// The result of the replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayFit {
    /// By publisher. `None` only where the capacities do not hold everybody.
    pub broker_of: Vec<Option<BrokerIndex>>,
    /// Brokers used.
    pub k: usize,
    /// By broker: predicted latency at the percentile, in microseconds; `None` where nothing arrives.
    pub predicted: Vec<Option<f64>>,
    /// Whether everybody has a place and every prediction stays within the SLO less the margin, neighbours' included.
    pub met: bool,
    /// If not met: messages per second that fit nowhere, by capacity or by prediction.
    pub missing: f64,
    /// The neighbour whose promise was in the way of a broker holding more, if one was: its place among
    /// [`ReplayProblem::neighbours`], the broker, and its latency there, in microseconds.
    pub decided_by: Option<(usize, BrokerIndex, f64)>,
    pub(super) verdicts: Vec<Verdict>,
}

/// Finds the least k for which the distribution over k brokers, as the policy makes it, holds the SLO in
/// a replay on every broker.
///
/// Where some brokers of a k violate it and others have room, publishers are shifted before one more
/// broker is taken; where neighbours are in the way, others of the same number are tried. If no k will do, the one with the lowest worst latency is the answer, not `met`. The
/// work is linear in brokers × messages of the trace.
///
/// # Panics
/// If `models` is shorter than `brokers`.
#[must_use]
pub fn fit_by_replay(problem: &ReplayProblem<'_>) -> ReplayFit {
    let mut judge = Judge::new(problem);
    let nobody = vec![None; problem.publishers.len()];
    let open = vec![false; problem.brokers.len()];
    let mut best: Option<ReplayFit> = None;
    let mut decided_by = None;
    let mut k_min = 1;
    while k_min <= problem.brokers.len().max(1) {
        let broker_of = match judge.distribute(&nobody, &open, k_min) {
            Ok(distribution) => distribution.broker_of.into_iter().map(Some).collect(),
            Err(out) => {
                let partial = || ReplayFit {
                    missing: out.missing,
                    ..judged(&mut judge, out.best)
                };
                return best.unwrap_or_else(partial);
            }
        };
        let fit = judged(&mut judge, broker_of);
        let k = fit.k;
        decided_by = fit.decided_by.or(decided_by);
        if let Some(met) = met_with(&mut judge, &fit, k_min) {
            return ReplayFit {
                decided_by: met.decided_by.or(decided_by),
                ..met
            };
        }
        if best
            .as_ref()
            .is_none_or(|best| fit.worst_strain() < best.worst_strain())
        {
            best = Some(fit);
        }
        if k < k_min {
            break;
        }
        k_min = k + 1;
    }
    let mut best = best.unwrap_or_else(|| judged(&mut judge, nobody));
    best.missing = excess_rate(&mut judge, &best);
    best
}

/// This fit, or one that is near to it, if that holds all promises: with publishers shifted, or without the brokers where
/// a neighbour's promise would be broken.
fn met_with(judge: &mut Judge<'_>, fit: &ReplayFit, k_min: usize) -> Option<ReplayFit> {
    if fit.met {
        return Some(fit.clone());
    }
    let repaired = repair(judge, fit).map(|broker_of| judged(judge, broker_of));
    if let Some(repaired) = repaired.filter(|repaired| repaired.met) {
        return Some(repaired);
    }
    let is_crowded = |verdict: &Verdict| verdict.is_broken() && verdict.decided_by.is_some();
    let mut crowded: Vec<bool> = fit.verdicts.iter().map(is_crowded).collect();
    let nobody = vec![None; fit.broker_of.len()];
    // Every round closes at least one more broker.
    while crowded.iter().any(|&crowded| crowded) {
        let elsewhere = judge.distribute(&nobody, &crowded, k_min).ok()?;
        let elsewhere = judged(judge, elsewhere.broker_of.into_iter().map(Some).collect());
        if elsewhere.met || elsewhere.k > fit.k {
            return Some(elsewhere).filter(|elsewhere| elsewhere.met);
        }
        let newly = crowded.iter_mut().zip(&elsewhere.verdicts);
        let newly = newly.filter(|(crowded, verdict)| !**crowded && is_crowded(verdict));
        if newly.map(|(crowded, _)| *crowded = true).count() == 0 {
            return None;
        }
    }
    None
}

impl ReplayFit {
    /// The highest prediction, in microseconds.
    #[must_use]
    pub fn worst_us(&self) -> f64 {
        self.predicted.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The largest ratio of a predicted latency to what is promised.
    fn worst_strain(&self) -> f64 {
        let strains = self.verdicts.iter().map(|verdict| verdict.strain);
        strains.fold(0.0, f64::max)
    }
}

fn judged(judge: &mut Judge<'_>, broker_of: Vec<Option<BrokerIndex>>) -> ReplayFit {
    let verdicts = judge.predict(&broker_of);
    let mut is_used = vec![false; verdicts.len()];
    for broker in broker_of.iter().flatten() {
        is_used[broker.0 as usize] = true;
    }
    let is_complete = broker_of.iter().all(Option::is_some);
    let deciding = (0u32..)
        .zip(&verdicts)
        .filter(|(_, verdict)| verdict.is_broken());
    let worst = deciding.max_by(|(_, a), (_, b)| a.strain.total_cmp(&b.strain));
    ReplayFit {
        met: is_complete && !verdicts.iter().any(Verdict::is_broken),
        k: is_used.into_iter().filter(|&is_used| is_used).count(),
        broker_of,
        predicted: verdicts.iter().map(|verdict| verdict.own_us).collect(),
        missing: 0.0,
        decided_by: worst.and_then(|(broker, verdict)| {
            let (neighbour, latency_us) = verdict.decided_by?;
            Some((neighbour, BrokerIndex(broker), latency_us))
        }),
        verdicts,
    }
}
