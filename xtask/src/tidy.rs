//! The rules of the house, put together.
//!
//! Words that must not occur ([`words`]), the shape of a file ([`shape`]), types spread over files ([`scatter`]), and documents that must agree
//! with the tree ([`code_map`], [`changelog`]).

mod changelog;
mod code_map;
mod scatter;
mod shape;
#[cfg(test)]
mod tests;
mod words;

use crate::finding::Finding;
use crate::source::Source;

/// Every finding in these files, in the order of path and line.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        words::check(source, &mut findings);
        shape::check(source, &mut findings);
    }
    code_map::check(sources, &mut findings);
    changelog::check(sources, &mut findings);
    scatter::check(sources, &mut findings);
    findings.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    findings
}
