//! Many flows, many limiters, and failures between them (DRL, sections 5.6 and 5.7).

use super::{Findings, JAIN_NOISE, NEAR, NEAR_MANY, is_near, jain};
use crate::drl::experiment::record::Record;

/// Part by which the paper's own rates miss the limit with 5,000 flows (46, 51, 53 of 50 Mbps).
const NEAR_FLOWS: f64 = 0.08;

/// The number of limiters from which on GRD fails in the paper.
const GRD_FAILS_ABOVE: f64 = 50.0;

/// Section 5.6, 5,000 flows.
pub(super) fn flows(findings: &mut Findings<'_>) {
    findings.limit_holds(
        "every policy forwards about the limit (8 %, as the paper's)",
        NEAR_FLOWS,
    );
    for (finding, series) in [
        ("GRD is about as fair as CTB, or fairer", "GRD"),
        ("FPS is about as fair as CTB, or fairer", "FPS"),
    ] {
        findings.compare(finding, jain, (series, "CTB"), |one, ctb| {
            one >= ctb - NEAR_MANY
        });
    }
    findings.three_to_seven("CTB divides about 3 to 7", "CTB");
    findings.three_to_seven("GRD divides about 3 to 7", "GRD");
    findings.three_to_seven("FPS divides about 3 to 7", "FPS");
}

/// Figure 8.
pub(super) fn limiters(findings: &mut Findings<'_>) {
    let numbers = values(findings);
    let Some(&most) = numbers.last() else { return };
    for (finding, series) in [
        (
            "FPS with br 3 delivers the limit at every number of limiters, within 5 %",
            "FPS br 3",
        ),
        (
            "FPS with br 3 at intervals of 500 ms delivers the limit, within 5 %",
            "FPS br 3, 500 ms",
        ),
    ] {
        holds_at_all(findings, finding, series, &numbers, |part| {
            is_near(part, 1.0, NEAR_MANY)
        });
    }
    let beyond: Vec<f64> = numbers
        .iter()
        .copied()
        .filter(|&number| number > GRD_FAILS_ABOVE)
        .collect();
    for (finding, series) in [
        (
            "beyond 50 limiters GRD fails to limit the rate (5 % above it)",
            "GRD br 3",
        ),
        ("a greater branching factor does not help GRD", "GRD br 7"),
    ] {
        holds_at_all(findings, finding, series, &beyond, |part| {
            part > 1.0 + NEAR_MANY
        });
    }
    at_the_most(most, findings);
}

/// Branching factors, fairness and control traffic at the greatest number of limiters.
fn at_the_most(most: f64, findings: &mut Findings<'_>) {
    let at_most =
        |series: &'static str| move |run: &Record| run.series == series && run.value == Some(most);
    for (finding, figure, near) in [
        (
            "beyond br 3 there is little benefit in utilisation (2 %)",
            part_of_limit as fn(&Record) -> f64,
            NEAR,
        ),
        (
            "beyond br 3 there is little benefit in fairness (0.02)",
            jain,
            2.0 * JAIN_NOISE,
        ),
    ] {
        let three = findings.spread_where(at_most("FPS br 3"), figure);
        let seven = findings.spread_where(at_most("FPS br 7"), figure);
        if let (Some(three), Some(seven)) = (three, seven) {
            let (three, seven) = (three.median, seven.median);
            let figures = format!("at {most}: br 3 {three:.3}, br 7 {seven:.3}");
            findings.add(finding, seven - three <= near, figures);
        }
    }
    if let (Some(fps), Some(ctb)) = (
        findings.spread_where(at_most("FPS br 3"), jain),
        findings.spread_where(at_most("CTB"), jain),
    ) {
        let figures = format!("at {most}: {:.3} against {:.3}", fps.median, ctb.median);
        let holds = fps.median >= ctb.median - JAIN_NOISE;
        findings.add(
            "FPS is at least as fair as a central token bucket",
            holds,
            figures,
        );
    }
    let control = findings.spread_where(at_most("FPS br 3"), |run| {
        run.result.control.limiter_bytes_per_s
    });
    if let Some(control) = control {
        let per_s = control.median;
        let figures = format!("{per_s:.0} bytes/s, {:.1} kbit/s", per_s * 8e-3);
        let holds = is_near(per_s, 48.0 * 20.0 * 3.0, NEAR);
        findings.add(
            "with br 3 a limiter sends 48 · 20 · 3 bytes per second",
            holds,
            figures,
        );
    }
}

fn part_of_limit(run: &Record) -> f64 {
    run.result.forwarded_mbps_1s.mean / run.workload.limit_mbps
}

/// What was varied, ascending.
fn values(findings: &Findings<'_>) -> Vec<f64> {
    let mut values: Vec<f64> = findings
        .records
        .iter()
        .filter_map(|run| run.value)
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Judges the part of the limit that is forwarded, at each of `values`.
fn holds_at_all(
    findings: &mut Findings<'_>,
    finding: &'static str,
    series: &str,
    values: &[f64],
    holds: impl Fn(f64) -> bool,
) {
    let mut is_so = true;
    let mut figures = Vec::new();
    for &value in values {
        let is_meant = |run: &Record| run.series == series && run.value == Some(value);
        if let Some(part) = findings.spread_where(is_meant, part_of_limit) {
            is_so &= holds(part.median);
            figures.push(format!("{value}: {:.1} %", 100.0 * part.median));
        }
    }
    if !figures.is_empty() {
        findings.add(finding, is_so, figures.join(", "));
    }
}

/// Figure 9. A phase counts from its fifth second on.
pub(super) fn service(findings: &mut Findings<'_>) {
    let phase = |from_s: f64| {
        move |run: &Record| {
            run.result.forwarded.mbps(from_s + 5.0, from_s + 30.0) / run.workload.limit_mbps
        }
    };
    let parts = |findings: &Findings<'_>, series: &str, from_s: f64| {
        findings
            .spread(series, phase(from_s))
            .map(|part| part.median)
    };
    for (finding, series, from_s, least, most) in [
        (
            "static: four sites get no more than four tenths",
            "static",
            30.0,
            0.0,
            0.42,
        ),
        (
            "FPS delivers the limit to ten sites, within 5 %",
            "FPS",
            0.0,
            0.95,
            1.05,
        ),
        (
            "FPS delivers the limit to four sites, within 5 %",
            "FPS",
            30.0,
            0.95,
            1.05,
        ),
        (
            "FPS delivers the limit to ten sites again, within 5 %",
            "FPS",
            60.0,
            0.95,
            1.05,
        ),
        (
            "FPS delivers the limit to four sites again, within 5 %",
            "FPS",
            90.0,
            0.95,
            1.05,
        ),
    ] {
        if let Some(part) = parts(findings, series, from_s) {
            let figures = format!("{:.1} % of the limit", 100.0 * part);
            findings.add(finding, (least..=most).contains(&part), figures);
        }
    }
}

/// Ours: what updates may suffer.
pub(super) fn updates(findings: &mut Findings<'_>) {
    for series in findings.series() {
        for key in ["updates.loss", "updates.reordered", "updates.delay_ms"] {
            let of_key = |run: &&Record| run.series == series && run.varied.as_deref() == Some(key);
            let mut values: Vec<f64> = findings
                .records
                .iter()
                .filter(of_key)
                .filter_map(|run| run.value)
                .collect();
            values.dedup();
            let mut holds = true;
            let mut figures = Vec::new();
            for value in values {
                let is_meant = |run: &Record| of_key(&run) && run.value == Some(value);
                let part = findings.spread_where(is_meant, part_of_limit);
                let fairness = findings.spread_where(is_meant, jain);
                if let (Some(part), Some(fairness)) = (part, fairness) {
                    holds &= is_near(part.median, 1.0, NEAR_MANY);
                    let percent = 100.0 * part.median;
                    figures.push(format!(
                        "{value}: {percent:.1} %, Jain {:.3}",
                        fairness.median
                    ));
                }
            }
            let finding = match key {
                "updates.loss" => "loss of up to a fifth leaves the rate within 5 %",
                "updates.reordered" => "reordering of up to a fifth leaves the rate within 5 %",
                _ => "delay of up to half a second leaves the rate within 5 %",
            };
            if !figures.is_empty() {
                let figures = format!("{series}: {}", figures.join("; "));
                findings.add(finding, holds, figures);
            }
        }
    }
}

/// Ours: two halves that cannot hear each other from 20 s to 40 s, the second with flows from 25 s on.
pub(super) fn cut(findings: &mut Findings<'_>) {
    const LIMIT_TO: f64 = 1.0 + NEAR;
    let sites = |run: &Record, sites: std::ops::Range<usize>, from_s: f64, to_s: f64| -> f64 {
        let mbps = sites.map(|site| run.result.forwarded.series_mbps(site, from_s, to_s));
        mbps.sum::<f64>() / run.workload.limit_mbps
    };
    for series in findings.series() {
        let part = |findings: &Findings<'_>, of: std::ops::Range<usize>, from_s, to_s| {
            findings
                .spread(series, |run| sites(run, of.clone(), from_s, to_s))
                .map_or(0.0, |part| 100.0 * part.median)
        };
        let before = part(findings, 0..5, 12.0, 20.0);
        let first = part(findings, 0..5, 22.0, 25.0);
        let both = part(findings, 0..10, 30.0, 40.0);
        let second = part(findings, 5..10, 30.0, 40.0);
        let healed = part(findings, 0..10, 45.0, 60.0);
        let (least, most) = (100.0 * (1.0 - NEAR_MANY), 100.0 * LIMIT_TO);
        findings.add(
            "a half that is cut off has half of the limit, and both have no more than the limit",
            first <= most / 2.0 && both <= most && second <= most / 2.0,
            format!(
                "{series}: first half {before:.1} % before, {first:.1} % cut off; then both {both:.1} %, the second {second:.1} %"
            ),
        );
        findings.add(
            "5 s after healing both have the limit, within 5 %",
            (least..=200.0 - least).contains(&healed),
            format!("{series}: {healed:.1} %"),
        );
    }
}
