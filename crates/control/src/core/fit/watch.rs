//! The watch over a fitted topic: window after window, and what each means for the promise.

use clock::Instant;
use placement::BrokerWindow;

use super::{Fitter, Outcome, Phase, Recorded};
use crate::core::BrokerNumber;
use crate::core::beside::{Beside, beside};
use crate::core::rates::believe_trace;
use crate::core::registry::Brokers;
use crate::core::relief::newcomer_to;
use crate::core::topics::Topics;
use crate::core::trace::{TraceParts, infer};

/// So many windows in a row must violate the promise of a fitted topic before a fit begins anew.
const VIOLATIONS_MAX: u32 = 2;

/// A window's result for a topic, by broker: latency in microseconds, messages.
pub(in crate::core) type Answers = [(BrokerNumber, Option<f64>, u64)];

impl Fitter<'_> {
    /// A window's result goes to the search, or to the watch over a fitted topic.
    pub(in crate::core) fn window_answered(
        &mut self,
        name: &str,
        answers: &Answers,
        parts: TraceParts,
        beside: Vec<Beside>,
        seconds: f64,
        now: Instant,
    ) {
        let mut windows = vec![BrokerWindow::default(); self.ground.brokers.len()];
        for &(broker, latency, messages) in answers {
            windows[broker as usize] = BrokerWindow {
                p99_us: latency,
                messages,
            };
        }
        let Some((topic, loads)) = self.ground.topics.with_loads(name) else {
            return;
        };
        topic.fit.last = latencies(answers);
        let trace = parts.into_trace(&topic.publishers);
        if let Some(trace) = &trace {
            believe_trace(&mut topic.publishers, trace, loads);
            if topic.spec.infer_groups {
                infer(&mut topic.publishers, trace);
            }
        }
        let recorded = Box::new(Recorded {
            placed: topic.placed(),
            windows,
            trace,
            beside,
            seconds,
        });
        if topic.fit.fitting.is_some() {
            return self.compute(name, recorded);
        }
        if let Some(recorded) = self.watch(name, answers, recorded, now) {
            self.compute(name, recorded);
        }
    }

    /// Watches a topic that is not being fitted; gives the window back where a new search is to begin with it.
    fn watch(
        &mut self,
        name: &str,
        answers: &Answers,
        recorded: Box<Recorded>,
        now: Instant,
    ) -> Option<Box<Recorded>> {
        let topic = self.ground.topics.get_mut(name)?;
        let slo = topic.spec.slo?;
        let worst = worst(answers);
        topic.fit.phase = Phase::Settling {
            since: now,
            quiet_since: Some(now),
        };
        self.ground.due.fits.insert(name);
        if worst <= slo.latency_us {
            self.promise_kept(name);
            return None;
        }
        if topic.fit.is_short() {
            let has_searched = topic.fit.outcome == Outcome::OutOfBrokers;
            topic.fit.recorded = has_searched.then_some(recorded);
            return None;
        }
        topic.fit.violations += 1;
        let is_enough =
            topic.fit.outcome == Outcome::None || topic.fit.violations >= VIOLATIONS_MAX;
        if let Some(why) = over_limit(self.ground.topics, self.ground.brokers, name) {
            self.beyond_limit(name, why);
            return None;
        }
        if !is_enough {
            return None;
        }
        if let Some(newcomer) = newcomer_to(self.ground.topics, self.ground.brokers, name) {
            self.refit_now(&newcomer, now);
            return None;
        }
        let text = format!(
            "p{} is {worst:.0} us, but the promise is {} us: a new fit begins",
            slo.percentile, slo.latency_us
        );
        self.ground.out.tell("violated", Some(name), None, text);
        let last = latencies(answers);
        let has_begun = self.begin_search(name, &recorded.placed);
        let topic = self.ground.topics.get_mut(name)?;
        topic.fit.last = last;
        if !has_begun || beside(self.ground.topics, self.ground.brokers, name, true).is_empty() {
            return has_begun.then_some(recorded);
        }
        // What others sent meanwhile is not recorded: a window that covers them is.
        if let Some(topic) = self.ground.topics.get_mut(name) {
            topic.fit.is_urgent = true;
        }
        None
    }

    /// A window of the present placement shows that the promise is kept.
    fn promise_kept(&mut self, name: &str) {
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        topic.fit.violations = 0;
        if topic.fit.outcome == Outcome::Fitted {
            topic.fit.text.clear();
        }
        let is_complete = topic.publishers.unplaced().is_empty();
        if topic.fit.outcome == Outcome::Fitted || !is_complete {
            return;
        }
        topic.fit.outcome = Outcome::Fitted;
        topic.fit.text.clear();
        topic.fit.recorded = None;
        let text = String::from("fitted: the promise is kept");
        self.ground.out.tell("fit", Some(name), None, text);
    }

    /// A window that another topic's search ran showed this of a topic beside it: the search sees to it, and until it has,
    /// nobody calls the promise kept.
    pub(in crate::core) fn covering_window_answered(&mut self, name: &str, answers: &Answers) {
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        topic.fit.covered_by = None;
        if topic.fit.is_under_way() {
            return;
        }
        for latency in latencies(answers) {
            topic.fit.last.retain(|(broker, _)| *broker != latency.0);
            topic.fit.last.push(latency);
        }
        let promise_us = topic.spec.slo.map_or(f64::INFINITY, |slo| slo.latency_us);
        topic.fit.violations = u32::from(worst(answers) > promise_us);
    }

    /// A promise is broken, and no placement mends it: the state says so, windows go on.
    pub(super) fn beyond_limit(&mut self, name: &str, why: String) {
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        topic.fit.violations = topic.fit.violations.max(1);
        let is_new = topic.fit.text.is_empty();
        topic.fit.text.clone_from(&why);
        if is_new {
            self.ground.out.tell("violated", Some(name), None, why);
        }
    }
}

/// Where publishers of a topic ask for more than its limit, in words: then no placement keeps a
/// promise.
pub(in crate::core) fn over_limit(
    topics: &Topics,
    brokers: &Brokers,
    name: &str,
) -> Option<String> {
    let limit = topics.get(name)?.spec.contract.limit?;
    let carried = brokers.iter().filter_map(|broker| broker.word(name));
    let asked: f64 = carried.map(|carried| carried.report.mean_rate).sum();
    (asked > limit.rate.get() * OVER_LIMIT_PART).then(|| {
        format!(
            "publishers ask for {asked:.0} tokens/s, but the limit is {}: the excess waits; raise the limit, or send less",
            limit.rate.get()
        )
    })
}

/// Traffic within this part of the limit is within it: a history of ten seconds knows it no better.
const OVER_LIMIT_PART: f64 = 1.05;

fn latencies(answers: &Answers) -> Vec<(BrokerNumber, Option<f64>)> {
    let answers = answers.iter();
    answers
        .map(|&(broker, latency, _)| (broker, latency))
        .collect()
}

fn worst(answers: &Answers) -> f64 {
    let latencies = answers.iter().filter_map(|answer| answer.1);
    latencies.fold(0.0, f64::max)
}
