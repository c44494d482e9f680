//! Records as a table for people.

use std::fmt::Write;

use super::definition::Study;
use super::record::Record;
use crate::experiment::Spread;

/// One line per varied value and series: rates of all limiters together, how they vary, fairness, drops.
#[must_use]
pub fn table(experiment: &Study, records: &[Record]) -> String {
    let names = experiment
        .series
        .iter()
        .map(|series| series.name.chars().count());
    let width = names.max().unwrap_or(0).max("series".len());
    let key_width = records
        .iter()
        .filter_map(|record| record.varied.as_ref().map(String::len))
        .max()
        .map_or(0, |longest| longest + 7);
    let mut text = format!(
        "{:key_width$}  {:width$}  runs  Mbps   1 s least..most  1 s dev.  100 ms dev.  goodput  Jain (least..most)    drops\n",
        "", "series"
    );
    for runs in groups(records) {
        let Some(first) = runs.first() else { continue };
        let of = |figure: fn(&Record) -> f64| {
            Spread::of(&runs.iter().map(|run| figure(run)).collect::<Vec<_>>())
        };
        let varied = match (&first.varied, first.value) {
            (Some(key), Some(value)) => format!("{key} {value}"),
            _ => String::new(),
        };
        let jains: Vec<f64> = runs.iter().filter_map(|run| run.result.jain).collect();
        let jain = Spread::of(&jains);
        let fairness = if jains.is_empty() {
            "-".to_owned()
        } else {
            format!(
                "{:.3} ({:.3}..{:.3})",
                jain.median, jain.least, jain.greatest
            )
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{varied:key_width$}  {:width$}  {:>4}  {:>5.2}  {:>6.2}..{:<7.2}  {:>8.3}  {:>11.3}  {:>7.2}  {:21}  {:.0}",
            first.series,
            runs.len(),
            of(|run| run.result.forwarded_mbps_1s.mean).mean,
            of(|run| run.result.forwarded_mbps_1s.min).least,
            of(|run| run.result.forwarded_mbps_1s.max).greatest,
            of(|run| run.result.forwarded_mbps_1s.deviation).mean,
            of(|run| run.result.forwarded_mbps_100ms.deviation).mean,
            of(|run| run.result.goodput_mbps).mean,
            fairness,
            of(|run| run.result.dropped_packets as f64).mean,
        );
    }
    text
}

/// Runs that differ by their round alone, in the order of the records.
pub(super) fn groups(records: &[Record]) -> Vec<Vec<&Record>> {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    let alike = |one: &Record, other: &Record| {
        one.series == other.series && one.varied == other.varied && one.value == other.value
    };
    for record in records {
        let group = groups.iter_mut().find(|group| {
            let first = group.first();
            first.is_some_and(|first| alike(first, record))
        });
        match group {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups
}
