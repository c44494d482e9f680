//! The stored results belong to the built-in definitions, are complete, and are read to the last
//! digit.

use std::fs;

use serde::Serialize;
use sim::drl::experiment as drl;
use sim::experiment::{Experiment, Results, RunOptions};
use sim::figures;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/results");

fn is_whole<E: Experiment>(experiment: &E) {
    let options = RunOptions {
        seed: None,
        repeats: None,
        jobs: 1,
        fresh: false,
        quick: false,
    };
    let (name, results) = (experiment.name(), Results::new(FOLDER));
    let kept = results.records::<E::Record>(name, false);
    let Ok(Some(kept)) = kept else {
        panic!("{name}: {:?}", kept.err());
    };
    let runs = experiment.cells(&options).len() * experiment.runs_of_cell();
    let positions = kept
        .iter()
        .map(|record| experiment.position(record, &options));
    assert!(positions.eq((0..runs).map(Some)), "{name}");
    let line = |record: &E::Record| text(record) + "\n";
    let text: String = kept.iter().map(line).collect();
    let file = fs::read_to_string(results.path(name, false)).expect("it was read just now");
    assert!(text == file, "{name} is not written as it was read");
}

fn text(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("plain values")
}

#[test]
fn results_of_the_srtm_paper_are_whole() {
    let figures = figures::built_in().expect("the built-in figures");
    figures
        .iter()
        .flat_map(|figure| &figure.panels)
        .for_each(is_whole);
}

#[test]
fn results_of_drl_are_whole() {
    let studies = drl::built_in().expect("the built-in studies");
    studies.iter().for_each(is_whole);
}
