//! Findings judged on made-up rows.

use super::*;
use crate::figures::row::Row;

/// A row of one run; what is not given is of no importance.
fn row(series: &str, x: f64, k: usize, p99_ms: f64) -> Row {
    Row {
        experiment: "made-up".into(),
        panel: "a".into(),
        series: series.into(),
        x,
        repeat: 1,
        seed: 1,
        k,
        met: p99_ms <= 1.0,
        fitted: None,
        slo_us: 1_000.0,
        p50_us: 200.0,
        p95_us: 400.0,
        p99_us: p99_ms * 1e3,
        worst_p99_us: p99_ms * 1e3,
        rate: 11_000.0,
        burst: 50.0,
        windows: 0,
        fit_seconds: 0.0,
        rounds: Vec::new(),
        messages: 1_000,
        delayed: 0,
        brokers: Vec::new(),
        hash: String::new(),
        quick: false,
    }
}

/// Series, x, brokers, p99 in milliseconds.
type Given<'a> = &'a [(&'a str, f64, usize, f64)];

fn summary(given: Given<'_>) -> Summary {
    let rows: Vec<Row> = given
        .iter()
        .map(|&(series, x, k, p99_ms)| row(series, x, k, p99_ms))
        .collect();
    Summary::of(&rows)
}

/// What holds of one panel, in the order of the findings.
fn held(figure: &str, panel: &str, given: Given<'_>) -> Vec<bool> {
    let summary = summary(given);
    let verdicts = check(figure, &[(panel, &summary)]);
    assert!(verdicts.iter().all(|verdict| !verdict.figures.is_empty()));
    verdicts.iter().map(|verdict| verdict.holds).collect()
}

#[test]
fn a_penalty_grows_with_brokers_or_does_not() {
    let grows: Given<'_> = &[("e", 1.0, 1, 0.3), ("e", 2.0, 2, 0.8), ("e", 3.0, 3, 2.0)];
    let within_noise: Given<'_> = &[("e", 1.0, 1, 0.3), ("e", 2.0, 2, 0.29), ("e", 3.0, 3, 0.4)];
    let falls: Given<'_> = &[("e", 1.0, 1, 0.3), ("e", 2.0, 2, 0.2), ("e", 3.0, 3, 0.4)];
    assert_eq!(held("fig6", "a", grows), [true]);
    assert_eq!(held("fig6", "a", within_noise), [true]);
    assert_eq!(held("fig6", "a", falls), [false]);
    let dips: Given<'_> = &[("e", 1.0, 1, 90.0), ("e", 2.0, 2, 0.4), ("e", 3.0, 3, 0.6)];
    assert_eq!(held("fig6", "b", dips), [true, true]);
    assert_eq!(held("fig6", "b", grows), [false, true]);
    let no_rise: Given<'_> = &[("e", 1.0, 1, 90.0), ("e", 2.0, 2, 0.4), ("e", 3.0, 3, 0.3)];
    assert_eq!(held("fig6", "b", no_rise), [true, false]);
}

#[test]
fn concentration_keeps_what_load_balancing_breaks() {
    let as_in_the_paper: Given<'_> = &[
        ("LB", 1e3, 6, 14.0),
        ("Conc", 1e3, 1, 0.4),
        ("LB", 2e3, 6, 5.0),
        ("Conc", 2e3, 2, 0.9),
    ];
    assert_eq!(held("fig7", "a", as_in_the_paper), [true; 4]);
    let the_other_way: Given<'_> = &[
        ("LB", 1e3, 6, 0.3),
        ("Conc", 1e3, 1, 1.4),
        ("LB", 2e3, 6, 0.5),
        ("Conc", 2e3, 2, 1.9),
    ];
    assert_eq!(held("fig7", "a", the_other_way), [false; 4]);
}

#[test]
fn batches_are_judged_across_panels() {
    let single = summary(&[("LB", 1e3, 6, 2.0), ("Conc", 1e3, 1, 0.5)]);
    let batched = summary(&[("LB", 1e3, 6, 9.0), ("Conc", 1e3, 1, 0.6)]);
    let last = |panels: &[(&str, &Summary)]| check("fig7", panels).pop();
    let worse = last(&[("a", &single), ("b", &batched)]).expect("a verdict across panels");
    assert!(worse.holds && worse.experiment == "fig7", "{worse:?}");
    let better = last(&[("c", &batched), ("d", &single)]).expect("a verdict across panels");
    assert!(!better.holds, "{better:?}");
    let alone = check("fig7", &[("a", &single)]);
    assert!(alone.iter().all(|verdict| verdict.experiment == "fig7a"));
}

#[test]
fn max_min_is_no_worse_than_conc() {
    let as_in_the_paper: Given<'_> = &[
        ("Conc", 4e3, 1, 0.60),
        ("Max-Min", 4e3, 1, 0.60),
        ("Conc", 8e3, 3, 1.50),
        ("Max-Min", 8e3, 3, 0.87),
    ];
    assert_eq!(held("fig8", "a", as_in_the_paper), [true; 3]);
    let recovering: Given<'_> = &[
        ("Conc", 8e3, 2, 1.2),
        ("Max-Min", 8e3, 2, 0.8),
        ("Conc", 1e4, 2, 0.9),
        ("Max-Min", 1e4, 2, 0.8),
    ];
    assert_eq!(held("fig8", "b", recovering), [true, true]);
    let worse: Given<'_> = &[
        ("Conc", 4e3, 1, 0.60),
        ("Max-Min", 4e3, 1, 0.70),
        ("Conc", 8e3, 3, 0.87),
        ("Max-Min", 8e3, 3, 1.50),
    ];
    assert_eq!(held("fig8", "a", worse), [false; 3]);
}

#[test]
fn groups_call_for_brokers_that_only_srtm_can_use() {
    let as_in_the_paper: Given<'_> = &[
        ("SRTM", 5.0, 1, 0.6),
        ("Max-Min", 5.0, 1, 0.6),
        ("SRTM", 30.0, 6, 0.9),
        ("Max-Min", 30.0, 4, 2.5),
    ];
    assert_eq!(held("fig9", "a", as_in_the_paper), [true; 3]);
    let neither: Given<'_> = &[("SRTM", 30.0, 6, 1.9), ("Max-Min", 30.0, 6, 0.9)];
    assert_eq!(held("fig9", "a", neither), [false; 3]);
    let forced: Given<'_> = &[
        ("SRTM", 30.0, 6, 0.9),
        ("Max-Min as SRTM", 30.0, 6, 4.0),
        ("Max-Min", 30.0, 4, 2.5),
    ];
    assert_eq!(held("fig10", "a", forced), [true, true]);
    let unharmed: Given<'_> = &[
        ("SRTM", 30.0, 6, 0.9),
        ("Max-Min as SRTM", 30.0, 6, 0.8),
        ("Max-Min", 30.0, 4, 2.5),
    ];
    assert_eq!(held("fig10", "a", unharmed), [false, false]);
    let fading: Given<'_> = &[
        ("SRTM", 0.0, 5, 0.9),
        ("Max-Min", 0.0, 4, 2.2),
        ("SRTM", 16.0, 1, 0.5),
        ("Max-Min", 16.0, 1, 0.5),
    ];
    assert_eq!(held("fig11", "a", fading), [true; 4]);
}

#[test]
fn fits_take_longer_for_larger_groups() {
    let fit = |series: &str, x: f64, k: usize, windows: u32| Row {
        windows,
        fit_seconds: 60.0 * f64::from(windows),
        rounds: vec![windows],
        ..row(series, x, k, 0.9)
    };
    let as_in_the_paper = Summary::of(&[
        fit("measure", 5.0, 1, 1),
        fit("measure", 15.0, 3, 9),
        fit("measure", 30.0, 6, 17),
        fit("replay", 30.0, 6, 2),
    ]);
    let verdicts = check("table1", &[("a", &as_in_the_paper)]);
    assert_eq!(verdicts.len(), 4);
    assert!(verdicts.iter().all(|verdict| verdict.holds), "{verdicts:?}");
    let flat = Summary::of(&[
        fit("measure", 5.0, 2, 9),
        fit("measure", 30.0, 5, 3),
        fit("replay", 30.0, 6, 5),
    ]);
    let verdicts = check("table1", &[("a", &flat)]);
    assert!(
        verdicts.iter().all(|verdict| !verdict.holds),
        "{verdicts:?}"
    );
}

#[test]
fn other_figures_and_missing_points_are_left_out() {
    let some = summary(&[("mine", 1.0, 1, 1.0)]);
    for figure in [
        "mine", "fig6", "fig7", "fig8", "fig9", "fig10", "fig11", "table1",
    ] {
        for panel in ["a", "b", "", "z"] {
            assert!(
                check(figure, &[(panel, &some)]).len() <= 1,
                "{figure}{panel}"
            );
            assert!(check(figure, &[(panel, &Summary::default())]).is_empty());
        }
    }
}
