//! `GET /v1/tasks`: how topics fare as tasks of the reactors that spend time on them.
//!
//! A topic has a task at its home, the reactor that owns it, and one on every other reactor that
//! has publishers of it. Each reactor divides its own time.
//!
//! Times are whole microseconds. The answer shows a topic's CPU share and what it used, how long it
//! waited, whether it keeps to its credits (conformance) and whether it empties its queue
//! (stability). The theory is in docs/kernel.md.

use axum::extract::State;
use axum::response::Response;
use http::nsq::{Failure, json};
use http::rendered;
use kernel::{Shares, TaskStats};
use serde::Serialize;

use super::Shared;
use crate::reactor::{TaskReport, TaskRow};

/// The whole answer.
#[derive(Serialize)]
struct Document {
    /// T: what shares are fractions of.
    period_us: u64,
    /// Times that credits were given out anew, on all reactors.
    periods: u64,
    reactors: Vec<Reactor>,
    tasks: Vec<Task>,
}

/// The time that one reactor divides, and who got it.
#[derive(Serialize)]
struct Reactor {
    reactor: usize,
    periods: u64,
    /// Time that it was neither waiting for something to do nor resting.
    busy_us: u64,
    /// Of that, what the tasks that are there have been charged with.
    used_us: u64,
    /// The sum of what topics declare, 0 to 1.
    declared: f64,
}

#[derive(Serialize)]
struct Task {
    /// `null`: connections that belong to no topic, and topics for which the reactor has no task.
    topic: Option<String>,
    reactor: usize,
    /// The reactor owns the topic.
    home: bool,
    #[serde(with = "link::cpu_share")]
    cpu_share: Option<kernel::CpuShare>,
    allotment_us: u64,
    queued_events: usize,
    served_events: u64,
    turns: u64,
    used_us: u64,
    sojourn_us: u64,
    waited_us: u64,
    wait_max_us: u64,
    overruns: u64,
    overrun_max_us: u64,
    unstable: bool,
    unstable_spells: u64,
    full: u64,
}

/// Renders one snapshot.
pub(super) async fn tasks(State(service): Shared) -> Result<Response, Failure> {
    let reports = service.handle.tasks().await?;
    Ok(rendered(move || json(&document(reports))).await)
}

fn document(reports: Vec<TaskReport>) -> Document {
    // All reactors have one setting.
    let period_us = reports.first().map_or(0, |report| us(report.period));
    let periods = reports.iter().map(|report| report.periods).sum();
    let reactors = reports.iter().enumerate().map(reactor).collect();
    let numbered = reports.into_iter().enumerate();
    let mut tasks: Vec<Task> = numbered
        .flat_map(|(reactor, report)| report.tasks.into_iter().map(move |row| task(reactor, row)))
        .collect();
    tasks.sort_by(|a, b| (&a.topic, a.reactor).cmp(&(&b.topic, b.reactor)));
    Document {
        period_us,
        periods,
        reactors,
        tasks,
    }
}

fn reactor((reactor, report): (usize, &TaskReport)) -> Reactor {
    let stats = || report.tasks.iter().map(|row| &row.stats);
    let mut declared = Shares::default();
    for share in stats().filter_map(|stats| stats.share) {
        // The scheduler has seen to it that they fit.
        let _ = declared.add(Some(share));
    }
    Reactor {
        reactor,
        periods: report.periods,
        busy_us: us(report.busy),
        used_us: us(stats().map(|stats| stats.used).sum()),
        declared: declared.declared(),
    }
}

fn task(reactor: usize, row: TaskRow) -> Task {
    let TaskStats {
        share,
        allotment,
        queued_events,
        served_events,
        turns,
        used,
        overruns,
        overrun_max,
        wait_max,
        waited,
        sojourn,
        is_unstable,
        unstable_spells,
        full,
        ..
    } = row.stats;
    Task {
        topic: row.topic,
        reactor,
        home: row.is_home,
        cpu_share: share,
        allotment_us: us(allotment),
        queued_events,
        served_events,
        turns,
        used_us: us(used),
        sojourn_us: us(sojourn),
        waited_us: us(waited),
        wait_max_us: us(wait_max),
        overruns,
        overrun_max_us: us(overrun_max),
        unstable: is_unstable,
        unstable_spells,
        full,
    }
}

fn us(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, to_value};

    use super::*;

    #[test]
    fn reports_of_reactors_become_one_document() {
        let row = |topic: Option<&str>, share| TaskRow {
            topic: topic.map(str::to_owned),
            is_home: topic == Some("t"),
            stats: TaskStats {
                share,
                used: Duration::from_nanos(1_999),
                overruns: 3,
                is_unstable: share.is_some(),
                ..TaskStats::default()
            },
        };
        let report = |tasks| TaskReport {
            period: Duration::from_millis(10),
            periods: 4,
            busy: Duration::from_micros(7),
            tasks,
        };
        let share = kernel::CpuShare::new(0.25).ok();
        let first = report(vec![row(Some("t"), share), row(None, None)]);
        let second = report(vec![row(None, None), row(Some("a"), None)]);
        let document = to_value(document(vec![first, second])).expect("plain");
        assert_eq!(
            (&document["period_us"], &document["periods"]),
            (&10_000.into(), &8.into())
        );
        let reactors = serde_json::json!([
            {"reactor": 0, "periods": 4, "busy_us": 7, "used_us": 3, "declared": 0.25},
            {"reactor": 1, "periods": 4, "busy_us": 7, "used_us": 3, "declared": 0.0},
        ]);
        assert_eq!(document["reactors"], reactors);
        let tasks = document["tasks"].as_array().expect("a list");
        let places: Vec<_> = tasks
            .iter()
            .map(|task| (&task["topic"], &task["reactor"]))
            .collect();
        let (a, t, zero, one) = ("a".into(), "t".into(), 0.into(), 1.into());
        assert_eq!(
            places,
            [
                (&Value::Null, &zero),
                (&Value::Null, &one),
                (&a, &one),
                (&t, &zero)
            ]
        );
        let limited = &tasks[3];
        assert_eq!(
            (&limited["home"], &tasks[2]["home"]),
            (&true.into(), &false.into())
        );
        assert_eq!(limited["cpu_share"], 0.25);
        assert_eq!(
            (&limited["used_us"], &limited["unstable"]),
            (&1.into(), &true.into())
        );
        assert!(tasks[2]["cpu_share"].is_null() && tasks[2]["unstable"] == false);
    }
}
