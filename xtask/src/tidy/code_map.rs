//! Every crate has exactly one row in ARCHITECTURE.md's code map, and every row has a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::source::Source;

const DOCUMENT: &str = "ARCHITECTURE.md";
const ROW_START: &str = "| `crates/";

/// Adds a finding for each crate without a row, row without a crate, and row that comes twice.
pub fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut report = |line: usize, advice: String| {
        findings.push(Finding {
            path: DOCUMENT.into(),
            line,
            rule: "code-map",
            advice,
        });
    };
    let crates: BTreeSet<&str> = sources
        .iter()
        .filter_map(|s| crate_of_manifest(&s.path))
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
        let name = name.0.trim_end_matches('/');
        if let Some(first) = rows.insert(name, line) {
            report(
                line,
                format!("crates/{name} has a row in line {first} already; keep one"),
            );
        } else if !crates.contains(name) {
            report(line, format!("there is no crates/{name}; remove the row"));
        }
    }
    for name in crates.iter().filter(|name| !rows.contains_key(*name)) {
        report(
            1,
            format!("add a row `{ROW_START}{name}` | what it is |` to the code map"),
        );
    }
}

/// `NAME` of `crates/NAME/Cargo.toml`.
fn crate_of_manifest(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}
