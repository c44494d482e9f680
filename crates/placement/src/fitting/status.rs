//! How a fit went: the rows of the paper's table 1, and what was in the way.

use serde::{Deserialize, Serialize};

use super::Mode;
use crate::BrokerIndex;

/// How a fit went so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FitStatus {
    /// The way that was chosen.
    pub mode: Mode,
    /// Where it stands.
    pub state: FitState,
    /// One per assignment that was tried as a whole; at most the last [`FitStatus::MOST_ITERATIONS`].
    pub iterations: Vec<Iteration>,
    /// Profiling windows so far.
    pub windows: u32,
    /// Seconds in profiling windows so far.
    pub seconds: f64,
    /// Times that replay was given up for the measured search.
    pub fallbacks: u32,
    /// Reports that were ignored, guesses that were needed: the last [`FitStatus::MOST_PROBLEMS`].
    pub problems: Vec<String>,
    /// The neighbour whose promise kept a broker from holding more, the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Deciding>,
}

/// A neighbour whose promise decides what a broker holds of the topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deciding {
    /// The neighbour's name.
    pub topic: String,
    /// Where.
    pub broker: BrokerIndex,
    /// What its latency was, or would have been, in microseconds.
    pub latency_us: f64,
    /// Its promise, in microseconds.
    pub promise_us: f64,
}

/// Where a fit stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitState {
    /// An assignment waits for its first window.
    #[default]
    Placing,
    /// Some brokers violated the SLO; what they hold is searched for.
    Measuring,
    /// All are placed and the SLO is met.
    Fitted,
    /// No broker is left.
    OutOfBrokers,
}

/// One iteration: an assignment of all publishers, and the search that its window made necessary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Brokers that carry the topic.
    pub k: usize,
    /// Windows in it: the first, and one per round of the search.
    pub rounds: u32,
    /// Those brokers.
    pub brokers: Vec<BrokerFit>,
    /// Seconds in its windows.
    pub seconds: f64,
}

/// One broker in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokerFit {
    /// Which.
    pub broker: BrokerIndex,
    /// Publishers of the topic there.
    pub publishers: usize,
    /// Latency at the SLO's percentile as last measured, in microseconds.
    pub p99_us: Option<f64>,
    /// The same as a replay predicted it beforehand.
    pub predicted_p99_us: Option<f64>,
    /// Whether it is known to hold no more.
    pub full: bool,
}

impl FitStatus {
    /// Iterations kept.
    pub const MOST_ITERATIONS: usize = 64;

    /// Problems kept.
    pub const MOST_PROBLEMS: usize = 32;

    pub(super) fn problem(&mut self, text: String) {
        if self.problems.last() != Some(&text) {
            self.problems.push(text);
        }
        keep_last(&mut self.problems, Self::MOST_PROBLEMS);
    }

    pub(super) fn begin_iteration(&mut self) {
        self.iterations.push(Iteration::default());
        keep_last(&mut self.iterations, Self::MOST_ITERATIONS);
        self.state = FitState::Placing;
    }

    /// Books a window; nonsense for a length counts as none.
    pub(super) fn window(&mut self, seconds: f64) {
        let seconds = if (0.0..=1e9).contains(&seconds) {
            seconds
        } else {
            0.0
        };
        self.windows += 1;
        self.seconds += seconds;
        if let Some(iteration) = self.iterations.last_mut() {
            iteration.rounds += 1;
            iteration.seconds += seconds;
        }
    }

    /// Brings the present iteration's brokers up to date. An earlier measurement at a broker stays,
    /// if there is no new one.
    pub(super) fn brokers(&mut self, now: Vec<BrokerFit>) {
        let Some(iteration) = self.iterations.last_mut() else {
            return;
        };
        let before = std::mem::take(&mut iteration.brokers);
        let with_past = |fit: BrokerFit| {
            let past = before.iter().find(|past| past.broker == fit.broker);
            BrokerFit {
                p99_us: fit.p99_us.or(past.and_then(|past| past.p99_us)),
                predicted_p99_us: fit
                    .predicted_p99_us
                    .or(past.and_then(|past| past.predicted_p99_us)),
                ..fit
            }
        };
        iteration.k = now.len();
        iteration.brokers = now.into_iter().map(with_past).collect();
    }
}

fn keep_last<T>(list: &mut Vec<T>, most: usize) {
    let surplus = list.len().saturating_sub(most);
    list.drain(..surplus);
}
