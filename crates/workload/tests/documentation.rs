//! What docs/workloads.md shows is what this crate reads.

use workload::trace::read_all;
use workload::{Class, Cluster, Spec, Topic};

const PAGE: &str = include_str!("../../../docs/workloads.md");

fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    let inside = PAGE.split(begin.as_str()).skip(1);
    inside.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_examples_are_specs() {
    let specs: Vec<Spec> = blocks("toml")
        .into_iter()
        .map(|text| Spec::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}")))
        .collect();
    assert_eq!(specs.len(), 6);
    for spec in &specs {
        assert!(
            spec.arrivals()
                .take(1000)
                .is_sorted_by_key(|arrival| arrival.at_ns)
        );
    }
    assert_eq!(specs[1].publishers[0].group_publishers, 100);
    assert_eq!(specs[5].failures.len(), 2);
}

#[test]
fn the_csv_is_a_trace() {
    let csv = blocks("csv");
    let trace = read_all(csv[0].as_bytes()).expect("whole");
    assert_eq!(
        (trace.arrivals.len(), trace.header.publishers.len()),
        (2, 2)
    );
}

#[test]
fn the_tables_name_every_key_with_its_default() {
    let spec = Spec {
        seed: 1,
        warmup: std::time::Duration::ZERO,
        duration: std::time::Duration::from_secs(10),
        publishers: vec![Class::new(1, 1.0)],
        topic: Topic::default(),
        cluster: Cluster::default(),
        failures: Vec::new(),
    };
    let text = spec.to_toml().expect("valid");
    for line in text.lines().filter(|line| line.contains(" = ")) {
        let (key, value) = line.split_once(" = ").expect("filtered");
        let cells = |row: &'static str| row.split('|').map(str::trim).collect::<Vec<_>>();
        let mut rows = PAGE.lines().filter(|row| row.starts_with('|')).map(cells);
        let row = rows.find(|cells| cells[1].contains(&format!("`{key}`")));
        let row = row.unwrap_or_else(|| panic!("{key} is not in the tables"));
        let default = row[row.len() - 2];
        // Required keys, and pauses, which stand together, have no default of their own.
        let is_free = ["name", "count", "rate", "group", "on", "off"].contains(&key);
        let value = value.trim_end_matches(".0").replace('µ', "u");
        assert!(
            is_free || default.contains(&value),
            "{key} = {value}: {row:?}"
        );
    }
}
