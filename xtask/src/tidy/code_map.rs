//! Every crate has exactly one row in ARCHITECTURE.md's code map, every row has a crate, and its last column names the
//! crates that the manifest depends on (those of tests and builds aside).

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::source::Source;

const DOCUMENT: &str = "ARCHITECTURE.md";
const ROW_START: &str = "| `crates/";
/// What the last column says of a crate without arrows, and of one with an arrow to every other.
const NO_ARROW: &str = "nothing";
const ALL_ARROWS: &str = "all of them";

/// Adds a finding for each crate without a row, row without a crate, row that comes twice, and arrow that only one of row and
/// manifest has.
pub fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut report = |line: usize, advice: String| {
        findings.push(Finding {
            path: DOCUMENT.into(),
            line,
            rule: "code-map",
            advice,
        });
    };
    let crates: BTreeMap<&str, &Source> = sources
        .iter()
        .filter_map(|s| crate_of_manifest(&s.path).map(|name| (name, s)))
        .collect();
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        report(
            1,
            format!("write it, with a code map: one row `{ROW_START}NAME` |` per crate"),
        );
        return;
    };
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, text) in document.lines() {
        let Some(name) = text
            .strip_prefix(ROW_START)
            .and_then(|rest| rest.split_once('`'))
        else {
            continue;
        };
        let (name, columns) = (name.0.trim_end_matches('/'), name.1);
        if let Some(first) = rows.insert(name, line) {
            report(
                line,
                format!("crates/{name} has a row in line {first} already; keep one"),
            );
            continue;
        }
        match crates.get(name) {
            None => report(line, format!("there is no crates/{name}; remove the row")),
            Some(manifest) => {
                let used = dependencies(manifest, |name| crates.contains_key(name));
                check_arrows(name, &arrows(columns), &used, |advice| report(line, advice));
            }
        }
    }
    for name in crates.keys().filter(|name| !rows.contains_key(*name)) {
        report(
            1,
            format!("add a row `{ROW_START}{name}` | what it is |` to the code map"),
        );
    }
}

fn check_arrows(
    name: &str,
    said: &BTreeSet<&str>,
    used: &BTreeSet<&str>,
    mut report: impl FnMut(String),
) {
    if let Some(all) = said.iter().find_map(|said| said.strip_prefix(ALL_ARROWS)) {
        let excepted = all.split('`').find(|name| used.contains(name));
        if let Some(other) = excepted {
            report(format!(
                "crates/{name} depends on {other}, which the row excepts: remove the dependency"
            ));
        }
        return;
    }
    for other in used.difference(said) {
        report(format!(
            "crates/{name} depends on {other}: remove the dependency, or add `{other}` to the row if the arrow is meant"
        ));
    }
    for other in said.difference(used).filter(|said| **said != NO_ARROW) {
        report(format!(
            "crates/{name} does not depend on {other}; remove it from the row"
        ));
    }
}

/// The names in the last column of a row.
fn arrows(columns: &str) -> BTreeSet<&str> {
    let last = columns.trim_end().trim_end_matches('|').rsplit('|').next();
    let names = last.unwrap_or_default().split(',').map(str::trim);
    names
        .map(|name| name.trim_matches('`'))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Crates of the workspace under `[dependencies]` of a manifest.
fn dependencies(manifest: &Source, is_ours: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let lines = manifest.text.lines().map(str::trim);
    let section = lines.skip_while(|line| *line != "[dependencies]").skip(1);
    let names = section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next());
    names.filter(|name| is_ours(name)).collect()
}

/// `NAME` of `crates/NAME/Cargo.toml`.
fn crate_of_manifest(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}
