//! Works off an experiment on several threads; the records do not depend on who was first.

use limit::sharing::Policy;

use super::definition::{Experiment, Place, Planned};
use super::measure::{Keep, measured};
use super::record::{Record, Workload};
use crate::drl::scenario::Reach;
use crate::experiment::ExperimentError;
use crate::parallel;

/// Values of a varied key that a quick run takes.
const QUICK_VALUES: usize = 2;

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Seed instead of the definition's.
    pub seed: Option<u64>,
    /// Repeats instead of the definition's.
    pub repeats: Option<u32>,
    /// Threads, at least 1.
    pub jobs: usize,
    /// Only the first values of what is varied.
    pub quick: bool,
}

impl Experiment {
    /// Runs in all.
    #[must_use]
    pub fn runs(&self, options: &RunOptions) -> usize {
        self.chosen(options).len()
    }

    fn chosen(&self, options: &RunOptions) -> Vec<Place<'_>> {
        let rounds = options.repeats.unwrap_or(self.repeats).max(1);
        let values = if options.quick {
            QUICK_VALUES
        } else {
            usize::MAX
        };
        self.places(rounds, values)
    }
}

/// Runs an experiment: by varied value, series and round. `done` is called after each run, on its thread.
///
/// # Errors
/// The first [`ExperimentError`] in that order.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    done: impl Fn() + Sync,
) -> Result<Vec<Record>, ExperimentError> {
    let mut places = experiment.chosen(options);
    // What costs most is last and begins first: so threads end together.
    places.reverse();
    let seed = options.seed.unwrap_or(experiment.seed);
    let run = |place: &Place<'_>| run_place(experiment, place, seed);
    let records = parallel::map(options.jobs, &places, run, done);
    records.into_iter().rev().collect()
}

fn run_place(
    experiment: &Experiment,
    place: &Place<'_>,
    base: u64,
) -> Result<Record, ExperimentError> {
    let planned = experiment.planned(place, base)?;
    let outcome = crate::drl::run(&planned.scenario).map_err(|source| ExperimentError::Run {
        run: format!(
            "{}, {}, repeat {}",
            experiment.kind, place.series.name, place.round
        ),
        source,
    })?;
    let keep = Keep {
        warmup_s: experiment.warmup_s,
        step_s: experiment.record_ms / 1e3,
    };
    let seeded = match base == experiment.seed {
        true => String::new(),
        false => format!(" --seed {base}"),
    };
    Ok(Record {
        kind: experiment.kind.clone(),
        peer: place.series.policy.clone(),
        series: place.series.name.clone(),
        varied: place.vary.map(|(vary, _)| vary.key.clone()),
        value: place.vary.map(|(_, value)| value),
        round: place.round,
        at_s: 0,
        command: format!("srtm experiment {}{seeded}", experiment.kind),
        workload: workload(experiment, place, &planned),
        result: measured(&planned, &experiment.traffic, &outcome, keep),
    })
}

fn workload(experiment: &Experiment, place: &Place<'_>, planned: &Planned) -> Workload {
    let scenario = &planned.scenario;
    let limiters = planned.deciding();
    let others = limiters.saturating_sub(1).max(1);
    let updates = scenario.updates;
    Workload {
        policy: place.series.policy.clone(),
        sites: planned.sites,
        limiters,
        limit_mbps: scenario.limit_mbps,
        depth_bytes: scenario.depth_bytes,
        seconds: scenario.duration_s,
        warmup_s: experiment.warmup_s,
        interval_ms: scenario.estimate_interval_ms,
        ewma: scenario.ewma_1s,
        branching: match updates.reach {
            Reach::Random(branches) => u32::from(branches).min(others),
            Reach::Mesh | Reach::Oracle => others,
        },
        gossip: (updates.reach == Reach::Oracle).then_some("memory"),
        gossip_delay_ms: updates.delay_ms,
        gossip_loss: updates.loss,
        gossip_reordered: updates.reordered,
        cuts: scenario.cuts.clone(),
        link_mbps: scenario.link_mbps,
        stagger_s: experiment.stagger_ms / 1e3,
        seed: scenario.seed,
        traffic: experiment.traffic.clone(),
    }
}

impl Planned {
    /// Limiters that decide on packets of their own.
    pub(super) fn deciding(&self) -> u32 {
        match self.scenario.policy {
            Policy::Ctb => 1,
            _ => self.scenario.limiters,
        }
    }
}
