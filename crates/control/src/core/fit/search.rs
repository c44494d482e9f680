//! The search for a placement that keeps the promise: carries out its requests and feeds
//! measurements back.

use clock::Instant;
use model::ServiceModel;
use placement::{BrokerIndex, FitConfig, Fitting, Step};

use super::watch::over_limit;
use super::{FitAnswer, FitJob, Fitter, Outcome, Phase, Recorded, URGENT_WINDOW};
use crate::core::outbox::Outbox;
use crate::core::place::{as_publishers, broker_states, crowded};
use crate::core::registry::Brokers;
use crate::core::topics::Topics;
use crate::core::{Effect, Topic};
use std::time::Duration;

/// Searches that reports of a violation begin are at least so far apart: each ends with a window that has the last word.
const URGENT_REST: Duration = Duration::from_secs(30);

impl Fitter<'_> {
    /// Takes the answer of a [`FitJob`].
    pub(in crate::core) fn fitted(&mut self, answer: FitAnswer, now: Instant) {
        let Some(topic) = self.ground.topics.get_mut(&answer.topic) else {
            return;
        };
        if topic.fit.generation != answer.generation {
            return;
        }
        topic.fit.fitting = Some(answer.fitting);
        if matches!(answer.step, Step::OutOfBrokers { .. }) {
            if topic.fit.has_new_brokers {
                return self.resume_fit(&answer.topic, answer.recorded);
            }
            topic.fit.recorded = Some(answer.recorded);
        }
        self.take_step(&answer.topic, answer.step, now);
    }

    pub(super) fn begin_fit(&mut self, name: &str, now: Instant) {
        let Some((config, publishers)) = self.fit_question(name) else {
            return;
        };
        let (states, models) = (
            broker_states(
                self.ground.rules,
                self.ground.topics,
                self.ground.brokers,
                name,
            ),
            models(self.ground.brokers),
        );
        let crowded = crowded(self.ground.topics, self.ground.brokers, name);
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        // What was fitted once is measured as it stands before anybody moves.
        let begun = if topic.fit.status.is_some() {
            let placed = topic.placed();
            Fitting::resume(config, publishers, states, models, &placed)
                .map(|fitting| (fitting, Step::Measure(placed)))
        } else {
            Fitting::begin_avoiding(config, publishers, states, models, &crowded)
        };
        match begun {
            Ok((fitting, step)) => {
                topic.fit.fitting = Some(Box::new(fitting));
                self.ground.out.tell(
                    "fit",
                    Some(name),
                    None,
                    String::from("a fit to the promise begins"),
                );
                self.take_step(name, step, now);
            }
            Err(error) => self.no_fit(name, error.to_string()),
        }
    }

    /// A new search from this placement. False where none can begin.
    pub(super) fn begin_search(&mut self, name: &str, placed: &[Option<BrokerIndex>]) -> bool {
        let Some((config, publishers)) = self.fit_question(name) else {
            return false;
        };
        let (states, models) = (
            broker_states(
                self.ground.rules,
                self.ground.topics,
                self.ground.brokers,
                name,
            ),
            models(self.ground.brokers),
        );
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return false;
        };
        topic.fit.begin_anew();
        match Fitting::resume(config, publishers, states, models, placed) {
            Ok(fitting) => {
                topic.fit.fitting = Some(Box::new(fitting));
                true
            }
            Err(error) => {
                self.no_fit(name, error.to_string());
                false
            }
        }
    }

    fn no_fit(&mut self, name: &str, why: String) {
        if let Some(topic) = self.ground.topics.get_mut(name) {
            topic.fit.phase = Phase::Idle;
            topic.fit.text.clone_from(&why);
        }
        self.ground.out.tell("problem", Some(name), None, why);
    }

    /// Reports show a violation that no mean rate explains: a search begins with a short window, or the window of one under
    /// way becomes one. Whether one was begun, or a window opened.
    pub(in crate::core) fn refit_now(&mut self, name: &str, now: Instant) -> bool {
        let is_over_limit = over_limit(self.ground.topics, self.ground.brokers, name).is_some();
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return false;
        };
        let has_moves = topic.has_moves();
        let fit = &mut topic.fit;
        if fit.is_short() || is_over_limit {
            return false;
        }
        if let Phase::Due(at) = &mut fit.phase {
            *at = now;
            fit.is_urgent = true;
            return false;
        }
        if matches!(fit.phase, Phase::Settling { .. }) && fit.is_newcomer() {
            fit.is_urgent = true;
            return false;
        }
        if fit.is_under_way() {
            let is_long = matches!(&fit.phase, Phase::Measuring(open) if open.ends_after(now + URGENT_WINDOW));
            let is_new = is_long && !std::mem::replace(&mut fit.is_urgent, true);
            if is_new {
                self.open_window(name, now);
            }
            return is_new;
        }
        let is_resting = fit.urgent_at.is_some_and(|at| now - at < URGENT_REST);
        if is_resting || matches!(fit.phase, Phase::Idle) || has_moves {
            return false;
        }
        let placed = topic.placed();
        if self.begin_search(name, &placed)
            && let Some(topic) = self.ground.topics.get_mut(name)
        {
            topic.fit.urgent_at = Some(now);
            topic.fit.is_urgent = true;
            self.open_window(name, now);
        }
        true
    }

    /// A search that ran out of brokers goes on with what was recorded then: nothing is measured before publishers move.
    pub(super) fn resume_fit(&mut self, name: &str, mut recorded: Box<Recorded>) {
        recorded
            .windows
            .resize_with(self.ground.brokers.len(), Default::default);
        if !self.begin_search(name, &recorded.placed) {
            return;
        }
        let text = String::from("there is room again: the fit goes on");
        self.ground.out.tell("fit", Some(name), None, text);
        self.compute(name, recorded);
    }

    fn fit_question(&self, name: &str) -> Option<(FitConfig, Vec<placement::Publisher>)> {
        let topic = self.ground.topics.get(name)?;
        let slo = topic.spec.slo?;
        let config = FitConfig {
            policy: topic.spec.policy,
            mode: topic.spec.fit,
            percentile: slo.percentile,
            slo_us: slo.latency_us,
            band: self.ground.rules.settings.band,
            limit: topic
                .spec
                .contract
                .limit
                .map(|limit| (limit.rate, limit.burst)),
        };
        Some((config, as_publishers(&topic.publishers)))
    }

    /// Hands a window to the search under way.
    pub(super) fn compute(&mut self, name: &str, recorded: Box<Recorded>) {
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        let Some(mut fitting) = topic.fit.fitting.take() else {
            return;
        };
        if topic.spec.infer_groups {
            let publishers = as_publishers(&topic.publishers);
            let groups: Vec<_> = publishers.iter().map(|publisher| publisher.group).collect();
            fitting.regroup(&groups);
        }
        topic.fit.phase = Phase::Computing;
        self.ground.out.push(Effect::Fit(Box::new(FitJob {
            topic: name.to_owned(),
            generation: topic.fit.generation,
            fitting,
            recorded,
        })));
    }

    /// Does what the search asks for.
    fn take_step(&mut self, name: &str, step: Step, now: Instant) {
        if self.is_outdated(name, &step) {
            return self.distributor().publishers_changed(name, now);
        }
        let Some(topic) = self.ground.topics.get_mut(name) else {
            return;
        };
        topic.fit.status = topic
            .fit
            .fitting
            .as_ref()
            .map(|fitting| fitting.status().clone());
        topic.fit.phase = Phase::Settling {
            since: now,
            quiet_since: None,
        };
        self.ground.due.fits.insert(name);
        match step {
            Step::Measure(broker_of) => {
                if broker_of.iter().all(Option::is_some) {
                    topic.fit.outcome = Outcome::None;
                    topic.fit.text.clear();
                }
                if self.distributor().assign(name, &broker_of, now) {
                    self.placed_otherwise(name);
                }
            }
            Step::Done(broker_of) => {
                topic.fit.outcome = Outcome::Fitted;
                topic.fit.text.clear();
                topic.fit.fitting = None;
                let broker_of: Vec<_> = broker_of.into_iter().map(Some).collect();
                self.distributor().assign(name, &broker_of, now);
                self.ground.out.tell(
                    "fit",
                    Some(name),
                    None,
                    String::from("fitted: the promise is kept"),
                );
            }
            Step::OutOfBrokers { best, missing, why } => {
                topic.fit.fitting = None;
                if let Some(why) = over_limit(self.ground.topics, self.ground.brokers, name) {
                    return self.beyond_limit(name, why);
                }
                if self.distributor().assign(name, &best, now) {
                    self.placed_otherwise(name);
                }
                out_of_brokers(self.ground.topics, self.ground.out, name, why);
                self.ground.out.push(Effect::Spawn {
                    topic: name.to_owned(),
                    missing,
                });
            }
        }
    }

    /// Whether publishers would go to a broker that takes none any more: it did when the search began, which knows no better. Nobody would
    /// place them elsewhere, for who was there was placed elsewhere before.
    fn is_outdated(&self, name: &str, step: &Step) -> bool {
        let Some(topic) = self.ground.topics.get(name) else {
            return false;
        };
        let asked: Vec<Option<BrokerIndex>> = match step {
            Step::Measure(broker_of) => broker_of.clone(),
            Step::Done(broker_of) => broker_of.iter().copied().map(Some).collect(),
            Step::OutOfBrokers { best, .. } => best.clone(),
        };
        let rows = topic.publishers.rows().iter().zip(asked);
        let mut moved = rows.filter_map(|(row, asked)| {
            let BrokerIndex(number) = asked?;
            (row.broker != Some(number)).then_some(number)
        });
        moved.any(|number| !self.ground.brokers[number].takes_publishers())
    }

    /// What was measured of the topic was measured elsewhere.
    fn placed_otherwise(&mut self, name: &str) {
        if let Some(topic) = self.ground.topics.get_mut(name) {
            topic.fit.last.clear();
        }
    }

    /// Reports show no violation of a topic any more: whether its promise is kept, the next window says.
    pub(in crate::core) fn violation_passed(&mut self, name: &str, now: Instant) {
        let is_short = |topic: &Topic| topic.fit.outcome == Outcome::Short;
        if self.ground.topics.get(name).is_some_and(is_short) {
            self.disturb_fit(name, true, now);
        }
    }
}

/// Says that a topic needs more than there is.
pub(in crate::core) fn out_of_brokers(
    topics: &mut Topics,
    out: &mut Outbox,
    name: &str,
    why: String,
) {
    let Some(topic) = topics.get_mut(name) else {
        return;
    };
    topic.fit.outcome = Outcome::OutOfBrokers;
    if topic.fit.text != why {
        topic.fit.text.clone_from(&why);
        out.tell("out-of-brokers", Some(name), None, why);
    }
}

/// All brokers together carry less than is sent to one that a promised topic is on.
pub(in crate::core) fn short_of_capacity(
    topics: &mut Topics,
    out: &mut Outbox,
    name: &str,
    why: &str,
) {
    let Some(topic) = topics.get_mut(name) else {
        return;
    };
    let is_new = topic.fit.outcome != Outcome::Short;
    topic.fit.outcome = Outcome::Short;
    why.clone_into(&mut topic.fit.text);
    if is_new {
        out.tell("out-of-brokers", Some(name), None, why.to_owned());
    }
}

fn models(brokers: &Brokers) -> Vec<ServiceModel> {
    brokers
        .iter()
        .map(|broker| broker.model.unwrap_or_default())
        .collect()
}
