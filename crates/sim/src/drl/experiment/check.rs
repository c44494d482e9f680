//! The paper's findings as predicates over records.
//!
//! A finding is a sentence of DRL's evaluation, not one of its numbers: machines, TCP and links
//! differ. Each comes with the figures that it was judged by, medians over rounds unless stated
//! otherwise. The tolerance of each finding is a constant that was chosen before the first run.

mod few;
mod many;

use super::record::Record;
use crate::experiment::{Spread, Verdict};

/// Part by which a rate over a whole run may miss the limit.
const NEAR: f64 = 0.02;

/// The same where there are many limiters, or something goes wrong.
const NEAR_MANY: f64 = 0.05;

/// What two medians of Jain's index may differ by and count as equal.
const JAIN_NOISE: f64 = 0.01;

/// Part that two medians of rates may differ by and count as equal.
const RATE_NOISE: f64 = 0.1;

/// Holds the records of an experiment against the paper's findings. Findings about series that are missing are left
/// out; so is everything about an experiment that is not the paper's.
#[must_use]
pub fn check(kind: &str, records: &[Record]) -> Vec<Verdict> {
    let mut findings = Findings {
        kind,
        records,
        list: Vec::new(),
    };
    match kind {
        "drl-baseline" => few::baseline(&mut findings),
        "drl-join" => few::join(&mut findings),
        "drl-web" => few::web(&mut findings),
        "drl-bottleneck" => few::bottleneck(&mut findings),
        "drl-rtt" => few::round_trips(&mut findings),
        "drl-flows" => many::flows(&mut findings),
        "drl-limiters" => many::limiters(&mut findings),
        "drl-service" => many::service(&mut findings),
        "drl-updates" => many::updates(&mut findings),
        "drl-cut" => many::cut(&mut findings),
        _ => {}
    }
    findings.list
}

/// Findings as they are judged.
struct Findings<'a> {
    kind: &'a str,
    records: &'a [Record],
    list: Vec<Verdict>,
}

impl<'a> Findings<'a> {
    fn add(&mut self, finding: &'static str, holds: bool, figures: String) {
        self.list.push(Verdict {
            experiment: self.kind.to_owned(),
            finding,
            holds,
            figures,
        });
    }

    /// A figure of a series' runs; `None` without any.
    fn spread(&self, series: &str, figure: impl Fn(&Record) -> f64) -> Option<Spread> {
        self.spread_where(|record| record.series == series, figure)
    }

    fn spread_where(
        &self,
        is_meant: impl Fn(&Record) -> bool,
        figure: impl Fn(&Record) -> f64,
    ) -> Option<Spread> {
        let meant = self.records.iter().filter(|record| is_meant(record));
        let figures: Vec<f64> = meant.map(figure).collect();
        (!figures.is_empty()).then(|| Spread::of(&figures))
    }

    /// Judges medians of two series.
    fn compare(
        &mut self,
        finding: &'static str,
        figure: impl Fn(&Record) -> f64,
        (one, other): (&str, &str),
        holds: impl Fn(f64, f64) -> bool,
    ) {
        let both = (self.spread(one, &figure), self.spread(other, &figure));
        let (Some(first), Some(second)) = both else {
            return;
        };
        let figures = format!("{one} {:.3}, {other} {:.3}", first.median, second.median);
        self.add(finding, holds(first.median, second.median), figures);
    }

    /// The series, in their order.
    fn series(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for record in self.records {
            if !names.contains(&record.series.as_str()) {
                names.push(&record.series);
            }
        }
        names
    }

    /// The first of two sites has three tenths, within 5 % of all.
    fn three_to_seven(&mut self, finding: &'static str, series: &str) {
        let part = self.spread(series, |run| {
            let mbps = &run.result.limiter_mbps;
            mbps.first().copied().unwrap_or(0.0) / mbps.iter().sum::<f64>().max(1e-9)
        });
        if let Some(part) = part {
            let figures = format!(
                "{:.3} ({:.3}..{:.3}) of it",
                part.median, part.least, part.greatest
            );
            self.add(finding, (part.median - 0.3).abs() <= 0.05, figures);
        }
    }

    /// Every series forwards the limit in the mean, within `part` of it.
    fn limit_holds(&mut self, finding: &'static str, part: f64) {
        let mut holds = true;
        let mut figures = Vec::new();
        for series in self.series() {
            let rates = |record: &Record| record.result.forwarded_mbps_1s;
            let ratio = self.spread(series, |run| rates(run).mean / run.workload.limit_mbps);
            let least = self.spread(series, |run| rates(run).min);
            let most = self.spread(series, |run| rates(run).max);
            let (Some(ratio), Some(least), Some(most)) = (ratio, least, most) else {
                continue;
            };
            holds &= (ratio.median - 1.0).abs() <= part;
            figures.push(format!(
                "{series} {:.1} % (seconds {:.2}..{:.2} Mbps)",
                100.0 * ratio.median,
                least.least,
                most.greatest
            ));
        }
        self.add(finding, holds, figures.join(", "));
    }
}

fn jain(record: &Record) -> f64 {
    record.result.jain.unwrap_or(1.0)
}

/// Whether `value` is within `part` of `wanted`.
fn is_near(value: f64, wanted: f64, part: f64) -> bool {
    (value - wanted).abs() <= part * wanted.abs()
}
