//! A summary as a table for people.

use std::fmt::Write;

use super::definition::Panel;
use super::summary::{Point, Summary};

/// One line per x and series: brokers, latencies, and what the fit took.
#[must_use]
pub fn table(experiment: &Panel, summary: &Summary) -> String {
    let widest = |name: &str| name.chars().count();
    let name_width = experiment.series.iter().map(|s| widest(&s.name)).max();
    let name_width = name_width.unwrap_or(0).max("series".len());
    let label = &experiment.x.label;
    let x_width = widest(label).max(6);
    let mut text = format!(
        "{label:>x_width$}  {:name_width$}  brokers  p50 ms  p95 ms  p99 ms  worst broker's p99 ms  kept\n",
        "series"
    );
    for point in &summary.points {
        let ms = |us: f64| figures(us / 1e3);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>x_width$}  {:name_width$}  {:>7}  {:>6}  {:>6}  {:>6}  {:>12} ± {:<6}  {:>3.0} %{}",
            point.x,
            point.series,
            brokers(point),
            ms(point.p50_us.mean),
            ms(point.p95_us.mean),
            ms(point.p99_us.mean),
            ms(point.worst_p99_us.mean),
            ms(point.worst_p99_us.deviation),
            100.0 * point.met,
            fit(point),
        );
    }
    text
}

/// A number with as many digits as say something.
pub(super) fn figures(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// `4`, or `3.6 (3-4)` where repeats differ.
pub(super) fn brokers(point: &Point) -> String {
    if point.k.least == point.k.greatest {
        format!("{}", point.k.least)
    } else {
        format!(
            "{:.1} ({}-{})",
            point.k.mean, point.k.least, point.k.greatest
        )
    }
}

fn fit(point: &Point) -> String {
    if point.windows.mean == 0.0 {
        return String::new();
    }
    let rounds: Vec<String> = point.rounds.iter().map(|r| format!("{r:.1}")).collect();
    format!(
        "  fit: {:.0} s, windows {}",
        point.fit_seconds.mean,
        rounds.join(" + ")
    )
}
