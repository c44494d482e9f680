//! Definitions, files of results and the runner.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::experiment::{ExperimentError, Progress, Results, RunOptions, run_experiment, seeds};

/// A small experiment: line numbers count from the line after the quote.
const SMALL: &str = r#"seed = 7
warmup = "100ms"
duration = "400ms"
[experiment]
title = "a small one"
paper = "none"
repeats = 2
profile_windows = 3
[x]
label = "publishers"
key = "publishers.count"
values = [20, 40]
[[series]]
name = "LB"
brokers = "all"
set = { "topic.policy" = "lb" }
[[series]]
name = "one"
brokers = "as LB"
set = { "topic.policy" = "max-min" }
[[panel]]
name = "a"
title = "Poisson"
set = { "publishers.arrivals" = "poisson" }
[[panel]]
name = "b"
title = "periodic"
set = { "publishers.arrivals" = "periodic" }
[[publishers]]
count = 20
rate = 50
[topic]
window = "1s"
[cluster]
brokers = 2
mcap = 10000
"#;

/// A folder of its own for a test, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let name = format!("srtm-experiment-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn results(&self) -> Results {
        Results::new(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn small() -> Figure {
    Figure::parse("small", SMALL).expect("the small experiment")
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

fn run(folder: &Folder, options: &RunOptions) -> Result<Vec<Row>, ExperimentError> {
    run_experiment(&small().panels[0], &folder.results(), options, |_| ())
}

#[test]
fn a_definition_becomes_panels_with_specs() {
    let figure = small();
    let names: Vec<&str> = figure.panels.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["smalla", "smallb"]);
    let panel = &figure.panels[1];
    assert_eq!(panel.series[1].brokers, Brokers::As(0));
    let spec = panel.spec(40.0, &panel.series[0], 99).expect("a spec");
    assert_eq!((spec.publishers[0].count, spec.seed), (40, 99));
    assert_eq!(spec.publishers[0].arrivals, workload::Pattern::Periodic);
    assert_eq!(spec.topic.policy, "lb");
}

#[test]
fn mistakes_are_named_with_their_line() {
    let cases: &[(&str, &str, usize, &str)] = &[
        // What is replaced, by what, the line, part of the text.
        ("repeats = 2", "repeats = 0", 7, "1 to 1000"),
        ("repeats = 2", "repeats = -1", 7, "invalid value"),
        ("repeats = 2", "repeat = 2", 7, "unknown field"),
        ("profile_windows = 3", "profile_windows = 0", 8, "1 to 1000"),
        ("title = \"a small one\"\n", "", 4, "title"),
        ("[20, 40]", "[]", 12, "at least one"),
        ("[20, 40]", "[40, 20]", 12, "ascending"),
        ("[20, 40]", "[20, 20]", 12, "none twice"),
        ("[20, 40]", "[20, nan]", 12, "ascending"),
        ("\"publishers.count\"", "\"k\"", 12, "number of brokers"),
        (
            "\"publishers.count\"",
            "\"publishers.3.count\"",
            11,
            "1 elements",
        ),
        ("\"publishers.count\"", "\"publishers.size\"", 11, "size"),
        ("\"publishers.count\"", "\"seed.count\"", 11, "not a table"),
        ("brokers = \"all\"", "brokers = \"some\"", 15, "one of"),
        ("brokers = \"all\"", "brokers = \"x\"", 15, "one of"),
        ("brokers = \"as LB\"", "brokers = \"as one\"", 19, "one of"),
        ("name = \"one\"", "name = \"LB\"", 18, "no other series"),
        (
            "\"topic.policy\" = \"lb\"",
            "\"topic.polcy\" = \"lb\"",
            16,
            "polcy",
        ),
        ("name = \"b\"", "name = \"a\"", 26, "each panel another"),
        ("name = \"b\"", "name = \"../b\"", 26, "letters"),
        ("rate = 50", "rate = -5", 31, "rate"),
        ("rate = 50", "rat = 50", 31, "rat"),
        ("[topic]", "[topik]", 32, "topik"),
        ("[cluster]", "[cluster", 34, ""),
    ];
    for (what, by, line, text) in cases {
        assert!(SMALL.contains(what), "{what}");
        match Figure::parse("small", &SMALL.replacen(what, by, 1)) {
            Err(ExperimentError::Definition {
                line: named,
                text: said,
                ..
            }) => {
                assert_eq!(named, *line, "{by}: {said}");
                assert!(said.contains(text), "{by}: {said}");
            }
            other => panic!("{by}: {other:?}"),
        }
    }
}

#[test]
fn what_is_built_in_is_whole_and_has_one_broker_model() {
    let figures = built_in().expect("the built-in experiments");
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, built_in_names());
    let panels: Vec<&Panel> = figures.iter().flat_map(|f| &f.panels).collect();
    for (figure, (_, text)) in figures.iter().zip(super::built_in::FIGURES) {
        let panels = text.matches("[[panel]]").count();
        assert_eq!(figure.panels.len(), panels.max(1), "{}", figure.name);
    }
    let spec = |panel: &Panel| {
        let spec = panel.spec(panel.x.values[0], &panel.series[0], 1);
        spec.expect("a spec")
    };
    let model = |panel: &Panel| workload::Cluster {
        load: Vec::new(),
        ..spec(panel).cluster
    };
    for panel in panels {
        assert_eq!(model(panel), model(&figures[0].panels[0]), "{}", panel.name);
        let topic = spec(panel).topic;
        assert_eq!((topic.rate, topic.burst), (None, None), "{}", panel.name);
        assert_eq!((topic.headroom, panel.repeats), (1.1, 10), "{}", panel.name);
        let classes = spec(panel).publishers;
        assert!(
            classes.len() == 1 && classes[0].rate == 10.0,
            "{}",
            panel.name
        );
    }
}

#[test]
fn the_file_is_the_same_whatever_the_order_of_execution() {
    let (one, two) = (Folder::new("one"), Folder::new("two"));
    let rows = run(&one, &options(1)).expect("a run");
    assert_eq!(run(&two, &options(4)).expect("a run"), rows);
    let text = |folder: &Folder| fs::read(folder.results().path("smalla", false));
    assert_eq!(text(&one).expect("a file"), text(&two).expect("a file"));
    assert_eq!(rows.len(), 8);
    let places: Vec<(f64, &str, u32)> = rows
        .iter()
        .map(|row| (row.x, row.series.as_str(), row.repeat))
        .collect();
    assert_eq!(
        places[..3],
        [(20.0, "LB", 1), (20.0, "LB", 2), (20.0, "one", 1)]
    );
    assert!(rows.iter().all(|row| row.k == 2 && row.messages > 100));
    let kept = one
        .results()
        .records::<Row>("smalla", false)
        .expect("a file");
    assert_eq!(kept, Some(rows.clone()));
    // Series share the arrivals, repeats do not.
    assert_eq!(rows[0].seed, rows[2].seed);
    assert_ne!(rows[0].seed, rows[1].seed);
    assert_ne!(rows[0].hash, rows[1].hash);
}

#[test]
fn an_interrupted_run_goes_on() {
    let (whole, cut) = (Folder::new("whole"), Folder::new("cut"));
    let rows = run(&whole, &options(2)).expect("a run");
    let part_path = cut.0.join("smalla.jsonl.part");
    let part = |lines: usize, rest: &str| {
        let panel = &small().panels[0];
        let belongs_to = seeds::fingerprint(&panel.text, panel.seed, false);
        let mut text = format!("{{\"belongs_to\":\"{belongs_to}\"}}\n");
        for row in &rows[..lines] {
            text += &(serde_json::to_string(row).expect("a line") + "\n");
        }
        fs::write(&part_path, text + rest).expect("a part");
    };
    for (lines, rest) in [(0, ""), (3, ""), (5, "{\"experiment\":\"sma"), (8, "")] {
        part(lines, rest);
        let mut run_anew = 0;
        let resumed = run_experiment(
            &small().panels[0],
            &cut.results(),
            &options(2),
            |progress| match progress {
                Progress::Begins { runs, finished } => assert_eq!((runs, finished), (8, lines)),
                Progress::Done(rows) => run_anew += rows.len(),
            },
        );
        assert_eq!(resumed.expect("a run"), rows);
        assert_eq!(run_anew, 8 - lines);
        let text = |folder: &Folder| fs::read(folder.results().path("smalla", false));
        assert_eq!(text(&whole).expect("a file"), text(&cut).expect("a file"));
        assert!(!part_path.exists());
    }
}

#[test]
fn a_part_of_other_settings_or_of_nonsense_is_refused() {
    let folder = Folder::new("refused");
    let part = folder.0.join("smalla.jsonl.part");
    fs::write(&part, "{\"belongs_to\":\"another\"}\n").expect("a part");
    let refused = run(&folder, &options(1)).expect_err("another definition");
    assert!(
        matches!(refused, ExperimentError::OtherSettings { .. }),
        "{refused}"
    );
    let panel = &small().panels[0];
    let belongs_to = seeds::fingerprint(&panel.text, panel.seed, false);
    let text = format!("{{\"belongs_to\":\"{belongs_to}\"}}\nnonsense\n");
    fs::write(&part, text).expect("a part");
    let refused = run(&folder, &options(1)).expect_err("a line that is none");
    assert!(refused.to_string().contains("line 2"), "{refused}");
    let fresh = RunOptions {
        fresh: true,
        ..options(1)
    };
    assert_eq!(run(&folder, &fresh).expect("a run").len(), 8);
}

#[test]
fn quick_results_are_marked_and_kept_apart() {
    let folder = Folder::new("quick");
    let quick = RunOptions {
        repeats: Some(1),
        quick: true,
        ..options(2)
    };
    let rows = run(&folder, &quick).expect("a run");
    assert!(rows.len() == 4 && rows.iter().all(|row| row.quick));
    assert_eq!(
        folder
            .results()
            .records::<Row>("smalla", false)
            .expect("no file"),
        None
    );
    let file = folder.0.join("smalla.quick.jsonl");
    let text = fs::read_to_string(file).expect("a file");
    assert!(text.lines().all(|line| line.contains("\"quick\":true")));
}

#[test]
fn a_file_of_results_that_is_not_whole_is_named() {
    let folder = Folder::new("cut-off");
    run(&folder, &options(2)).expect("a run");
    let path = folder.results().path("smalla", false);
    let text = fs::read_to_string(&path).expect("a file");
    fs::write(&path, &text[..text.len() - 10]).expect("a file");
    let refused = folder
        .results()
        .records::<Row>("smalla", false)
        .expect_err("not whole");
    assert!(refused.to_string().contains("line 8"), "{refused}");
}

#[test]
fn a_summary_aggregates_repeats() {
    let folder = Folder::new("summary");
    let rows = run(&folder, &options(2)).expect("a run");
    let summary = Summary::of(&rows);
    assert_eq!(summary.points.len(), 4);
    let point = summary.at("LB", 20.0).expect("a point");
    let (one, two) = (rows[0].p99_us, rows[1].p99_us);
    assert_eq!(point.runs, 2);
    assert!((point.p99_us.mean - (one + two) / 2.0).abs() < 1e-9);
    let deviation = (one - two).abs() / 2f64.sqrt();
    assert!((point.p99_us.deviation - deviation).abs() < 1e-9);
    assert_eq!(point.p99_us.least, one.min(two));
    let text = table(&small().panels[0], &summary);
    assert_eq!(text.lines().count(), 5, "{text}");
}
