//! CHANGELOG.md keeps one form, so that operators find what they must do first.

use crate::finding::Finding;
use crate::source::Source;

const DOCUMENT: &str = "CHANGELOG.md";

/// Sections of a release, in this order.
const SECTIONS: &[&str] = &["Upgrading", "Added", "Changed", "Fixed"];

/// Adds a finding for each place where the changelog leaves its form.
pub fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut report = |line: usize, advice: String| {
        findings.push(Finding {
            path: DOCUMENT.into(),
            line,
            rule: "changelog",
            advice,
        });
    };
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        report(
            1,
            "write it: `# Changelog`, then `## X.Y.Z (unreleased)`".into(),
        );
        return;
    };
    if !document.text.starts_with("# Changelog\n") {
        report(1, "begin with `# Changelog`".into());
    }
    let mut releases = 0;
    // The next section of the release must come after this many of `SECTIONS`.
    let mut passed = 0;
    let mut empty_section: Option<(usize, &str)> = None;
    for (line, text) in document.lines() {
        if text.starts_with('#')
            && let Some((heading_line, heading)) = empty_section.take()
        {
            report(heading_line, format!("`{heading}` is empty; leave it out"));
        }
        if let Some(release) = text.strip_prefix("## ") {
            releases += 1;
            passed = 0;
            if !is_release(release) {
                report(
                    line,
                    "write `## X.Y.Z (unreleased)` or `## X.Y.Z (YYYY-MM-DD)`".into(),
                );
            }
        } else if let Some(section) = text.strip_prefix("### ") {
            empty_section = Some((line, section));
            match SECTIONS.iter().position(|name| *name == section) {
                Some(index) if index >= passed && releases > 0 => passed = index + 1,
                _ => report(
                    line,
                    format!(
                        "sections of a release are {}, in this order, each once",
                        SECTIONS.join(", ")
                    ),
                ),
            }
        } else if !text.trim().is_empty() {
            empty_section = None;
        }
    }
    if let Some((line, heading)) = empty_section {
        report(line, format!("`{heading}` is empty; leave it out"));
    }
    if releases == 0 {
        report(1, "add a release: `## X.Y.Z (unreleased)`".into());
    }
}

/// Whether this is `X.Y.Z (unreleased)` or `X.Y.Z (YYYY-MM-DD)`.
fn is_release(heading: &str) -> bool {
    let Some((version, when)) = heading.strip_suffix(')').and_then(|h| h.split_once(" (")) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let lengths = |text: &str| text.split('-').map(str::len).collect::<Vec<_>>();
    let is_date = lengths(when) == [4, 2, 2] && when.split('-').all(is_number);
    version.split('.').count() == 3
        && version.split('.').all(is_number)
        && (when == "unreleased" || is_date)
}
