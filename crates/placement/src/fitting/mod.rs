//! Step 3 of the Load Distributor: online fitting, as a state machine that says what to measure
//! next.
//!
//! Steps 1 and 2 ([`crate::distribute`]) know rates only; what a broker really holds under the SLO
//! depends on bursts, connections and other topics. Two ways find it out ([`Mode`]):
//!
//! * **measured** (SRTM-long, sections 4.2 and 6.5): a window; brokers that violate the SLO search
//!   in parallel for the number of publishers that may stay, one window a round, and then count as
//!   full; the excess is distributed over the others in the next iteration. Publishers that a
//!   broker must shed cannot be stopped from sending, so for the rounds of the search they wait at
//!   brokers that are not measured: neither searching nor full. Where there is none with room, the
//!   caller is asked to withhold them. Before more brokers are called for, one window tries the
//!   even distribution over all of them.
//! * **replay**: the first window's arrivals are replayed ([`crate::fit_by_replay`]) under every k,
//!   the result is put into effect and confirmed by a second window. If that fails, the service
//!   models are corrected by the measurement, and a third window confirms. If that fails too, the
//!   measured search takes over, from the result of the replay.
//!
//! The promises of other topics on the same brokers count like the topic's own: a window that shows
//! one of them broken on a broker is a violation there, replays judge all topics of a broker
//! together, and the topic being fitted is the one that gives publishers away.
//!
//! Measuring, moving publishers and waiting are the caller's. Broken answers never end a fit: a
//! broker that has none is asked again twice and is then taken to be within the SLO, with a note in
//! the [`FitStatus`]. Every fit ends after a bounded number of windows.

mod beside;
mod calibration;
mod config;
mod judge;
mod measured;
mod mode;
mod order;
mod place;
mod rebalance;
mod refit;
mod search;
mod status;
mod step;

pub use config::{FitConfig, FitError};
pub use mode::{Mode, UnknownMode};
pub use order::shedding_order;
pub use status::{BrokerFit, Deciding, FitState, FitStatus, Iteration};
pub use step::{BrokerWindow, Step, Window};

use calibration::Calibration;
use measured::Measured;
use place::Places;
use rebalance::Fitted;
use refit::Recording;
use search::Search;

use crate::{BrokerIndex, BrokerState, GroupIndex, Publisher};
use model::ServiceModel;

/// The fit of one topic to its SLO.
#[derive(Clone, Debug)]
pub struct Fitting {
    config: FitConfig,
    places: Places,
    recording: Recording,
    phase: Phase,
    /// The last request.
    step: Step,
    status: FitStatus,
    /// Windows in a row that were asked for again.
    repeats: u32,
    /// Iterations since the fit, or its continuation with other brokers, began.
    iterations: u32,
    /// The even distribution over all brokers was tried.
    has_rebalanced: bool,
    /// It is being tried now: what to go back to.
    fitted: Option<Fitted>,
    /// The measurements of the last window.
    measured: Measured,
}

/// The purpose of the next window.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// All brokers are judged.
    Judging,
    /// These brokers search.
    Searching(Vec<Search>),
    /// Nothing: done, or out of brokers.
    Ended,
}

impl Fitting {
    /// Distributes the publishers of a new topic by steps 1 and 2. No publishers: done at once.
    ///
    /// # Errors
    /// [`FitError`] for a configuration, a model or a number of models that makes no sense.
    pub fn begin(
        config: FitConfig,
        publishers: Vec<Publisher>,
        brokers: Vec<BrokerState>,
        models: Vec<ServiceModel>,
    ) -> Result<(Fitting, Step), FitError> {
        let nowhere = vec![false; brokers.len()];
        Fitting::begin_avoiding(config, publishers, brokers, models, &nowhere)
    }

    /// As [`Fitting::begin`], but first without the brokers to `avoid`, by index, if the others have room: what is declared
    /// makes it likely that a neighbour's promise would be broken there.
    ///
    /// # Errors
    /// As [`Fitting::begin`].
    pub fn begin_avoiding(
        config: FitConfig,
        publishers: Vec<Publisher>,
        brokers: Vec<BrokerState>,
        models: Vec<ServiceModel>,
        avoid: &[bool],
    ) -> Result<(Fitting, Step), FitError> {
        let nobody = vec![None; publishers.len()];
        let mut fitting = Fitting::resume(config, publishers, brokers, models, &nobody)?;
        if avoid.contains(&true) && !fitting.places.settle_avoiding(avoid) {
            fitting.places.home.fill(None);
        }
        fitting.step = if fitting.places.home.is_empty() {
            fitting.done()
        } else {
            fitting.iterate()
        };
        let step = fitting.step.clone();
        Ok((fitting, step))
    }

    /// Fits a topic that is placed already. The window that the caller has of it, or runs now, is the first
    /// answer: [`Fitting::measured`] comes next. Publishers without a place, or at a broker that is not
    /// available, are placed thereafter.
    ///
    /// # Errors
    /// [`FitError`], also for a placement that does not go with publishers and brokers.
    pub fn resume(
        config: FitConfig,
        publishers: Vec<Publisher>,
        brokers: Vec<BrokerState>,
        models: Vec<ServiceModel>,
        placed: &[Option<BrokerIndex>],
    ) -> Result<Fitting, FitError> {
        config.check(&brokers, &models)?;
        let is_known = |broker: &BrokerIndex| (broker.0 as usize) < brokers.len();
        if placed.len() != publishers.len() || !placed.iter().flatten().all(is_known) {
            return Err(FitError::Placement {
                places: placed.len(),
                publishers: publishers.len(),
            });
        }
        let mut places = Places::new(config.policy, publishers, brokers);
        let is_available = |broker: &BrokerIndex| places.brokers[broker.0 as usize].is_available;
        places.home = placed
            .iter()
            .map(|place| place.filter(is_available))
            .collect();
        let mut fitting = Fitting {
            measured: Measured::new(places.brokers.len()),
            recording: Recording::new(Calibration::new(models)),
            step: Step::Measure(places.home.clone()),
            places,
            phase: Phase::Judging,
            status: FitStatus {
                mode: config.mode,
                ..FitStatus::default()
            },
            repeats: 0,
            iterations: 0,
            has_rebalanced: false,
            fitted: None,
            config,
        };
        fitting.status.begin_iteration();
        fitting.show(&[]);
        Ok(fitting)
    }

    /// Takes a window's answers and says what is next. After the end of the fit it changes nothing.
    pub fn measured(&mut self, window: &Window<'_>) -> Step {
        if self.phase == Phase::Ended {
            return self.step.clone();
        }
        self.status.window(window.seconds);
        for problem in self.measured.read(window) {
            self.status.problem(problem);
        }
        self.show(&[]);
        let counts = self.places.counts();
        if let Some(deciding) = self.measured.read_beside(window, &counts, &self.config) {
            self.status.decided_by = Some(deciding);
        }
        if self.lacks_answers() {
            return self.step.clone();
        }
        self.step = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Searching(searches) => self.narrow(searches),
            Phase::Judging | Phase::Ended => self.judge(window),
        };
        self.step.clone()
    }

    /// One broker more. A fit that ran out of brokers goes on; any other notes it for later. It becomes the
    /// next [`BrokerIndex`]; a model that makes no sense is replaced by the default.
    pub fn add_broker(&mut self, state: BrokerState, model: ServiceModel) -> Step {
        let model = if model.is_sane() {
            model
        } else {
            self.status
                .problem(format!("the new broker's model is unusable: {model:?}"));
            ServiceModel::default()
        };
        self.places.brokers.push(state);
        self.places.full.push(!state.is_available);
        self.measured.add();
        self.recording.calibration.add(model);
        if let Some(fitted) = &mut self.fitted {
            fitted.add(state.is_available);
        }
        if matches!(self.step, Step::OutOfBrokers { .. }) && state.is_available {
            self.renew();
            self.step = self.extend();
        }
        self.step.clone()
    }

    /// A broker died or is drained: its publishers, and only they, are placed anew.
    pub fn broker_lost(&mut self, broker: BrokerIndex) -> Step {
        let at = broker.0 as usize;
        let Some(state) = self.places.brokers.get(at).copied() else {
            return self.step.clone();
        };
        let before = self
            .assignment()
            .iter()
            .flatten()
            .filter(|place| **place == broker)
            .count();
        self.places.lose(broker);
        self.measured.lose(broker);
        self.recording.lose(broker);
        if let Some(fitted) = &mut self.fitted {
            fitted.lose(broker);
        }
        if before == 0 || !state.is_available {
            return self.step.clone();
        }
        self.step = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Searching(mut searches) => {
                searches.retain(|search| search.broker != broker);
                self.search_on(searches)
            }
            Phase::Judging | Phase::Ended => {
                self.renew();
                self.iterate()
            }
        };
        self.step.clone()
    }

    /// Correlation groups as they are known now, by publisher: found in a window's trace, say. They count from
    /// the next step on. A list of another length is ignored.
    pub fn regroup(&mut self, groups: &[Option<GroupIndex>]) {
        if groups.len() == self.places.publishers.len() {
            for (publisher, &group) in self.places.publishers.iter_mut().zip(groups) {
                publisher.group = group;
            }
        }
    }

    /// How it went so far.
    #[must_use]
    pub fn status(&self) -> &FitStatus {
        &self.status
    }

    /// The last request, if it is an assignment of publishers to brokers.
    fn assignment(&self) -> Vec<Option<BrokerIndex>> {
        match &self.step {
            Step::Measure(broker_of)
            | Step::OutOfBrokers {
                best: broker_of, ..
            } => broker_of.clone(),
            Step::Done(broker_of) => broker_of.iter().copied().map(Some).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
