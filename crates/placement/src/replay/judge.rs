//! Predicts what every broker's latency would be under an assignment.

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
}

impl<'a> Judge<'a> {
    pub(crate) fn new(problem: &'a ReplayProblem<'a>) -> Self {
        let messages = problem.trace.messages(problem.publishers.len());
        Judge {
            problem,
            publishers: with_seen_rates(problem.publishers, problem.trace),
            is_silent: messages.into_iter().map(|messages| messages == 0).collect(),
            replayer: Replayer::default(),
        }
    }

    /// The highest latency at the percentile that still counts as within the SLO.
    pub(super) fn target_us(&self) -> f64 {
        self.problem.slo_us * (1.0 - self.problem.margin)
    }

    /// Every broker's latency at the percentile, in microseconds; `None` where nothing would arrive.
    pub(crate) fn predict(&mut self, broker_of: &[Option<BrokerIndex>]) -> Vec<Option<f64>> {
        let brokers = 0..self.problem.brokers.len() as u32;
        brokers
            .map(|broker| self.predict_at(BrokerIndex(broker), broker_of, 1.0))
            .collect()
    }

    /// One broker's latency if its service took `factor` times as long.
    pub(crate) fn predict_at(
        &mut self,
        broker: BrokerIndex,
        broker_of: &[Option<BrokerIndex>],
        factor: f64,
    ) -> Option<f64> {
        let at = broker.0 as usize;
        let problem = self.problem;
        let loads = self.loads(broker_of);
        let share = problem
            .limit
            .and_then(|limit| shares::divide(limit, &loads.rates, &loads.largest_batches)[at]);
        let model = problem.models[at];
        let background = problem.backgrounds.get(at).copied().unwrap_or(0.0);
        let is_here = |publisher: PublisherIndex| {
            broker_of.get(publisher.0 as usize).copied().flatten() == Some(broker)
        };
        let busy = background + self.silent_utilisation(broker, broker_of);
        self.replayer
            .run(
                problem.trace,
                is_here,
                share,
                &model.slower(factor),
                busy * factor,
            )
            .percentile_us(problem.percentile)
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
            .map(|((_, publisher), _)| model.utilisation_by(publisher))
            .sum()
    }

    fn loads(&self, broker_of: &[Option<BrokerIndex>]) -> Loads {
        Loads::of(&self.publishers, self.problem.brokers, broker_of)
    }
}

/// What an assignment puts on each broker.
struct Loads {
    /// Messages per second.
    rates: Vec<f64>,
    /// Messages of the largest batch.
    largest_batches: Vec<f64>,
}

impl Loads {
    fn of(
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
