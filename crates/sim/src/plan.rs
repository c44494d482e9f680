//! The planner: the fewest brokers for a promise, the expected latencies, the cost of splitting,
//! and what-if questions.
//!
//! Publishers are placed by [`crate::fit`]; the placement is then measured on several independent
//! runs of traffic, whose spread gives the confidence interval. A fit knows only the arrivals of
//! its windows: where the promise breaks on others, brokers are added until it holds in the mean.
//! Every number of brokers is tried as well, to show why the planner concentrates: with fewer the
//! promise breaks, with more messages wait longer for tokens.

mod choose;
mod estimate;
mod picture;
mod text;
mod what_if;

use limit::theory::{Batches, Which};
use limit::{Burst, Rate};
use placement::{BrokerIndex, Policy};
use serde::Serialize;

use crate::{Measured, Scene, SimError, measure, parallel};
use choose::{Chosen, choose};
pub use estimate::Estimate;
pub use picture::{PictureError, picture};
pub use what_if::{Answer, UnknownWhatIf, WhatIf};

/// How thoroughly it is planned.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Independent runs of every configuration, at least 2 for an interval.
    pub repeats: u32,
    /// Threads.
    pub jobs: usize,
    /// Further questions.
    pub what_ifs: Vec<WhatIf>,
}

/// The planner's result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Publishers of the load.
    pub publishers: usize,
    /// Messages per second of the load.
    pub messages_per_second: f64,
    /// The limit in messages per second, the spec's or the one that fits the load; `None`: unlimited.
    pub rate: Option<f64>,
    /// Its burst in messages.
    pub burst: Option<f64>,
    /// The largest burst that fits the arrivals of any of the runs; the burst itself where the spec says one.
    pub burst_most: Option<f64>,
    /// The promise in microseconds.
    pub slo_us: f64,
    /// The percentile that it is for.
    pub percentile: f64,
    /// How publishers are distributed.
    pub policy: Policy,
    /// Brokers used.
    pub k: usize,
    /// Brokers that a fit on the arrivals of its windows uses; fewer than `k` where that breaks the promise on others.
    pub k_fitted: usize,
    /// Brokers there are.
    pub brokers: usize,
    /// Whether the promise is kept.
    pub met: bool,
    /// If not: messages per second that fit nowhere.
    pub missing: f64,
    /// Latency at the percentile of the promise at the worst broker, in microseconds.
    pub worst: Estimate,
    /// The same over all messages.
    pub all: Estimate,
    /// By broker that is used.
    pub placement: Vec<PlannedBroker>,
    /// Every number of brokers.
    pub by_k: Vec<ByK>,
    /// Why this many.
    pub why: Vec<String>,
    /// Answers to the further questions.
    pub what_ifs: Vec<Answer>,
    /// Profiling windows that the fit takes live.
    pub fit_windows: u32,
}

/// One broker of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedBroker {
    /// Its number, from 1.
    pub broker: u32,
    /// Publishers placed there.
    pub publishers: usize,
    /// Their messages per second.
    pub messages_per_second: f64,
    /// Messages per second of other topics.
    pub load: f64,
    /// Latency at the percentile of the promise, in microseconds.
    pub latency: Estimate,
}

/// A topic spread over this many brokers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByK {
    /// Brokers.
    pub k: usize,
    /// Latency at the percentile of the promise at the worst broker, in microseconds.
    pub worst: Estimate,
    /// Part of the messages that wait for tokens, 0 to 1.
    pub delayed: f64,
    /// The DRL penalty: mean time that messages wait for tokens beyond their service, in microseconds.
    pub access_delay: Estimate,
    /// The same mean wait by theory, where the load is one that it speaks of: independent Poisson publishers.
    pub access_delay_by_theory_us: Option<f64>,
    /// Whether the promise is kept there, by the mean of the runs.
    pub met: bool,
}

/// Plans. `done` is called after each simulated run.
///
/// # Errors
/// [`SimError`] where the scene or a question makes no sense; an unmet promise is no error.
pub fn plan(
    scene: &Scene,
    options: &PlanOptions,
    done: impl Fn() + Sync,
) -> Result<Plan, SimError> {
    let repeats = repeats(scene, options)?;
    let chosen = choose(scene, &repeats, options, &done)?;
    let by_k = all_k(scene, &repeats, options, &done)?;
    let what_ifs = options.what_ifs.iter();
    let what_ifs = what_ifs
        .map(|what_if| what_if::answer((scene, &repeats), &chosen, *what_if, options, &done))
        .collect::<Result<_, _>>()?;
    let limit = scene.limit();
    let mut plan = Plan {
        publishers: scene.publishers().len(),
        messages_per_second: scene.publishers().iter().map(|each| each.rate.get()).sum(),
        rate: limit.map(|(rate, _): (Rate, Burst)| rate.get()),
        burst: limit.map(|(_, burst)| burst.get()),
        burst_most: burst_most(&repeats),
        slo_us: scene.slo_us(),
        percentile: scene.spec().topic.percentile,
        policy: scene.policy(),
        k: used(&chosen.broker_of),
        k_fitted: chosen.k_fitted,
        brokers: scene.brokers().len(),
        met: chosen.met,
        missing: chosen.missing,
        worst: worst(&chosen.runs),
        all: all(&chosen.runs),
        placement: placement(scene, &chosen),
        by_k,
        why: Vec::new(),
        what_ifs,
        fit_windows: chosen.windows,
    };
    plan.why = text::why(&plan);
    Ok(plan)
}

/// The scene with the arrivals of each independent run.
fn repeats(scene: &Scene, options: &PlanOptions) -> Result<Vec<Scene>, SimError> {
    (0..options.repeats.max(1))
        .map(|repeat| scene.repeat(repeat))
        .collect()
}

/// The largest burst of any of them.
fn burst_most(repeats: &[Scene]) -> Option<f64> {
    let bursts = repeats.iter().filter_map(Scene::limit);
    bursts.map(|(_, burst)| burst.get()).reduce(f64::max)
}

/// One placement on each of the repeats.
fn runs(
    repeats: &[Scene],
    broker_of: &[Option<BrokerIndex>],
    options: &PlanOptions,
    done: &(impl Fn() + Sync),
) -> Result<Vec<Measured>, SimError> {
    let run = |scene: &Scene| measure(scene, broker_of);
    let runs = parallel::map(options.jobs, repeats, run, done);
    runs.into_iter().collect()
}

fn all_k(
    scene: &Scene,
    repeats: &[Scene],
    options: &PlanOptions,
    done: &(impl Fn() + Sync),
) -> Result<Vec<ByK>, SimError> {
    let theory = scene.theory();
    let each = 1..=scene.brokers().len();
    each.map(|k| {
        let broker_of = scene.only(k);
        let runs = runs(repeats, &broker_of, options, done)?;
        let worst = worst(&runs);
        let messages: u64 = runs.iter().map(|run| run.all.messages).sum();
        let delayed: u64 = runs.iter().map(|run| run.all.delayed).sum();
        let waits = runs.iter().map(|run| run.all.access_delay_us);
        let theory = theory
            .as_ref()
            .and_then(|one| one.split(k as u32, Batches::Whole).ok());
        Ok(ByK {
            k,
            access_delay_by_theory_us: theory.map(|split| split.mean_s(Which::Any) * 1e6),
            met: worst.mean <= scene.slo_us(),
            worst,
            delayed: delayed as f64 / messages.max(1) as f64,
            access_delay: Estimate::of(waits),
        })
    })
    .collect()
}

fn placement(scene: &Scene, chosen: &Chosen) -> Vec<PlannedBroker> {
    let of_broker = |broker: u32| {
        let is_here = |place: &Option<BrokerIndex>| place.is_some_and(|place| place.0 == broker);
        let here = chosen.broker_of.iter().zip(scene.publishers());
        let here: Vec<f64> = here
            .filter(|(place, _)| is_here(place))
            .map(|(_, publisher)| publisher.rate.get())
            .collect();
        let latencies = chosen
            .runs
            .iter()
            .filter_map(|run| run.brokers[broker as usize].latency.as_ref())
            .map(|latency| latency.slo_us);
        PlannedBroker {
            broker: broker + 1,
            publishers: here.len(),
            messages_per_second: here.iter().sum(),
            load: scene.brokers()[broker as usize].load,
            latency: Estimate::of(latencies),
        }
    };
    let brokers = 0..scene.brokers().len() as u32;
    let planned = brokers.map(of_broker);
    planned.filter(|broker| broker.publishers > 0).collect()
}

fn worst(runs: &[Measured]) -> Estimate {
    Estimate::of(runs.iter().map(Measured::worst_us))
}

fn all(runs: &[Measured]) -> Estimate {
    Estimate::of(runs.iter().map(|run| run.all.slo_us))
}

fn used(broker_of: &[Option<BrokerIndex>]) -> usize {
    let mut brokers: Vec<u32> = broker_of.iter().flatten().map(|broker| broker.0).collect();
    brokers.sort_unstable();
    brokers.dedup();
    brokers.len()
}
