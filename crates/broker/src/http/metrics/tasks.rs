//! Tasks of topics, under the names that their topics have on the page.

use std::collections::BTreeMap;

use kernel::TaskStats;

use super::summed::{OTHER, Summed};
use crate::reactor::TaskReport;

/// The figures shown of the reactors' tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// By topic, `other` for those that are summed up; the empty name stands for what belongs to no topic.
    pub(super) by_topic: BTreeMap<String, TaskStats>,
    /// Periods begun, by reactor.
    pub(super) periods: Vec<u64>,
}

/// Sums up the tasks of topics that `summed` has no series for, and those of no topic over all reactors.
pub(super) fn sum_up_tasks(reports: Vec<TaskReport>, summed: &Summed) -> Tasks {
    let kept: std::collections::BTreeSet<&str> = summed
        .topics
        .iter()
        .map(|topic| topic.topic.as_str())
        .collect();
    let mut tasks = Tasks::default();
    for report in reports {
        tasks.periods.push(report.periods);
        for row in report.tasks {
            let name = match row.topic {
                None => String::new(),
                Some(topic) if kept.contains(topic.as_str()) => topic,
                Some(_) if kept.contains(OTHER) => OTHER.to_owned(),
                // It was made after the topics were counted.
                Some(_) => continue,
            };
            let is_sum = name.is_empty() || summed.is_sum(&name);
            let known = tasks.by_topic.entry(name);
            let sum = known.or_insert_with(|| TaskStats {
                // Shares of several topics are not those of one.
                share: row.stats.share.filter(|_| !is_sum),
                ..TaskStats::default()
            });
            add(sum, &row.stats);
        }
    }
    tasks
}

fn add(sum: &mut TaskStats, more: &TaskStats) {
    sum.queued_events += more.queued_events;
    sum.served_events += more.served_events;
    sum.turns += more.turns;
    sum.used += more.used;
    sum.waited += more.waited;
    sum.sojourn += more.sojourn;
    sum.wait_max = sum.wait_max.max(more.wait_max);
    sum.overruns += more.overruns;
    sum.overrun_max = sum.overrun_max.max(more.overrun_max);
    sum.is_unstable |= more.is_unstable;
    sum.unstable_spells += more.unstable_spells;
    sum.full += more.full;
}
