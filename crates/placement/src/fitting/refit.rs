//! The way by replay: the recorded arrivals, and the assignments computed from them.

use super::beside::Beside;
use super::calibration::Calibration;
use super::{Fitting, Mode, Step, Window};
use crate::replay::Judge;
use crate::{BrokerIndex, ReplayFit, ReplayProblem, Trace, fit_by_replay};
use model::ServiceModel;

/// Replays before the measured search takes over, with the fraction of the SLO by which their predictions
/// must stay below it: the second allows for what the first window's arrivals did not show.
const MARGINS: [f64; 2] = [0.05, 0.1];

/// A trace of fewer messages shows no percentile worth a prediction.
const LEAST_MESSAGES: u64 = 100;

/// Arrivals kept of all windows together; beyond it the last window's stay.
const MOST_ARRIVALS: usize = 4_000_000;

/// An assignment and the highest latency of a broker under it, in microseconds.
type Measured = (f64, Vec<Option<BrokerIndex>>);

/// What windows taught.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub(super) calibration: Calibration,
    trace: Option<Trace>,
    /// The topic's neighbours in the window of the trace.
    beside: Vec<Beside>,
    /// Replays made, one per margin at most.
    replays: usize,
    /// The measured search has taken over.
    is_given_up: bool,
    /// The last replay found no assignment; the rate that it could not place, in messages per second.
    missing: Option<f64>,
    /// The complete assignment with the lowest worst latency that was measured.
    best: Option<Measured>,
}

impl Recording {
    pub(super) fn new(calibration: Calibration) -> Self {
        Recording {
            calibration,
            trace: None,
            beside: Vec::new(),
            replays: 0,
            is_given_up: false,
            missing: None,
            best: None,
        }
    }

    /// Allows replays again, since the brokers are others than before.
    pub(super) fn renew(&mut self) {
        self.replays = 0;
        self.is_given_up = false;
        self.missing = None;
        self.best = None;
    }

    /// The complete assignment with the lowest worst latency that was measured.
    pub(super) fn best(&self) -> Option<Vec<Option<BrokerIndex>>> {
        self.best.as_ref().map(|(_, best)| best.clone())
    }

    /// The best assignment with `broker` no longer counts.
    pub(super) fn lose(&mut self, broker: BrokerIndex) {
        self.best.take_if(|(_, best)| best.contains(&Some(broker)));
    }

    /// Keeps a measured assignment if it is the best so far.
    pub(super) fn remember(
        &mut self,
        broker_of: &[Option<BrokerIndex>],
        measured_us: &[Option<f64>],
    ) {
        let worst_us = measured_us.iter().flatten().copied().fold(0.0, f64::max);
        let is_better = self
            .best
            .as_ref()
            .is_none_or(|(best_us, _)| worst_us < *best_us);
        if is_better && broker_of.iter().all(Option::is_some) {
            self.best = Some((worst_us, broker_of.to_vec()));
        }
    }

    fn is_usable(trace: &Trace) -> bool {
        let messages: u64 = trace
            .arrivals
            .iter()
            .map(|arrival| u64::from(arrival.messages))
            .sum();
        messages >= LEAST_MESSAGES && trace.end_ns > trace.begin_ns
    }

    fn add(&mut self, trace: &Trace) {
        let joined = match self.trace.take() {
            Some(before)
                // Neighbours are known by the last window only, and belong to its arrivals.
                if self.beside.is_empty()
                    && before.arrivals.len() + trace.arrivals.len() <= MOST_ARRIVALS =>
            {
                before.followed_by(trace)
            }
            _ => trace.clone(),
        };
        self.trace = Some(joined);
    }
}

impl Fitting {
    /// A window showed a violation: the answer of a replay to it. `None`: the measured search is
    /// next.
    pub(super) fn refit(&mut self, window: &Window<'_>) -> Option<Step> {
        if self.config.mode == Mode::Measure || self.recording.is_given_up {
            return None;
        }
        if self.recording.replays == MARGINS.len() {
            return match self.recording.missing {
                Some(missing) => Some(self.give_up(missing)),
                None => self.fall_back("replayed assignments were not confirmed"),
            };
        }
        match window.trace.filter(|trace| Recording::is_usable(trace)) {
            Some(trace) => {
                self.recording.beside = window.neighbours.iter().map(Beside::of).collect();
                self.learn(trace);
            }
            None if self.recording.trace.is_none() => {
                return self.fall_back("there is no usable arrival trace");
            }
            None => {}
        }
        Some(self.replay_all())
    }

    /// A broker was added to a fit that had run out of them.
    pub(super) fn extend(&mut self) -> Step {
        if self.config.mode == Mode::Replay && self.recording.trace.is_some() {
            self.replay_all()
        } else {
            self.iterate()
        }
    }

    /// Computes an assignment of all publishers and asks for the window that confirms it.
    fn replay_all(&mut self) -> Step {
        let margin = MARGINS[self.recording.replays.min(MARGINS.len() - 1)];
        self.recording.replays += 1;
        let Some(trace) = self.recording.trace.take() else {
            return self.iterate();
        };
        let models = self.recording.calibration.believed();
        let fit = self.with_problem(&trace, &models, margin, fit_by_replay);
        self.recording.trace = Some(trace);
        self.take_fit(fit)
    }

    fn take_fit(&mut self, fit: ReplayFit) -> Step {
        let was_unmet = self.recording.missing.is_some();
        self.recording.missing = (!fit.met).then_some(fit.missing);
        if let Some((neighbour, broker, latency_us)) = fit.decided_by {
            let deciding = &self.recording.beside[neighbour];
            self.status.decided_by = Some(deciding.deciding(broker, latency_us));
        }
        let is_complete = fit.broker_of.iter().all(Option::is_some);
        if !fit.met && (was_unmet || !is_complete || fit.broker_of == self.places.home) {
            if !is_complete {
                self.places.home = fit.broker_of;
            }
            return self.give_up(fit.missing);
        }
        self.places.home = fit.broker_of;
        self.places.reopen();
        self.measure_all(&fit.predicted)
    }

    /// No assignment holds the SLO, as far as replays can tell.
    fn give_up(&mut self, missing: f64) -> Step {
        let why = format!(
            "replay finds no room on the {} brokers for publishers of {missing:.0} messages/s within {} us",
            self.places
                .brokers
                .iter()
                .filter(|broker| broker.is_available)
                .count(),
            self.config.slo_us
        );
        self.out_of_brokers(missing, why)
    }

    fn fall_back(&mut self, why: &str) -> Option<Step> {
        self.recording.is_given_up = true;
        self.status.fallbacks += 1;
        self.status
            .problem(format!("fell back to the measured search: {why}"));
        None
    }

    /// Adds a window's arrivals, and corrects the service models by what it measured.
    fn learn(&mut self, trace: &Trace) {
        let mut calibration = self.recording.calibration.clone();
        let unexplained = self.with_problem(trace, &calibration.models.clone(), 0.0, |problem| {
            let mut judge = Judge::new(problem);
            let slo_us = problem.slo_us;
            calibration.learn(&mut judge, &self.places.home, self.measured.own(), slo_us)
        });
        self.recording.calibration = calibration;
        self.recording.add(trace);
        for text in unexplained {
            self.status.problem(text);
        }
    }

    fn with_problem<T>(
        &self,
        trace: &Trace,
        models: &[ServiceModel],
        margin: f64,
        solve: impl FnOnce(&ReplayProblem<'_>) -> T,
    ) -> T {
        let beside = &self.recording.beside;
        let brokers = (0u32..).zip(&self.places.brokers).zip(models);
        let backgrounds: Vec<f64> = brokers
            .map(|((at, broker), model)| {
                let traced = beside
                    .iter()
                    .map(|topic| topic.traced_rate(BrokerIndex(at)));
                model.utilisation((broker.load - traced.sum::<f64>()).max(0.0), 1)
            })
            .collect();
        let neighbours: Vec<_> = beside.iter().map(Beside::as_neighbour).collect();
        solve(&ReplayProblem {
            trace,
            publishers: &self.places.publishers,
            brokers: &self.places.brokers,
            models,
            backgrounds: &backgrounds,
            limit: self.config.limit,
            slo_us: self.config.slo_us,
            percentile: self.config.percentile,
            policy: self.config.policy,
            margin,
            neighbours: &neighbours,
        })
    }
}
