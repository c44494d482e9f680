//! The assignment with the fewest brokers whose replay meets the SLO.

use limit::{Burst, Rate};

use super::judge::Judge;
use super::repair::{excess_rate, repair};
use super::{ServiceModel, Trace};
use crate::{BrokerIndex, BrokerState, Policy, Publisher};

/// What is to be fitted. `brokers`, `models` and `backgrounds` go by broker index.
#[derive(Clone, Copy, Debug)]
pub struct ReplayProblem<'a> {
    /// What arrived.
    pub trace: &'a Trace,
    /// Everybody who is to be placed. Where the trace contradicts a declared rate it is believed instead.
    pub publishers: &'a [Publisher],
    /// Where they may go.
    pub brokers: &'a [BrokerState],
    /// What a message costs there.
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
    /// Fraction of the SLO that a prediction must stay below it.
    pub margin: f64,
}

/// What the replay found.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayFit {
    /// By publisher. `None` only where the capacities do not hold everybody.
    pub broker_of: Vec<Option<BrokerIndex>>,
    /// Brokers used.
    pub k: usize,
    /// By broker: predicted latency at the percentile, in microseconds; `None` where nothing arrives.
    pub predicted: Vec<Option<f64>>,
    /// Whether everybody has a place and every prediction stays within the SLO less the margin.
    pub met: bool,
    /// If not met: messages per second that fit nowhere, by capacity or by prediction.
    pub missing: f64,
}

/// Finds the least k for which the distribution over k brokers, as the policy makes it, holds the SLO in
/// a replay on every broker.
///
/// Where some brokers of a k violate it and others have room, publishers are shifted before one more
/// broker is taken. If no k will do, the one with the lowest worst latency is the answer, not `met`. The
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
        if fit.met {
            return fit;
        }
        let repaired = repair(&mut judge, &fit).map(|broker_of| judged(&mut judge, broker_of));
        if let Some(repaired) = repaired.filter(|repaired| repaired.met) {
            return repaired;
        }
        if best
            .as_ref()
            .is_none_or(|best| fit.worst_us() < best.worst_us())
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

impl ReplayFit {
    /// The highest prediction, in microseconds.
    #[must_use]
    pub fn worst_us(&self) -> f64 {
        self.predicted.iter().flatten().copied().fold(0.0, f64::max)
    }
}

fn judged(judge: &mut Judge<'_>, broker_of: Vec<Option<BrokerIndex>>) -> ReplayFit {
    let predicted = judge.predict(&broker_of);
    let mut is_used = vec![false; predicted.len()];
    for broker in broker_of.iter().flatten() {
        is_used[broker.0 as usize] = true;
    }
    let mut fit = ReplayFit {
        met: broker_of.iter().all(Option::is_some),
        k: is_used.into_iter().filter(|&is_used| is_used).count(),
        broker_of,
        predicted,
        missing: 0.0,
    };
    fit.met &= fit.worst_us() <= judge.target_us();
    fit
}
