//! The shape of a file: its name, its length, its first line, its white space.

use crate::finding::Finding;
use crate::source::{Source, without_comment};

/// Most lines of a Rust file that are not tests.
const MAX_PRODUCT_LINES: usize = 500;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &[
    "util",
    "utils",
    "utility",
    "utilities",
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "impl",
    "impls",
    "misc",
];

/// Endings that tell history instead of meaning.
const HISTORY_ENDINGS: &[&str] = &["_v2", "_old", "_new", "_backup", "_bak", "_orig", "_copy"];

/// Adds the findings about this file's shape.
pub fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut report = |line: usize, rule: &'static str, advice: String| {
        findings.push(Finding {
            path: source.path.clone(),
            line,
            rule,
            advice,
        });
    };
    for part in source.path.split('/') {
        let stem = part.split('.').find(|s| !s.is_empty()).unwrap_or(part);
        if let Some(reason) = objection_to(stem) {
            report(
                1,
                "name",
                format!("`{stem}` {reason}; name it after what is inside"),
            );
        }
    }
    for (line, text) in source.lines() {
        if text.ends_with([' ', '\t']) {
            report(
                line,
                "trailing-space",
                "remove the white space at the end of the line".into(),
            );
        }
    }
    if !source.is_rust() {
        return;
    }
    if !source.text.starts_with("//!") {
        let advice = "begin the file with `//!`: what it is, the idea, what it does not do";
        report(1, "module-doc", advice.into());
    }
    let product_lines = if source.is_test_file() {
        0
    } else {
        source.product_lines().count()
    };
    if product_lines > MAX_PRODUCT_LINES {
        let advice = format!(
            "{product_lines} lines without tests, at most {MAX_PRODUCT_LINES}: split it by idea"
        );
        report(MAX_PRODUCT_LINES + 1, "length", advice);
    }
    for (line, text) in source.lines() {
        if text.contains('\t') {
            report(
                line,
                "tab",
                "indent with spaces; write a tab in a string as \\t".into(),
            );
        }
        if let Some(name) = declared_module(text)
            && let Some(reason) = objection_to(name)
        {
            report(
                line,
                "name",
                format!("module `{name}` {reason}; name it after what is inside"),
            );
        }
    }
}

/// What is wrong with a name of a file or module.
fn objection_to(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    if EMPTY_NAMES.contains(&name.as_str()) {
        return Some("says nothing");
    }
    HISTORY_ENDINGS
        .iter()
        .any(|ending| name.ends_with(ending))
        .then_some("tells history")
}

/// The name after `mod`, with or without `pub`.
fn declared_module(line: &str) -> Option<&str> {
    let code = without_comment(line).trim();
    let (visibility, rest) = code.split_once("mod ")?;
    let is_declaration = visibility.is_empty() || visibility.starts_with("pub");
    is_declaration.then(|| rest.trim_end_matches([';', '{', ' ']).trim())
}
