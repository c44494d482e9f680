//! Which rate to run next, and the result of the runs.
//!
//! Rates are the steps of a geometric ladder, one tolerance apart. Single runs go up or down it in
//! long strides until one meets the goal and another misses it, and halve the steps between. Then
//! every step around the place where the pass probability falls through one half is run several
//! times in a mixed order, outwards to steps whose runs all agree. Only the verdicts are
//! remembered: the next step follows from them alone, so a lucky verdict is outvoted and the search
//! moves on by itself.
//!
//! A miss that the generator may have caused says nothing about the broker. It is repeated; a step
//! where that does not help is a ceiling, and the result then says "at least". When most runs are
//! in vain the search is given up.
//!
//! Pure: the caller runs a load and reports its verdict. It makes *no* assumption of how fast the
//! pass probability falls.

use std::collections::BTreeMap;

use clock::stream;
use rand::Rng;
use serde::Serialize;

use super::estimate::{Confidence, Estimate, Tally, estimate, pass_probabilities};

/// Ratio of the rates of two strides, as long as the knee is not enclosed.
const STRIDE: f64 = 1.5;
/// Runs in vain after which a step is given up.
const VAIN_RUNS: u32 = 3;
/// Runs in vain, beside twice as many as those that count, after which the whole search is given up.
const VAIN_SEARCH_RUNS: u32 = 15;
/// Steps away from the knee that are repeated at most, on either side.
const REACH: i32 = 10;
/// Rounding that may not cost the first or last step.
const ROUNDING: f64 = 1e-9;

/// What is searched and how thoroughly. Rates in messages per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchOptions {
    /// The first rate.
    pub start: f64,
    /// No rate below this is run; at most `start`.
    pub least: f64,
    /// No rate above this is run; at least `start`.
    pub most: f64,
    /// Distance of two steps, as a part of the lower one.
    pub tolerance: f64,
    /// Runs of each step around the knee.
    pub repeats: u32,
    /// Runs at most, those in vain included.
    pub max_runs: u32,
    /// Seed of the order and of the bootstrap.
    pub seed: u64,
}

/// A place on the ladder; step 0 is the first rate that is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(i32);

/// The verdict of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The goal was met.
    Met,
    /// The broker missed it.
    Missed,
    /// It was missed, perhaps by the generator.
    Vain,
}

/// The runs of one step.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Votes {
    /// Runs that met the goal.
    pub met: u32,
    /// Runs that missed it.
    pub missed: u32,
    /// Runs that do not count.
    pub vain: u32,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    options: SearchOptions,
    votes: BTreeMap<Step, Votes>,
    runs: u32,
}

/// The result of a search. Rates in messages per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finding {
    /// The knee was enclosed.
    Knee(Estimate),
    /// The goal was met at `rate`, and nothing is known of higher ones.
    AtLeast {
        /// The highest rate with a majority of runs that met the goal.
        rate: f64,
        /// Why no more is known.
        limit: Limit,
    },
    /// The goal was missed at the least rate.
    Infeasible {
        /// That rate.
        rate: f64,
    },
    /// No rate met the goal, and the least one was not judged.
    Unknown {
        /// Why.
        limit: Limit,
    },
}

/// What ended a search before it enclosed the knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The generator was too late to blame the broker for the next miss.
    Generator,
    /// The highest rate that may be run.
    HighestRate,
    /// The number of runs.
    Runs,
}

/// What lies above the highest step that passes.
#[derive(Debug, Clone, Copy)]
enum Above {
    Missed(Step),
    GivenUp(Step),
    Open,
}

impl Search {
    /// A search that has run nothing.
    pub fn new(options: SearchOptions) -> Self {
        Self {
            options,
            votes: BTreeMap::new(),
            runs: 0,
        }
    }

    /// The rate of `step` in messages per second.
    pub fn rate(&self, step: Step) -> f64 {
        self.options.start * (1.0 + self.options.tolerance).powi(step.0)
    }

    /// The step to run next; `None` when the search is over.
    pub fn next_step(&self) -> Option<Step> {
        self.wanted().filter(|_| self.runs < self.options.max_runs)
    }

    /// Takes the verdict of one run at `step`.
    pub fn record(&mut self, step: Step, verdict: Verdict) {
        let votes = self.votes.entry(step).or_default();
        match verdict {
            Verdict::Met => votes.met += 1,
            Verdict::Missed => votes.missed += 1,
            Verdict::Vain => votes.vain += 1,
        }
        self.runs += 1;
    }

    /// Runs so far.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Whether every step that matters had its repetitions.
    pub fn is_settled(&self) -> bool {
        self.wanted().is_none()
    }

    /// The steps that were run, lowest first.
    pub fn votes(&self) -> impl Iterator<Item = (Step, Votes)> {
        self.votes.iter().map(|(step, votes)| (*step, *votes))
    }

    /// The highest step that passes at least half of its runs: the one to quote figures of.
    pub fn highest_passing(&self) -> Option<Step> {
        self.enclosing().0
    }

    /// The finding of the runs so far.
    pub fn finding(&self, confidence: Confidence) -> Finding {
        match self.enclosing() {
            (Some(met), Above::Missed(_)) => {
                let tallies = self.tallies();
                let mut random = stream(self.options.seed, "bootstrap");
                estimate(&tallies, confidence, &mut random)
                    .map_or_else(|| self.at_least(met, Limit::Runs), Finding::Knee)
            }
            (Some(met), Above::GivenUp(_)) => self.at_least(met, Limit::Generator),
            (Some(met), Above::Open) if met == self.last() => {
                self.at_least(met, Limit::HighestRate)
            }
            (Some(met), Above::Open) => self.at_least(met, Limit::Runs),
            (None, Above::Missed(step)) if step == self.first() => Finding::Infeasible {
                rate: self.rate(step),
            },
            (None, Above::GivenUp(_)) => Finding::Unknown {
                limit: Limit::Generator,
            },
            (None, Above::Missed(_) | Above::Open) => Finding::Unknown { limit: Limit::Runs },
        }
    }

    fn at_least(&self, met: Step, limit: Limit) -> Finding {
        Finding::AtLeast {
            rate: self.rate(met),
            limit,
        }
    }

    /// The step that is worth a run.
    fn wanted(&self) -> Option<Step> {
        if self.is_in_vain() {
            return None;
        }
        match self.enclosing() {
            (None, Above::Open) => Some(Step(0)),
            (None, Above::Missed(step)) if step == self.first() => self.unless_repeated(step),
            (None, Above::GivenUp(step)) if step == self.first() => None,
            (None, Above::Missed(step) | Above::GivenUp(step)) => {
                Some(Step(step.0 - self.stride()).max(self.first()))
            }
            (Some(met), Above::Open) if met == self.last() => self.unless_repeated(met),
            (Some(met), Above::Open) => Some(Step(met.0 + self.stride()).min(self.last())),
            (Some(met), Above::GivenUp(step)) if step.0 - met.0 == 1 => self.unless_repeated(met),
            (Some(met), Above::Missed(step)) if step.0 - met.0 == 1 => self.repetition(met, step),
            (Some(met), Above::Missed(step) | Above::GivenUp(step)) => {
                Some(Step(met.0 + (step.0 - met.0) / 2))
            }
        }
    }

    /// Whether the generator is late so often that this machine, at its present load, cannot tell
    /// anything.
    fn is_in_vain(&self) -> bool {
        let sum = |count: fn(&Votes) -> u32| self.votes.values().map(count).sum::<u32>();
        sum(|votes| votes.vain) > VAIN_SEARCH_RUNS + 2 * sum(|votes| votes.counted())
    }

    /// The step around the knee with the fewest runs, if one lacks some.
    fn repetition(&self, met: Step, missed: Step) -> Option<Step> {
        let lower = self.outwards(met, -1);
        let upper = self.outwards(missed, 1);
        lower
            .into_iter()
            .chain(upper)
            .filter(|step| self.lacks_runs(*step))
            .min_by_key(|step| (self.at(*step).counted(), self.lot(*step)))
    }

    /// From `nearest` in steps of `direction` to the first that is clear, or not yet known to be.
    fn outwards(&self, nearest: Step, direction: i32) -> Vec<Step> {
        let mut steps = vec![nearest];
        for distance in 1..=REACH {
            let step = Step(nearest.0 + distance * direction);
            if step < self.first() || step > self.last() {
                break;
            }
            steps.push(step);
            if self.lacks_runs(step) || self.at(step).is_clear() {
                break;
            }
        }
        steps
    }

    /// A number that puts steps with equally many runs into a mixed order.
    fn lot(&self, step: Step) -> u64 {
        let round = self.at(step).counted();
        stream(self.options.seed, &format!("round {round} step {}", step.0)).next_u64()
    }

    fn unless_repeated(&self, step: Step) -> Option<Step> {
        self.lacks_runs(step).then_some(step)
    }

    fn lacks_runs(&self, step: Step) -> bool {
        let votes = self.at(step);
        votes.counted() < self.options.repeats && !votes.is_given_up()
    }

    /// The highest step that passes at least half of its runs, by the isotonic fit, and what lies above it.
    fn enclosing(&self) -> (Option<Step>, Above) {
        let steps: Vec<Step> = self.counted_steps().collect();
        let probabilities = pass_probabilities(&self.tallies());
        let passing = probabilities.partition_point(|probability| *probability >= 0.5);
        let met = passing.checked_sub(1).map(|place| steps[place]);
        let missed = steps.get(passing).copied();
        let given_up = self
            .votes()
            .filter(|(step, votes)| votes.is_given_up() && met.is_none_or(|met| *step > met))
            .map(|(step, _)| step)
            .next();
        let above = match (missed, given_up) {
            // Above a step at which the generator was late, its misses prove nothing either.
            (Some(missed), Some(given_up)) if given_up < missed => Above::GivenUp(given_up),
            (Some(missed), _) => Above::Missed(missed),
            (None, Some(given_up)) => Above::GivenUp(given_up),
            (None, None) => Above::Open,
        };
        (met, above)
    }

    fn counted_steps(&self) -> impl Iterator<Item = Step> {
        self.votes()
            .filter(|(_, votes)| votes.counted() > 0)
            .map(|(step, _)| step)
    }

    /// The runs that count.
    fn tallies(&self) -> Vec<Tally> {
        self.counted_steps()
            .map(|step| {
                let votes = self.at(step);
                Tally {
                    rate: self.rate(step),
                    met: votes.met,
                    missed: votes.missed,
                }
            })
            .collect()
    }

    fn at(&self, step: Step) -> Votes {
        self.votes.get(&step).copied().unwrap_or_default()
    }

    fn stride(&self) -> i32 {
        (self.steps_in(STRIDE).round() as i32).max(1)
    }

    fn first(&self) -> Step {
        let steps = self.steps_in(self.options.least / self.options.start);
        Step((steps - ROUNDING).ceil().min(0.0) as i32)
    }

    fn last(&self) -> Step {
        let steps = self.steps_in(self.options.most / self.options.start);
        Step((steps + ROUNDING).floor().max(0.0) as i32)
    }

    fn steps_in(&self, ratio: f64) -> f64 {
        ratio.ln() / self.options.tolerance.ln_1p()
    }
}

impl Votes {
    /// Runs that tell of the broker.
    pub fn counted(self) -> u32 {
        self.met + self.missed
    }

    fn is_given_up(self) -> bool {
        self.vain >= VAIN_RUNS && self.vain > self.counted()
    }

    /// Whether all runs say the same.
    fn is_clear(self) -> bool {
        self.met == 0 || self.missed == 0
    }
}

#[cfg(test)]
mod tests;
