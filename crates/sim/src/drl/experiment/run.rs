//! A run of a study and its result.

use limit::sharing::Policy;

use super::definition::{Place, Planned, Study};
use super::measure::{Keep, measured};
use super::record::{Record, Workload};
use crate::drl::scenario::Reach;
use crate::experiment::{Experiment, ExperimentError, RunOptions};

/// Values of a varied key that a quick run takes.
const QUICK_VALUES: usize = 2;

impl Experiment for Study {
    /// Number of a run, in the order of the file.
    type Cell = usize;
    type Record = Record;

    fn name(&self) -> &str {
        &self.kind
    }

    fn definition(&self) -> (&str, u64) {
        (&self.text, self.seed)
    }

    fn cells(&self, options: &RunOptions) -> Vec<usize> {
        // What costs most is last.
        (0..self.chosen(options).len()).rev().collect()
    }

    fn runs_of_cell(&self) -> usize {
        1
    }

    fn is_of(&self, cell: &usize, record: &Record, options: &RunOptions) -> bool {
        self.position(record, options) == Some(*cell)
    }

    fn position(&self, record: &Record, options: &RunOptions) -> Option<usize> {
        let rounds = self.rounds(options);
        let varied = self.varied(values(options));
        let varied = varied.iter().position(|varied| {
            let key_and_value = varied.map(|(vary, value)| (vary.key.as_str(), value));
            key_and_value == record.varied.as_deref().zip(record.value)
        })?;
        let mut series = self.series.iter();
        let series = series.position(|series| series.name == record.series)?;
        let is_of_it = record.kind == self.kind && (1..=rounds).contains(&record.round);
        let point = varied * self.series.len() + series;
        is_of_it.then_some(point * rounds as usize + record.round as usize - 1)
    }

    fn run(
        &self,
        cell: &usize,
        _there: &[Record],
        options: &RunOptions,
    ) -> Result<Vec<Record>, ExperimentError> {
        let seed = options.seed.unwrap_or(self.seed);
        let chosen = self.chosen(options);
        let place = chosen.get(*cell);
        let record = place
            .map(|place| run_place(self, place, seed))
            .transpose()?;
        Ok(record.into_iter().collect())
    }
}

impl Study {
    fn chosen(&self, options: &RunOptions) -> Vec<Place<'_>> {
        self.places(self.rounds(options), values(options))
    }

    fn rounds(&self, options: &RunOptions) -> u32 {
        options.repeats.unwrap_or(self.repeats).max(1)
    }
}

/// How many values of each varied key are taken.
fn values(options: &RunOptions) -> usize {
    if options.quick {
        QUICK_VALUES
    } else {
        usize::MAX
    }
}

fn run_place(experiment: &Study, place: &Place<'_>, base: u64) -> Result<Record, ExperimentError> {
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

fn workload(experiment: &Study, place: &Place<'_>, planned: &Planned) -> Workload {
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
        gossip: (updates.reach == Reach::Oracle).then(|| "memory".to_owned()),
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
