//! Step 3 of the Load Distributor: the fit of a topic to its promise, from the first window to the
//! watch that follows (SRTM-long, sections 4.2 and 6.5).
//!
//! The search itself is [`placement::Fitting`]. Here its requests are carried out: publishers are
//! moved, traffic settles, a window is run, and its answers go back in ([`search`]). Once fitted, a
//! topic is watched by window after window ([`watch`]) and by the brokers' reports each second
//! ([`super::overload`]).

mod search;
mod watch;

pub(super) use search::{out_of_brokers, short_of_capacity};
pub(super) use watch::{Answers, over_limit};

use clock::Instant;
use placement::{BrokerIndex, BrokerWindow, FitStatus, Fitting, Step, Trace, Window};

use super::beside::Beside;
use super::due::Due;
use super::ground::Ground;
use super::parts::Done;
use super::place::Distributor;
use super::registry::Brokers;
use super::topics::Topics;
use super::window::{OpenWindow, Windows};
use super::{BrokerNumber, Settings, Topic};
use std::time::Duration;

/// Publishers that are not where they are to be, and queues that break the promise, are not waited for longer.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A queue that holds what arrives in so long is worked off.
const BACKLOG_MAX: Duration = Duration::from_millis(30);

/// One that holds more and breaks no promise is not waited for longer: it may be a burst, again and again.
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(6);

/// The first window after a violation that reports have shown: long enough to see bursts, short enough to answer them.
pub(super) const URGENT_WINDOW: Duration = Duration::from_secs(5);

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
    /// Answers of the last window; none once they are not of the present placement any more.
    pub(super) last: Vec<(BrokerNumber, Option<f64>)>,
    /// The obstacle, in words.
    pub(super) text: String,
    /// Counts searches: the answer of a job of a former one is void.
    generation: u64,
    /// The next window is a short one.
    pub(super) is_urgent: bool,
    /// When a search began because reports showed a violation.
    urgent_at: Option<Instant>,
    /// The window of another topic that covers this one: while it is open, it opens none of its own.
    covered_by: Option<u64>,
    /// Brokers came while a search was under way, which does not know of them.
    has_new_brokers: bool,
    /// The last window of a search that ran out of brokers: what a broker that joins is filled by.
    recorded: Option<Box<Recorded>>,
}

/// The present activity.
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
    /// None has ended, or what it came to holds no more.
    #[default]
    None,
    /// The promise is kept.
    Fitted,
    /// No broker is left.
    OutOfBrokers,
    /// All brokers together carry less than is sent.
    Short,
}

/// A window's answers.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Where the publishers were.
    pub(super) placed: Vec<Option<BrokerIndex>>,
    /// By broker number.
    pub(super) windows: Vec<BrokerWindow>,
    /// What arrived of the topic, if it was traced.
    pub(super) trace: Option<Trace>,
    /// Other promised topics on the same brokers.
    pub(super) beside: Vec<Beside>,
    /// Its length.
    pub(super) seconds: f64,
}

/// A computation that is done away from the state machine.
#[derive(Debug)]
pub struct FitJob {
    topic: String,
    generation: u64,
    fitting: Box<Fitting>,
    recorded: Box<Recorded>,
}

/// Its answer.
#[derive(Debug)]
pub struct FitAnswer {
    topic: String,
    generation: u64,
    fitting: Box<Fitting>,
    recorded: Box<Recorded>,
    step: Step,
}

impl FitJob {
    /// Computes; may take a second for a large trace.
    #[must_use]
    pub fn run(mut self) -> FitAnswer {
        let neighbours: Vec<_> = self
            .recorded
            .beside
            .iter()
            .map(Beside::as_neighbour)
            .collect();
        let step = self.fitting.measured(&Window {
            brokers: &self.recorded.windows,
            trace: self.recorded.trace.as_ref(),
            seconds: self.recorded.seconds,
            neighbours: &neighbours,
        });
        drop(neighbours);
        FitAnswer {
            topic: self.topic,
            generation: self.generation,
            fitting: self.fitting,
            recorded: self.recorded,
            step,
        }
    }
}

/// Fits placements to promises, as the Load Distributor does in its step 3.
pub(super) struct Fitter<'a> {
    pub(super) ground: Ground<'a>,
    pub(super) windows: &'a mut Windows,
}

impl Fitter<'_> {
    fn distributor(&mut self) -> Distributor<'_> {
        Distributor {
            ground: self.ground.lend(),
        }
    }

    /// Does what is due for a topic's fit.
    pub(super) fn drive(&mut self, name: &str, now: Instant) {
        let is_settling = |topic: &Topic| matches!(topic.fit.phase, Phase::Settling { .. });
        let is_settling = self.ground.topics.get(name).is_some_and(is_settling);
        let is_backlogged = is_settling && is_backlogged(self.ground.brokers, name);
        let has_queue = is_settling && has_queue(self.ground.brokers, name);
        let covered_by = self
            .ground
            .topics
            .get(name)
            .and_then(|topic| topic.fit.covered_by);
        let is_covered =
            covered_by.is_some_and(|window| self.windows.is_open(window, self.ground.topics));
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return self.ground.due.fits.remove(name);
        };
        let has_moves = topic.has_moves();
        match &mut topic.fit.phase {
            Phase::Idle | Phase::Computing => self.ground.due.fits.remove(name),
            // Whoever connects has it looked at again.
            Phase::Due(_) if topic.publishers.attached() == 0 => self.ground.due.fits.remove(name),
            Phase::Due(at) if now >= *at => self.begin_fit(name, now),
            Phase::Due(_) => {}
            Phase::Settling { since, quiet_since } => {
                let is_waiting = has_moves || has_queue;
                let is_quiet = (!is_waiting || now - *since >= SETTLE_TIMEOUT)
                    && (!is_backlogged || now - *since >= BACKLOG_TIMEOUT);
                let quiet = *quiet_since.get_or_insert(now);
                let settle = self.ground.rules.settings.settle;
                // Nobody has moved that traffic would have to settle after.
                let is_settled = topic.placed_at.is_none_or(|at| now - at >= settle);
                if topic.fit.is_urgent && !has_moves && is_settled && !is_covered {
                    self.open_window(name, now);
                } else if !is_quiet {
                    *quiet_since = None;
                } else if now - quiet >= settle && !is_covered {
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

    /// The knowledge of a topic's promise is of another placement: the promise is judged anew. A
    /// search whose publishers were moved by somebody else is given up.
    pub(super) fn disturb_fit(&mut self, name: &str, has_moved: bool, now: Instant) {
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        let is_begun = !matches!(topic.fit.phase, Phase::Idle | Phase::Due(_));
        if topic.spec.slo.is_none() || !is_begun {
            return;
        }
        if has_moved || !topic.fit.is_under_way() {
            topic.fit.begin_anew();
        } else if matches!(topic.fit.phase, Phase::Computing) {
            // The answer's window judges what became of it.
            return;
        }
        topic.fit.phase = Phase::Settling {
            since: now,
            quiet_since: None,
        };
        self.ground.due.fits.insert(name);
    }

    /// What a topic waited for a broker for, its publishers below an index, as many as one part may; says below which others wait.
    pub(in crate::core) fn room_for(
        &mut self,
        name: &str,
        below: usize,
        done: &mut Done,
        now: Instant,
    ) -> Option<usize> {
        let rows_left = self.distributor().place_below(name, below, done, now);
        if rows_left.is_some() {
            return rows_left;
        }
        let fit = self.ground.topics.get_mut(name).map(|topic| {
            topic.fit.has_new_brokers = topic.fit.is_under_way();
            &mut topic.fit
        });
        let short = fit.filter(|fit| fit.outcome == Outcome::OutOfBrokers);
        match short.map(|fit| fit.recorded.take()) {
            Some(Some(recorded)) => self.resume_fit(name, recorded),
            Some(None) => fit_due(
                self.ground.topics,
                self.ground.due,
                &self.ground.rules.settings,
                name,
                now,
            ),
            None => {}
        }
        None
    }
}

/// A search begins when the publishers have been quiet for a while; one under way is given up.
pub(super) fn fit_due(
    topics: &mut Topics,
    due: &mut Due,
    settings: &Settings,
    name: &str,
    now: Instant,
) {
    let at = now + settings.debounce;
    let Some(topic) = topics.get_mut(name) else {
        return;
    };
    let is_short =
        topic.fit.outcome == Outcome::OutOfBrokers && !topic.publishers.unplaced().is_empty();
    let text = std::mem::take(&mut topic.fit.text);
    topic.fit.begin_anew();
    if is_short {
        // Publishers without a place are true whatever a search comes to.
        (topic.fit.outcome, topic.fit.text) = (Outcome::OutOfBrokers, text);
    }
    topic.fit.phase = match topic.spec.slo {
        Some(_) => Phase::Due(at),
        None => Phase::Idle,
    };
    if topic.spec.slo.is_some() {
        due.fits.insert(name);
    }
}

/// Whether some broker still works off what gathered while publishers moved: a window would measure that.
fn is_backlogged(brokers: &Brokers, name: &str) -> bool {
    let carried = brokers.iter().filter_map(|broker| broker.word(name));
    carried
        .into_iter()
        .any(|carried| carried.report.depth as f64 > carried.rate * BACKLOG_MAX.as_secs_f64())
}

/// Whether reports show a queue that breaks the promise: it is answered, and worked off, before anything is measured.
fn has_queue(brokers: &Brokers, name: &str) -> bool {
    let carried = brokers.iter().filter_map(|broker| broker.word(name));
    let mut queued = carried.map(|carried| carried.violation.queued_reports);
    queued.any(|reports| reports > 0)
}

impl Fit {
    /// Nothing that was found out holds any more.
    fn begin_anew(&mut self) {
        self.generation += 1;
        self.fitting = None;
        self.outcome = Outcome::None;
        self.violations = 0;
        self.last.clear();
        self.text.clear();
        self.is_urgent = false;
        self.has_new_brokers = false;
        self.recorded = None;
    }

    /// Whether there are too few brokers for it.
    pub(super) fn is_short(&self) -> bool {
        matches!(self.outcome, Outcome::OutOfBrokers | Outcome::Short)
    }

    /// Whether a search is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.fitting.is_some() || matches!(self.phase, Phase::Computing)
    }

    /// Whether the window with this number is its own and open.
    pub(super) fn has_open(&self, window: u64) -> bool {
        matches!(&self.phase, Phase::Measuring(open) if open.number() == window)
    }

    /// A window of another topic's search covers this one: its own watch pauses.
    pub(super) fn begin_cover(&mut self, window: u64, now: Instant) {
        self.covered_by = Some(window);
        if matches!(self.phase, Phase::Measuring(_)) {
            self.phase = Phase::Settling {
                since: now,
                quiet_since: Some(now),
            };
        }
    }

    /// Whether the topic's promise has not been found kept since it was placed: it is the newcomer where it is.
    pub(super) fn is_newcomer(&self) -> bool {
        !matches!(self.phase, Phase::Idle) && self.outcome == Outcome::None
    }

    /// Whether a window of a search is open: others on the same brokers wait with theirs.
    pub(super) fn is_searching(&self) -> bool {
        self.fitting.is_some() && matches!(self.phase, Phase::Measuring(_))
    }

    /// Whether the next window is to bring a trace: a search by replay reads it, and so does one that would begin with it.
    pub(super) fn wants_trace(&self) -> bool {
        self.fitting.is_some() || self.violations > 0 || self.outcome != Outcome::Fitted
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

    /// The word for it in views; `is_seen`: reports show a violation now.
    pub(super) fn state(&self, is_seen: bool, has_moves: bool) -> &'static str {
        let is_violated = (is_seen || self.violations > 0) && !self.is_under_way();
        match (&self.phase, self.outcome) {
            (_, Outcome::OutOfBrokers | Outcome::Short) => "out-of-brokers",
            (Phase::Due(_), _) => "waiting",
            (Phase::Idle, _) => "unfitted",
            _ if is_violated && has_moves => "moving",
            _ if is_violated => "violated",
            (_, Outcome::Fitted) => "fitted",
            (Phase::Settling { .. }, _) => "placing",
            (Phase::Measuring(_) | Phase::Computing, _) => "measuring",
        }
    }
}
