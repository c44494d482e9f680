//! The paper's findings as predicates over results.
//!
//! A finding is a sentence of the paper's evaluation, not one of its numbers: the testbed differs.
//! Each comes with the figures that it was judged by, medians over repeats. Findings that depend on
//! two runs being equal are judged with [`NOISE`].

mod concentration;
mod convergence;
mod correlation;
mod max_min;
mod penalty;
#[cfg(test)]
mod tests;

use super::summary::{Point, Summary};
use super::table::{brokers, figures};
use crate::experiment::{Spread, Verdict};

/// Part by which a median over repeats may be on the wrong side.
pub(crate) const NOISE: f64 = 0.05;

/// Holds the panels of a figure, as letters and summaries, against the paper's findings. Findings about panels or
/// points that are missing are left out; so is everything about a figure that is not the paper's.
#[must_use]
pub fn check(figure: &str, panels: &[(&str, &Summary)]) -> Vec<Verdict> {
    let mut verdicts = Verdicts {
        figure,
        panel: "",
        list: Vec::new(),
    };
    for &(panel, summary) in panels {
        verdicts.panel = panel;
        match (figure, panel) {
            ("fig6", "a") => penalty::at_low_load(summary, &mut verdicts),
            ("fig6", "b") => penalty::at_high_load(summary, &mut verdicts),
            ("fig7", _) => concentration::panel(summary, &mut verdicts),
            ("fig8", _) => max_min::panel(panel, summary, &mut verdicts),
            ("fig9", _) => correlation::own_number(summary, &mut verdicts),
            ("fig10", _) => correlation::same_number(summary, &mut verdicts),
            ("fig11", _) => correlation::imprecise(summary, &mut verdicts),
            ("table1", _) => convergence::table(summary, &mut verdicts),
            _ => {}
        }
    }
    verdicts.panel = "";
    let of = |letter: &str| panels.iter().find(|(panel, _)| *panel == letter);
    for (single, batched) in [("a", "b"), ("c", "d")] {
        let (Some(single), Some(batched)) = (of(single), of(batched)) else {
            continue;
        };
        match figure {
            "fig7" => concentration::batches(*single, *batched, &mut verdicts),
            "fig8" => max_min::batches(*single, *batched, &mut verdicts),
            _ => {}
        }
    }
    verdicts.list
}

/// Verdicts as they are found.
struct Verdicts<'a> {
    figure: &'a str,
    panel: &'a str,
    list: Vec<Verdict>,
}

impl Verdicts<'_> {
    fn add(&mut self, finding: &'static str, holds: bool, figures: String) {
        self.list.push(Verdict {
            experiment: format!("{}{}", self.figure, self.panel),
            finding,
            holds,
            figures,
        });
    }

    /// A finding that must appear at every one of the points; left out where there is none.
    fn add_all(&mut self, finding: &'static str, points: &[(bool, String)]) {
        if points.is_empty() {
            return;
        }
        let failing: Vec<&str> = points
            .iter()
            .filter(|(holds, _)| !holds)
            .map(|(_, figures)| figures.as_str())
            .collect();
        let holds = failing.is_empty();
        let figures = if holds {
            let all: Vec<&str> = points.iter().map(|(_, figures)| figures.as_str()).collect();
            all.join("; ")
        } else {
            format!(
                "not at {} of {}: {}",
                failing.len(),
                points.len(),
                failing.join("; ")
            )
        };
        self.add(finding, holds, figures);
    }
}

/// `1.50 ms (3)`: the worst broker's p99 and the number of brokers.
fn judged(point: &Point) -> String {
    format!("{} ({})", ms(point.worst_p99_us), brokers(point))
}

fn ms(us: Spread) -> String {
    format!("{} ms", figures(us.median / 1e3))
}

fn keeps_promise(point: &Point) -> bool {
    point.worst_p99_us.median <= point.slo_us
}

/// Both series' points at every x that both have.
fn pairs<'a>(summary: &'a Summary, one: &'a str, other: &'a str) -> Vec<(&'a Point, &'a Point)> {
    let both = |point: &'a Point| Some((point, summary.at(other, point.x)?));
    summary.curve(one).filter_map(both).collect()
}

/// Curves of two panels at every x that both have.
fn across<'a>(
    one: &'a Summary,
    other: &'a Summary,
    series: &'a str,
) -> Vec<(&'a Point, &'a Point)> {
    let both = |point: &'a Point| Some((point, other.at(series, point.x)?));
    one.curve(series).filter_map(both).collect()
}
