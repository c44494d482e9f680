//! The order in which publishers stay at a broker that must give some away.

use crate::{Policy, Publisher};

/// Puts `members` in such an order that every prefix is a fair picture of all: for [`Policy::Srtm`] it
/// holds the same part of every correlation group, to within one publisher. Those on their own count
/// as one group; what leaves is cut off at the end. The group-blind policies keep to the order of the index.
#[must_use]
pub fn shedding_order(publishers: &[Publisher], mut members: Vec<u32>, policy: Policy) -> Vec<u32> {
    if !policy.divides_groups() {
        return members;
    }
    let rate = |member: u32| publishers[member as usize].rate.get();
    let group = |member: u32| {
        publishers[member as usize]
            .group
            .map_or(u32::MAX, |group| group.0)
    };
    members.sort_by_key(|&member| group(member));
    let mut placed: Vec<(f64, u32)> = Vec::with_capacity(members.len());
    for group in members.chunk_by(|&left, &right| group(left) == group(right)) {
        let sum: f64 = group.iter().map(|&member| rate(member)).sum();
        let mut before = 0.0;
        for &member in group {
            placed.push(((before + rate(member) / 2.0) / sum, member));
            before += rate(member);
        }
    }
    placed.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    placed.into_iter().map(|(_, member)| member).collect()
}
