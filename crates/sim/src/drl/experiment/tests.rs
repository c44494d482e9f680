//! Definitions, the runs that follow from them, and findings judged on altered records.

use super::*;
use crate::experiment::{Experiment, RunOptions, Verdict};
use crate::parallel;

const SMALL: &str = r#"
[experiment]
repeats = 2
warmup_s = 2

[[figure]]
name = "drl-made-up"
title = "Two sites"
paper = "none"

[[series]]
name = "CTB"
policy = "ctb"

[[series]]
name = "GRD"
policy = "grd"

[[series]]
name = "FPS"
policy = "fps"

[[series]]
name = "CRD"
policy = "crd"

[scenario]
limiters = 2
duration_s = 6

[[traffic]]
kind = "bulk"
site = 0
flows = 3

[[traffic]]
kind = "bulk"
site = 1
flows = [2, 4]

[[traffic]]
kind = "web"
site = 1
per_second = 4
"#;

fn small() -> Study {
    parsed("drl-made-up", SMALL)
}

fn parsed(kind: &str, text: &str) -> Study {
    match Study::parse(kind, text) {
        Ok(experiment) => experiment,
        Err(error) => panic!("{error}"),
    }
}

fn options(jobs: usize) -> RunOptions {
    RunOptions {
        seed: None,
        repeats: None,
        jobs,
        fresh: false,
        quick: false,
    }
}

/// The records under these options, without any file.
fn made(study: &Study, options: &RunOptions) -> Vec<Record> {
    let run = |cell: &usize| match study.run(cell, &[], options) {
        Ok(records) => records,
        Err(error) => panic!("{error}"),
    };
    let made = parallel::map(options.jobs, &study.cells(options), run, || ());
    let mut records: Vec<Record> = made.into_iter().flatten().collect();
    records.sort_by_key(|record| study.position(record, options));
    records
}

fn records(study: &Study, jobs: usize) -> Vec<Record> {
    made(study, &options(jobs))
}

#[test]
fn what_is_built_in_has_every_figure_and_table() {
    let Ok(experiments) = built_in() else {
        panic!("{:?}", built_in().err());
    };
    let figures = experiments
        .iter()
        .flat_map(|experiment| &experiment.figures);
    let names: Vec<&str> = figures.map(|figure| figure.name.as_str()).collect();
    for name in [
        "drl-fig3",
        "drl-fig4",
        "drl-fig5",
        "drl-fig6",
        "drl-fig7",
        "drl-fig8",
        "drl-fig9",
        "drl-table1",
        "drl-table2",
        "drl-flows",
        "drl-robust",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}

#[test]
fn errors_name_the_line() {
    let wrong = [
        ("repeats = 2", "repeats = 0", "line 3: repeats"),
        ("warmup_s = 2", "warmup_s = -1", "line 4: warmup_s"),
        ("limiters = 2", "limiter = 2", "unknown field `limiter`"),
        ("limiters = 2", "limiters = 0", "line 27"),
        ("policy = \"grd\"", "policy = \"gdr\"", "line 15"),
        ("name = \"GRD\"", "name = \"CTB\"", "no other series"),
        ("site = 0", "site = 2", "there are 2 limiters"),
        ("kind = \"web\"", "kind = \"wbe\"", "unknown variant `wbe`"),
        ("per_second = 4", "per_second = 0", "web.per_s is 0"),
        ("per_second = 4", "clients = 4", "per_second"),
        (
            "policy = \"fps\"",
            "policy = \"fps\"\nset = { \"updates.los\" = 0.1 }",
            "line 19: FPS: unknown field `los`",
        ),
    ];
    for (right, instead, said) in wrong {
        let text = SMALL.replacen(right, instead, 1);
        let found = Study::parse("drl-made-up", &text);
        let error = found.map_or_else(|error| error.to_string(), |_| "no error".to_owned());
        assert!(
            error.contains(said) && error.starts_with("drl-made-up.toml, line "),
            "{instead}: {error}"
        );
    }
}

#[test]
fn records_depend_on_the_seed_alone() {
    let experiment = small();
    let lines = |records: &[Record]| serde_json::to_string(records).expect("plain values");
    let one = records(&experiment, 1);
    assert_eq!(one.len(), 8);
    assert_eq!(lines(&one), lines(&records(&experiment, 3)));
    let options = RunOptions {
        seed: Some(2),
        ..options(2)
    };
    let other = made(&experiment, &options);
    assert!(
        one.iter()
            .zip(&other)
            .all(|(a, b)| a.result.hash != b.result.hash)
    );
    assert!(other[0].command.ends_with("--seed 2"));
}

#[test]
fn series_have_the_same_traffic_and_rounds_have_not() {
    let records = records(&small(), 2);
    let flows = |series: &str, round: u32| {
        let of = |record: &&Record| record.series == series && record.round == round;
        records.iter().find(of).map(|record| record.result.flows)
    };
    for round in [1, 2] {
        for series in ["GRD", "FPS", "CRD"] {
            assert_eq!(flows(series, round), flows("CTB", round));
        }
    }
    for record in &records {
        let (work, result) = (&record.workload, &record.result);
        assert_eq!(work.sites, 2);
        let is_central = ["ctb", "crd"].contains(&record.peer.as_str());
        assert_eq!(work.limiters, if is_central { 1 } else { 2 });
        assert_eq!(result.flows_never_served, 0);
        assert!((5..=7).contains(&result.flows));
        let whole = result.forwarded.mbps(0.0, 6.0);
        assert!((6.0..=11.0).contains(&whole), "{}: {whole}", record.series);
        // Payload by part is all the payload.
        let parts = result.goodput.mbps(2.0, 6.0);
        assert!(
            (parts - result.goodput_mbps).abs() < 1e-5,
            "{}: {parts}",
            record.series
        );
        let web = result
            .downloads
            .as_ref()
            .map_or(0, |downloads| downloads.whole);
        assert!(web > 0, "{}", record.series);
    }
}

#[test]
fn clients_fetch_one_object_after_the_other() {
    let text = SMALL.replace(
        "kind = \"web\"\nsite = 1\nper_second = 4",
        "kind = \"sessions\"\nsite = \"all\"\nclients = 2\nstop_s = 4",
    );
    let experiment = parsed("drl-made-up", &text);
    for record in records(&experiment, 2) {
        let sessions = &record.result.goodput.bytes[2];
        // Buckets begin empty, and a lost SYN is repeated after a second. What is not finished is broken off.
        assert!(
            sessions[1..4].iter().all(|&bytes| bytes > 0),
            "{sessions:?}"
        );
        assert_eq!(sessions[5], 0, "{sessions:?}");
    }
}

#[test]
fn rates_are_of_whole_steps() {
    let steps = Steps {
        bin_s: 0.5,
        bytes: vec![vec![125_000, 250_000, 0, 125_000], vec![0, 0, 125_000, 0]],
    };
    assert_eq!(steps.series_mbps(0, 0.0, 1.0), 3.0);
    assert_eq!(steps.series_mbps(0, 0.5, 1.5), 2.0);
    assert_eq!(steps.series_mbps(7, 0.0, 1.0), 0.0);
    assert_eq!(steps.mbps(1.0, 2.0), 2.0);
    // What is beyond the end counts as nothing.
    assert_eq!(steps.series_mbps(0, 1.5, 2.5), 1.0);
}

fn verdict(kind: &str, records: &[Record], beginning: &str) -> Verdict {
    let verdicts = check(kind, records);
    let found = verdicts
        .iter()
        .find(|one| one.finding.starts_with(beginning));
    match found {
        Some(verdict) => verdict.clone(),
        None => panic!("nothing that begins {beginning:?}: {verdicts:?}"),
    }
}

#[test]
fn findings_follow_the_records() {
    let mut records = records(&small(), 2);
    for record in &mut records {
        record.result.forwarded_mbps_1s.mean = 10.1;
        record.result.jain = Some(0.97);
    }
    let limit = "every policy forwards the limit";
    assert!(verdict("drl-baseline", &records, limit).holds);
    let fair = "FPS is at least as fair";
    assert!(verdict("drl-baseline", &records, fair).holds);
    for record in &mut records {
        if record.series == "FPS" {
            record.result.forwarded_mbps_1s.mean = 10.3;
            record.result.jain = Some(0.95);
        }
    }
    let broken = verdict("drl-baseline", &records, limit);
    assert!(
        !broken.holds && broken.figures.contains("FPS 103.0 %"),
        "{broken:?}"
    );
    assert!(!verdict("drl-baseline", &records, fair).holds);
    assert!(check("drl-made-up", &records).is_empty());
    records.retain(|record| record.series != "FPS");
    let of_fps = |verdict: &Verdict| verdict.finding.starts_with("FPS");
    assert!(!check("drl-baseline", &records).iter().any(of_fps));
}
