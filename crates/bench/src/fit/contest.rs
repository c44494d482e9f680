//! One broker of a fit: its runs, their verdicts, and the result.

use serde::Serialize;

use super::options::{FitOptions, Goal, Grow};
use super::search::{Search, SearchOptions, Step, Verdict};
use super::standings::{self, Standing};
use super::subject::{Loaded, Subject};
use crate::error::BenchError;
use crate::generator::Outcome;
use crate::report::Results;
use crate::trial::Trial;
use statistics::median;

/// Broken runs, and no whole one, after which a broker is given up.
const BROKEN_RUNS: usize = 3;

/// One broker and its search.
pub(super) struct Contest<'a> {
    pub(super) subject: Subject<'a>,
    search: Search,
    runs: Vec<Run>,
    /// Why it is left out.
    pub(super) failure: Option<String>,
}

/// One run and what it says.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) goal: Goal,
    grow: Grow,
    pub(super) rate: f64,
    #[serde(skip)]
    step: Step,
    pub(super) verdict: Verdict,
    /// The goal's percentile of the latency, in microseconds; none when the run broke.
    pub(super) latency_us: Option<f64>,
    /// What broke it.
    pub(super) broken: Option<String>,
    pub(super) outcome: Option<Outcome>,
}

impl<'a> Contest<'a> {
    /// A broker that has not run; already left out when there is nothing to load.
    pub(super) fn new(subject: Subject<'a>, bounds: SearchOptions) -> Self {
        Self {
            failure: subject.check().err().map(|error| error.to_string()),
            subject,
            search: Search::new(bounds),
            runs: Vec::new(),
        }
    }

    /// The step to run next; `None` when it is done or left out.
    pub(super) fn next_step(&self) -> Option<Step> {
        self.search.next_step().filter(|_| self.failure.is_none())
    }

    /// Loads the broker at `step`, tells of it and keeps it.
    ///
    /// # Errors
    /// When the load is out of range or the result cannot be written; not when the broker fails.
    pub(super) fn run(
        &mut self,
        step: Step,
        options: &FitOptions,
        results: &Results<'_>,
    ) -> Result<(), BenchError> {
        let rate = self.search.rate(step);
        let (load, loaded) = match self.subject.load(rate) {
            Ok(loaded) => loaded,
            Err(error @ BenchError::Options(_)) => return Err(error),
            Err(error) => {
                self.fail(error.to_string());
                return Ok(());
            }
        };
        let run = Run::new(step, rate, loaded, options);
        self.search.record(step, run.verdict);
        let (name, number) = (self.subject.name(), self.search.runs());
        println!("{}", standings::progress(&name, number, &load, &run));
        results.append("fit-run", &name, number, &load, &run)?;
        self.runs.push(run);
        self.give_up_when_all_broke();
        Ok(())
    }

    fn give_up_when_all_broke(&mut self) {
        let broken = self.runs.iter().filter_map(|run| run.broken.clone());
        let broken: Vec<String> = broken.collect();
        if broken.len() == self.runs.len() && broken.len() >= BROKEN_RUNS {
            let last = broken.last().cloned().unwrap_or_default();
            self.fail(format!("every run broke: {last}"));
        }
    }

    fn fail(&mut self, text: String) {
        println!("{}: {text}", self.subject.name());
        self.failure = Some(text);
    }

    /// Its result.
    pub(super) fn standing(&self, options: &FitOptions) -> Standing {
        let finding = self.search.finding(options.confidence());
        // Figures are those of the rate below the knee, or, when none passes, of the least that was run.
        let quoted = self.search.highest_passing();
        let quoted = quoted.or_else(|| self.search.votes().map(|(step, _)| step).next());
        let at_quoted = || {
            let counts = |run: &&Run| Some(run.step) == quoted && run.verdict != Verdict::Vain;
            self.runs.iter().filter(counts)
        };
        let outcomes = || at_quoted().filter_map(|run| run.outcome.as_ref());
        Standing {
            peer: self.subject.name(),
            goal: options.goal(),
            grow: options.grow,
            quoted_rate: quoted.map(|step| self.search.rate(step)),
            latency_us: finite(median(at_quoted().filter_map(|run| run.latency_us))),
            broker_us_per_message: finite(median(
                outcomes().filter_map(|outcome| outcome.broker_us_per_message),
            )),
            is_settled: self.search.is_settled(),
            core_used_by_others: finite(median(self.others())),
            steps: self
                .search
                .votes()
                .map(|(step, votes)| (self.search.rate(step), votes))
                .collect(),
            broken: self
                .runs
                .iter()
                .filter_map(|run| run.broken.clone())
                .collect(),
            failure: self.failure.clone(),
            finding: match self.failure {
                Some(_) => None,
                None => Some(finding),
            },
        }
    }

    /// Part of the broker's core that was used by others, for each run in which it was measured.
    fn others(&self) -> impl Iterator<Item = f64> {
        let outcomes = self.runs.iter().filter_map(|run| run.outcome.as_ref());
        outcomes
            .map(Outcome::core_used_by_others)
            .filter(|part| part.is_finite())
    }
}

impl Run {
    fn new(step: Step, rate: f64, loaded: Loaded, options: &FitOptions) -> Self {
        let goal = options.goal();
        let run = Self {
            goal,
            grow: options.grow,
            rate,
            step,
            verdict: Verdict::Missed,
            latency_us: None,
            broken: None,
            outcome: None,
        };
        match loaded {
            Loaded::Broken(error) => Self {
                broken: Some(error.to_string()),
                ..run
            },
            Loaded::Whole(outcome) => {
                let latency_us = goal.of(&outcome.latency);
                let lateness_us = goal.of(&outcome.lateness);
                let trial = Trial::of(rate, &outcome, latency_us, lateness_us, goal.slo_us);
                Self {
                    verdict: verdict(&trial, goal.slo_us),
                    latency_us: Some(latency_us),
                    outcome: Some(*outcome),
                    ..run
                }
            }
        }
    }
}

/// A late generator makes latencies longer, never shorter: a goal that was met in spite of it was met.
fn verdict(trial: &Trial, slo_us: f64) -> Verdict {
    if trial.meets(slo_us) {
        Verdict::Met
    } else if trial.generator_limited {
        Verdict::Vain
    } else {
        Verdict::Missed
    }
}

fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests;
