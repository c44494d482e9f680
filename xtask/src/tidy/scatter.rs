//! A type's `impl` blocks stand near each other: whoever reads a type finds what it does in few files.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::source::Source;

/// Most files of a crate in which one type may have inherent `impl` blocks.
const MAX_FILES: usize = 4;

/// Adds a finding for each type that is spread over more files than it may.
pub fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut files: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let Some(name) = crate_of(source) else {
            continue;
        };
        for (_, line) in source.product_lines() {
            if let Some(subject) = subject_of(line) {
                let places = files.entry((name, subject)).or_default();
                places.insert(&source.path);
            }
        }
    }
    for ((name, subject), places) in files {
        let is_scattered = places.len() > MAX_FILES;
        let Some(first) = places.iter().next().filter(|_| is_scattered) else {
            continue;
        };
        findings.push(Finding {
            path: (*first).to_owned(),
            line: 1,
            rule: "scatter",
            advice: format!(
                "`{subject}` of `{name}` has impl blocks in {} files, at most {MAX_FILES}: give parts of it a type of their own",
                places.len()
            ),
        });
    }
}

/// The crate that a product file of ours belongs to.
fn crate_of(source: &Source) -> Option<&str> {
    let path = source.path.strip_prefix("crates/")?;
    let (name, file) = path.split_once('/')?;
    let is_product = source.is_rust() && !source.is_test_file() && file.starts_with("src/");
    is_product.then_some(name)
}

/// The type whose inherent `impl` begins in this line.
fn subject_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') {
        rest.get(end_of_parameters(rest)?..)?
    } else {
        rest
    };
    let rest = rest.strip_prefix(' ')?;
    if rest.contains(" for ") {
        return None;
    }
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty())
}

/// Where the parameters end that `text` begins with.
fn end_of_parameters(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, each) in text.char_indices() {
        match each {
            '<' => depth += 1,
            '>' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inherent_impls_count() {
        for (line, subject) in [
            ("impl Core {", Some("Core")),
            ("impl<T: Into<u8>> Queue<T> {", Some("Queue")),
            ("impl<'a> Parts<'a> {", Some("Parts")),
            ("impl Default for Core {", None),
            ("    impl Core {", None),
            ("implement", None),
        ] {
            assert_eq!(subject_of(line), subject, "{line}");
        }
    }

    #[test]
    fn a_type_in_five_files_is_found_and_one_in_four_is_not() {
        let tree = |files: usize| {
            let files = (0..files).map(|n| {
                Source::new(
                    format!("crates/limit/src/f{n}.rs"),
                    "//! A.\nimpl Bucket {\n}\n",
                )
            });
            let tests = Source::new("crates/limit/src/tests.rs", "//! A.\nimpl Bucket {\n}\n");
            files.chain([tests]).collect::<Vec<_>>()
        };
        for (files, findings) in [(4, 0), (5, 1)] {
            let mut found = Vec::new();
            check(&tree(files), &mut found);
            assert_eq!(found.len(), findings, "{files} files");
        }
    }
}
