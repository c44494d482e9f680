//! Step 3 of the Load Distributor: the fit of a topic to its promise, from the first window to the watch
//! that follows (SRTM-long, sections 4.2 and 6.5).
//!
//! The search itself is [`placement::Fitting`]'s. Here it gets what it asks for: publishers are moved,
//! traffic settles, a window is run, its answers go back in. Once fitted, a topic is watched by window
//! after window; two violations in a row begin a new fit.

use clock::Instant;
use placement::{BrokerWindow, FitConfig, FitStatus, Fitting, ServiceModel, Step, Trace, Window};

use super::trace::TraceParts;
use super::window::OpenWindow;
use super::{BrokerNumber, Core, Effect};
use std::time::Duration;

/// Publishers that are not where they are to be, and queues that are not worked off, are not waited for longer.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A queue that holds what arrives in so long is worked off.
const BACKLOG_MAX: Duration = Duration::from_millis(30);

/// So many windows in a row must violate the promise before a fit begins anew.
const VIOLATIONS_MAX: u32 = 2;

/// Where the fit of a topic stands.
#[derive(Debug, Default)]
pub struct Fit {
    pub(super) phase: Phase,
    /// The search under way; away while a job computes.
    fitting: Option<Box<Fitting>>,
    /// How the last search went.
    pub(super) status: Option<FitStatus>,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Windows in a row that violated the promise since it was fitted.
    violations: u32,
    /// Answers of the last window.
    pub(super) last: Vec<(BrokerNumber, Option<f64>)>,
    /// What is in the way, in words.
    pub(super) text: String,
    /// Counts searches: the answer of a job of a former one is void.
    generation: u64,
}

/// What is being done now.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// Nothing: no promise, no publishers, or no brokers left.
    #[default]
    Idle,
    /// A search begins when the publishers have been quiet until then.
    Due(Instant),
    /// Publishers move; since when, and since when all are where they are to be.
    Settling {
        since: Instant,
        quiet_since: Option<Instant>,
    },
    /// A window is open.
    Measuring(Box<OpenWindow>),
    /// A job computes.
    Computing,
}

/// How the last search ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// None has ended.
    #[default]
    None,
    /// The promise is kept.
    Fitted,
    /// No broker is left.
    OutOfBrokers,
}

/// A computation that is done away from the state machine.
#[derive(Debug)]
pub struct FitJob {
    topic: String,
    generation: u64,
    fitting: Box<Fitting>,
    windows: Vec<BrokerWindow>,
    trace: Option<Trace>,
    seconds: f64,
}

/// Its answer.
#[derive(Debug)]
pub struct FitAnswer {
    topic: String,
    generation: u64,
    fitting: Box<Fitting>,
    step: Step,
}

impl FitJob {
    /// Computes; may take a second for a large trace.
    #[must_use]
    pub fn run(mut self) -> FitAnswer {
        let window = Window {
            brokers: &self.windows,
            trace: self.trace.as_ref(),
            seconds: self.seconds,
        };
        let step = self.fitting.measured(&window);
        FitAnswer {
            topic: self.topic,
            generation: self.generation,
            fitting: self.fitting,
            step,
        }
    }
}

impl Core {
    /// Takes the answer of a [`FitJob`].
    pub fn fitted(&mut self, answer: FitAnswer, now: Instant) {
        let Some(topic) = self.topics.get_mut(&answer.topic) else {
            return;
        };
        if topic.fit.generation != answer.generation {
            return;
        }
        topic.fit.fitting = Some(answer.fitting);
        self.take_step(&answer.topic, answer.step, now);
    }

    /// A search begins when the publishers have been quiet for a while; one under way is given up.
    pub(super) fn fit_due(&mut self, name: &str, now: Instant) {
        let at = now + self.settings.debounce;
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        topic.fit.generation += 1;
        topic.fit.fitting = None;
        topic.fit.violations = 0;
        topic.fit.phase = match topic.spec.slo {
            Some(_) => Phase::Due(at),
            None => Phase::Idle,
        };
    }

    /// Does what is due for a topic's fit.
    pub(super) fn drive_fit(&mut self, name: &str, now: Instant) {
        let is_backlogged = self.is_backlogged(name);
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        match &mut topic.fit.phase {
            Phase::Idle | Phase::Computing => {}
            Phase::Due(at) => {
                if now >= *at
                    && topic
                        .publishers
                        .rows()
                        .iter()
                        .any(|row| row.attached.is_some())
                {
                    self.begin_fit(name, now);
                }
            }
            Phase::Settling { since, quiet_since } => {
                let is_waiting = topic.has_moves || is_backlogged;
                let is_quiet = !is_waiting || now - *since >= SETTLE_TIMEOUT;
                let quiet = *quiet_since.get_or_insert(now);
                if !is_quiet {
                    *quiet_since = None;
                } else if now - quiet >= self.settings.settle {
                    self.open_window(name, now);
                }
            }
            Phase::Measuring(window) => {
                if window.is_over(now) {
                    self.close_window(name, now);
                }
            }
        }
    }

    /// Whether some broker still works off what gathered while publishers moved: a window would measure that.
    fn is_backlogged(&self, name: &str) -> bool {
        let carried = self
            .brokers
            .iter()
            .filter_map(|broker| broker.topics.get(name));
        carried
            .into_iter()
            .any(|carried| carried.report.depth as f64 > carried.rate * BACKLOG_MAX.as_secs_f64())
    }

    fn begin_fit(&mut self, name: &str, now: Instant) {
        let Some((config, publishers)) = self.fit_question(name) else {
            return;
        };
        let (states, models) = (self.broker_states(name), self.models());
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        // What was fitted once is measured as it stands before anybody moves.
        let begun = if topic.fit.status.is_some() {
            let placed = topic.placed();
            Fitting::resume(config, publishers, states, models, &placed)
                .map(|fitting| (fitting, Step::Measure(placed)))
        } else {
            Fitting::begin(config, publishers, states, models)
        };
        topic.fit.outcome = Outcome::None;
        match begun {
            Ok((fitting, step)) => {
                topic.fit.fitting = Some(Box::new(fitting));
                self.tell(
                    "fit",
                    Some(name),
                    None,
                    String::from("a fit to the promise begins"),
                );
                self.take_step(name, step, now);
            }
            Err(error) => {
                topic.fit.phase = Phase::Idle;
                topic.fit.text = error.to_string();
                self.tell("problem", Some(name), None, error.to_string());
            }
        }
    }

    fn fit_question(&self, name: &str) -> Option<(FitConfig, Vec<placement::Publisher>)> {
        let topic = self.topics.get(name)?;
        let slo = topic.spec.slo?;
        let config = FitConfig {
            policy: topic.spec.policy,
            mode: topic.spec.fit,
            percentile: slo.percentile,
            slo_us: slo.latency_us,
            band: self.settings.band,
            limit: topic.spec.limit.map(|limit| (limit.rate, limit.burst)),
        };
        Some((config, topic.as_publishers()))
    }

    fn models(&self) -> Vec<ServiceModel> {
        self.brokers
            .iter()
            .map(|broker| broker.model.unwrap_or_default())
            .collect()
    }

    /// Does what the search asks for.
    fn take_step(&mut self, name: &str, step: Step, now: Instant) {
        let settling = Phase::Settling {
            since: now,
            quiet_since: None,
        };
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        topic.fit.status = topic
            .fit
            .fitting
            .as_ref()
            .map(|fitting| fitting.status().clone());
        match step {
            Step::Measure(broker_of) => {
                topic.fit.phase = settling;
                self.assign(name, &broker_of, now);
            }
            Step::Done(broker_of) => {
                topic.fit.outcome = Outcome::Fitted;
                topic.fit.text.clear();
                topic.fit.fitting = None;
                topic.fit.phase = settling;
                let broker_of: Vec<_> = broker_of.into_iter().map(Some).collect();
                self.assign(name, &broker_of, now);
                self.tell(
                    "fit",
                    Some(name),
                    None,
                    String::from("fitted: the promise is kept"),
                );
            }
            Step::OutOfBrokers { best, missing, why } => {
                topic.fit.phase = Phase::Idle;
                self.assign(name, &best, now);
                self.out_of_brokers(name, why);
                self.effects.push(Effect::Spawn {
                    topic: name.to_owned(),
                    missing,
                });
            }
        }
    }

    /// Says that a topic needs more than there is.
    pub(super) fn out_of_brokers(&mut self, name: &str, why: String) {
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        topic.fit.outcome = Outcome::OutOfBrokers;
        if topic.fit.text != why {
            topic.fit.text.clone_from(&why);
            self.tell("out-of-brokers", Some(name), None, why);
        }
    }

    /// A broker came: topics that ran out of brokers go on.
    pub(super) fn broker_joined_fits(&mut self, now: Instant) {
        let names: Vec<String> = self.topics.keys().cloned().collect();
        for name in names {
            self.place_unplaced(&name, now);
            let is_short = self
                .topics
                .get(&name)
                .is_some_and(|topic| topic.fit.outcome == Outcome::OutOfBrokers);
            if is_short {
                self.fit_due(&name, now);
            }
        }
    }

    /// What a window showed goes to the search, or to the watch over a fitted topic.
    pub(super) fn window_answered(
        &mut self,
        name: &str,
        answers: &[(BrokerNumber, Option<f64>, u64)],
        parts: TraceParts,
        seconds: f64,
        now: Instant,
    ) {
        let brokers = self.brokers.len();
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        topic.fit.last = answers
            .iter()
            .map(|&(broker, latency, _)| (broker, latency))
            .collect();
        let mut windows = vec![
            BrokerWindow {
                p99_us: None,
                messages: 0
            };
            brokers
        ];
        for &(broker, latency, messages) in answers {
            windows[broker as usize] = BrokerWindow {
                p99_us: latency,
                messages,
            };
        }
        let trace = parts.into_trace(&topic.publishers);
        if topic.spec.infer_groups
            && let Some(trace) = &trace
        {
            topic.infer_groups(trace);
        }
        if topic.fit.fitting.is_none() {
            match self.watch(name, answers, now) {
                Some(fitting) => self
                    .topics
                    .get_mut(name)
                    .map(|topic| topic.fit.fitting = Some(fitting)),
                None => return,
            };
        }
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        let Some(mut fitting) = topic.fit.fitting.take() else {
            return;
        };
        if topic.spec.infer_groups {
            let groups: Vec<_> = topic
                .as_publishers()
                .iter()
                .map(|publisher| publisher.group)
                .collect();
            fitting.regroup(&groups);
        }
        topic.fit.phase = Phase::Computing;
        self.effects.push(Effect::Fit(Box::new(FitJob {
            topic: name.to_owned(),
            generation: topic.fit.generation,
            fitting,
            windows,
            trace,
            seconds,
        })));
    }

    /// Watches a fitted topic; gives a new search when the promise was broken too often, to which this window
    /// is the first answer.
    fn watch(
        &mut self,
        name: &str,
        answers: &[(BrokerNumber, Option<f64>, u64)],
        now: Instant,
    ) -> Option<Box<Fitting>> {
        let topic = self.topics.get_mut(name)?;
        let slo = topic.spec.slo?;
        let worst = answers
            .iter()
            .filter_map(|answer| answer.1)
            .fold(0.0, f64::max);
        topic.fit.phase = Phase::Settling {
            since: now,
            quiet_since: Some(now),
        };
        if worst <= slo.latency_us {
            topic.fit.violations = 0;
            return None;
        }
        topic.fit.violations += 1;
        if topic.fit.violations < VIOLATIONS_MAX {
            return None;
        }
        topic.fit.violations = 0;
        topic.fit.outcome = Outcome::None;
        let current = topic.placed();
        let (config, publishers) = self.fit_question(name)?;
        let (states, models) = (self.broker_states(name), self.models());
        let text = format!(
            "p{} is {worst:.0} us, promised are {} us: a new fit begins",
            slo.percentile, slo.latency_us
        );
        self.tell("violated", Some(name), None, text);
        match Fitting::resume(config, publishers, states, models, &current) {
            Ok(fitting) => Some(Box::new(fitting)),
            Err(error) => {
                self.tell("problem", Some(name), None, error.to_string());
                None
            }
        }
    }
}

impl Fit {
    /// Whether the next window is to bring a trace: a search by replay reads it.
    pub(super) fn wants_trace(&self) -> bool {
        self.fitting.is_some() || self.violations > 0
    }

    /// Brokers that a search has marked full, by number.
    pub(super) fn full_brokers(&self, brokers: usize) -> Vec<bool> {
        let mut full = vec![false; brokers];
        if self.outcome == Outcome::OutOfBrokers {
            let rows = self.status.iter().flat_map(|status| &status.iterations);
            for broker in rows
                .flat_map(|iteration| &iteration.brokers)
                .filter(|broker| broker.full)
            {
                if let Some(full) = full.get_mut(broker.broker.0 as usize) {
                    *full = true;
                }
            }
        }
        full
    }

    /// The word for it in views.
    pub(super) fn state(&self) -> &'static str {
        match (&self.phase, self.outcome) {
            (_, Outcome::OutOfBrokers) => "out-of-brokers",
            (_, Outcome::Fitted) if self.violations > 0 => "violated",
            (_, Outcome::Fitted) => "fitted",
            (Phase::Due(_), _) => "waiting",
            (Phase::Settling { .. }, _) => "placing",
            (Phase::Measuring(_) | Phase::Computing, _) => "measuring",
            (Phase::Idle, _) => "unfitted",
        }
    }
}
