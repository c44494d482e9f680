//! Predicts what every broker's latency would be under an assignment.

use super::together::Together;
use super::trace::with_seen_rates;
use super::{ReplayProblem, Replayer, shares};
use crate::{
    BrokerIndex, BrokerState, Distribution, OutOfBrokers, Publisher, PublisherIndex, Question,
    distribute,
};

/// A replay problem with what is derived from it once.
pub(crate) struct Judge<'a> {
    pub(super) problem: &'a ReplayProblem<'a>,
    /// With the rates that the trace shows.
    pub(super) publishers: Vec<Publisher>,
    /// Publishers of whom the trace holds nothing: they load a broker by their declared rate.
    is_silent: Vec<bool>,
    replayer: Replayer,
    /// Where there are neighbours with a trace.
    together: Option<Together>,
}

/// The replay's prediction for one broker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// The topic's latency at the percentile, in microseconds; `None` where nothing of it would arrive.
    pub(crate) own_us: Option<f64>,
    /// The largest ratio of a latency to what is promised less the margin, over all topics there; 0 where nothing of the
    /// topic would arrive.
    pub(crate) strain: f64,
    /// The neighbour that it belongs to, if it is not the topic's own, with its latency.
    pub(crate) decided_by: Option<(usize, f64)>,
}

impl Verdict {
    /// Whether a promise would be broken.
    pub(super) fn is_broken(&self) -> bool {
        self.strain > 1.0
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(problem: &'a ReplayProblem<'a>) -> Self {
        let messages = problem.trace.messages(problem.publishers.len());
        Judge {
            problem,
            publishers: with_seen_rates(problem.publishers, problem.trace),
            is_silent: messages.into_iter().map(|messages| messages == 0).collect(),
            replayer: Replayer::default(),
            together: problem
                .neighbours
                .iter()
                .any(|neighbour| neighbour.trace.is_some())
                .then(|| Together::new(problem)),
        }
    }

    /// The highest latency at the percentile that still counts as within the SLO.
    fn target_us(&self) -> f64 {
        self.problem.slo_us * (1.0 - self.problem.margin)
    }

    /// What every broker would come to.
    pub(crate) fn predict(&mut self, broker_of: &[Option<BrokerIndex>]) -> Vec<Verdict> {
        let brokers = 0..self.problem.brokers.len() as u32;
        brokers
            .map(|broker| self.predict_at(BrokerIndex(broker), broker_of, 1.0))
            .collect()
    }

    /// The prediction for one broker whose service takes `factor` times as long.
    pub(crate) fn predict_at(
        &mut self,
        broker: BrokerIndex,
        broker_of: &[Option<BrokerIndex>],
        factor: f64,
    ) -> Verdict {
        let at = broker.0 as usize;
        let (problem, target_us) = (self.problem, self.target_us());
        let loads = Loads::of(&self.publishers, problem.brokers, broker_of);
        let share = problem
            .limit
            .and_then(|limit| shares::divide(limit, &loads.rates, &loads.largest_batches)[at]);
        let background = problem.backgrounds.get(at).copied().unwrap_or(0.0);
        let is_here = |publisher: PublisherIndex| {
            broker_of.get(publisher.0 as usize).copied().flatten() == Some(broker)
        };
        let busy = (background + self.silent_utilisation(broker, broker_of)) * factor;
        let model = problem.models[at].slower(factor);
        let Some(together) = &mut self.together else {
            let latencies = self
                .replayer
                .run(problem.trace, is_here, share, &model, busy);
            let own_us = latencies.percentile_us(problem.percentile);
            return Verdict {
                own_us,
                strain: own_us.map_or(0.0, |own_us| own_us / target_us),
                decided_by: None,
            };
        };
        let lanes = together.run(problem, broker, is_here, share, (&model, busy));
        let mut latencies = lanes.iter_mut().map(|(_, latencies)| latencies);
        let own = latencies.next();
        let Some(own_us) = own.and_then(|own| own.percentile_us(problem.percentile)) else {
            return Verdict::default();
        };
        let mut verdict = Verdict {
            own_us: Some(own_us),
            strain: own_us / target_us,
            decided_by: None,
        };
        for (number, (neighbour, latencies)) in problem.neighbours.iter().zip(latencies).enumerate()
        {
            let Some(latency_us) = latencies.percentile_us(neighbour.percentile) else {
                continue;
            };
            let strain = latency_us / (neighbour.promise_us * (1.0 - problem.margin));
            if strain > verdict.strain {
                verdict.strain = strain;
                verdict.decided_by = Some((number, latency_us));
            }
        }
        verdict
    }

    /// Distributes those not `placed` over the brokers that are not `full`.
    pub(super) fn distribute(
        &self,
        placed: &[Option<BrokerIndex>],
        full: &[bool],
        k_min: usize,
    ) -> Result<Distribution, OutOfBrokers> {
        distribute(&Question {
            policy: self.problem.policy,
            publishers: &self.publishers,
            placed,
            brokers: self.problem.brokers,
            full,
            k_min,
        })
    }

    fn silent_utilisation(&self, broker: BrokerIndex, broker_of: &[Option<BrokerIndex>]) -> f64 {
        let model = &self.problem.models[broker.0 as usize];
        let silent = self.is_silent.iter().zip(&self.publishers).zip(broker_of);
        silent
            .filter(|((is_silent, _), place)| **is_silent && **place == Some(broker))
            .map(|((_, publisher), _)| {
                model.utilisation(publisher.rate.get(), publisher.batch_messages)
            })
            .sum()
    }
}

/// What an assignment puts on each broker.
pub(super) struct Loads {
    /// Messages per second.
    pub(super) rates: Vec<f64>,
    /// Messages of the largest batch.
    pub(super) largest_batches: Vec<f64>,
}

impl Loads {
    pub(super) fn of(
        publishers: &[Publisher],
        brokers: &[BrokerState],
        broker_of: &[Option<BrokerIndex>],
    ) -> Self {
        let mut loads = Loads {
            rates: vec![0.0; brokers.len()],
            largest_batches: vec![0.0; brokers.len()],
        };
        for (publisher, place) in publishers.iter().zip(broker_of) {
            if let Some(broker) = place {
                let at = broker.0 as usize;
                loads.rates[at] += publisher.rate.get();
                let batch = f64::from(publisher.batch_messages);
                loads.largest_batches[at] = loads.largest_batches[at].max(batch);
            }
        }
        loads
    }
}
