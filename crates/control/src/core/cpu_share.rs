//! CPU shares of topics, kept within the whole.
//!
//! A CPU share is a fraction of the time of every thread of a broker. All topics may meet on each
//! thread, and each broker refuses what exceeds the whole. Here the sum over all topics is kept at
//! most 1, so no broker ever has to refuse.

use kernel::{CpuShare, Shares};

use super::topics::Topics;
use crate::ControlError;

/// Holders that a refusal names.
const HOLDERS_NAMED: usize = 10;

/// Whether topic `name` can have `share` beside what all others have.
///
/// # Errors
/// [`ControlError::Conflict`] with the sum, and who has how much of it.
pub(super) fn check(
    topics: &Topics,
    name: &str,
    share: Option<CpuShare>,
) -> Result<(), ControlError> {
    let Some(share) = share else {
        return Ok(());
    };
    let others = topics.all().iter().filter(|(other, _)| *other != name);
    let mut holders: Vec<(CpuShare, &str)> = others
        .filter_map(|(other, topic)| Some((topic.spec.contract.cpu_share?, other.as_str())))
        .collect();
    let mut held = Shares::default();
    let fits = holders
        .iter()
        .try_for_each(|(other, _)| held.add(Some(*other)))
        .and_then(|()| held.add(Some(share)));
    if fits.is_ok() {
        return Ok(());
    }
    // The greatest are those that would make room.
    holders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let mut named: Vec<String> = holders
        .iter()
        .take(HOLDERS_NAMED)
        .map(|(share, other)| format!("{other} {share}"))
        .collect();
    if holders.len() > HOLDERS_NAMED {
        named.push(format!("{} more", holders.len() - HOLDERS_NAMED));
    }
    let sum: f64 = holders.iter().map(|(share, _)| share.as_f64()).sum();
    Err(ControlError::Conflict(format!(
        "cpu_share {share} of {name} does not fit: {} of 1 is held by others ({}); lower one of them first",
        millionths(sum),
        named.join(", ")
    )))
}

/// A sum of millionths without what adding fractions leaves behind it.
fn millionths(sum: f64) -> f64 {
    (sum * 1e6).round() / 1e6
}
