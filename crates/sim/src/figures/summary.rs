//! Rows aggregated over repeats: what a picture shows and a finding is judged by.

use super::row::Row;
use crate::experiment::Spread;

/// An experiment's rows by series and x.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// In the order of the rows: by x, then by series.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The curve.
    pub series: String,
    /// Value on the x-axis.
    pub x: f64,
    /// Repeats.
    pub runs: usize,
    /// Median latency of all messages, in microseconds.
    pub p50_us: Spread,
    /// 95th percentile of all messages, in microseconds.
    pub p95_us: Spread,
    /// 99th percentile of all messages, in microseconds.
    pub p99_us: Spread,
    /// 99th percentile at the worst broker, in microseconds.
    pub worst_p99_us: Spread,
    /// Brokers.
    pub k: Spread,
    /// Part of the runs that kept the promise, 0 to 1.
    pub met: f64,
    /// The promise, in microseconds.
    pub slo_us: f64,
    /// Windows of the fit.
    pub windows: Spread,
    /// Seconds of the fit.
    pub fit_seconds: Spread,
    /// Windows of each iteration, in the mean over the runs that had one.
    pub rounds: Vec<f64>,
}

impl Summary {
    /// Aggregates the rows of one experiment.
    #[must_use]
    pub fn of(rows: &[Row]) -> Summary {
        let mut keys: Vec<(f64, &str)> = Vec::new();
        for row in rows {
            let key = (row.x, row.series.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let point = |&(x, series): &(f64, &str)| {
            let of_point = |row: &&Row| row.x == x && row.series == series;
            Point::of(&rows.iter().filter(of_point).collect::<Vec<_>>())
        };
        Summary {
            points: keys.iter().map(point).collect(),
        }
    }

    /// The curve of a series, by x.
    pub fn curve<'a>(&'a self, series: &'a str) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(move |p| p.series == series)
    }

    /// One point.
    #[must_use]
    pub fn at(&self, series: &str, x: f64) -> Option<&Point> {
        self.points.iter().find(|p| p.series == series && p.x == x)
    }
}

impl Point {
    fn of(rows: &[&Row]) -> Point {
        let spread = |value: fn(&Row) -> f64| {
            Spread::of(&rows.iter().map(|row| value(row)).collect::<Vec<_>>())
        };
        let iterations = rows.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
        let rounds = |iteration: usize| {
            let of_each = rows.iter().filter_map(|row| row.rounds.get(iteration));
            let all: Vec<f64> = of_each.map(|&rounds| f64::from(rounds)).collect();
            Spread::of(&all).mean
        };
        Point {
            series: rows.first().map_or(String::new(), |row| row.series.clone()),
            x: rows.first().map_or(0.0, |row| row.x),
            runs: rows.len(),
            p50_us: spread(|row| row.p50_us),
            p95_us: spread(|row| row.p95_us),
            p99_us: spread(|row| row.p99_us),
            worst_p99_us: spread(|row| row.worst_p99_us),
            k: spread(|row| row.k as f64),
            met: spread(|row| f64::from(u8::from(row.met))).mean,
            slo_us: rows.first().map_or(0.0, |row| row.slo_us),
            windows: spread(|row| f64::from(row.windows)),
            fit_seconds: spread(|row| row.fit_seconds),
            rounds: (0..iterations).map(rounds).collect(),
        }
    }
}
