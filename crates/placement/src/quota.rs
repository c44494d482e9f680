//! Max-min shares: how a rate is divided over brokers that already hold unequal amounts.
//!
//! The picture is water poured over columns of unequal height with lids of unequal height: it fills
//! the lowest first, and what a lid keeps out rises elsewhere. The level it reaches is the greatest
//! minimum that any division reaches (SRTM-long, section 4.2, step 2). For publishers that all have
//! the same rate the division is made in whole publishers.

use crate::choose::{Tournament, Work};

/// Divides `amount` so that the least `bases[i] + quota[i]` is maximal, then the second least, and so
/// on, with 0 ≤ `quota[i]` ≤ `caps[i]`. All caps if they do not hold `amount`.
pub(crate) fn water_fill(bases: &[f64], caps: &[f64], amount: f64) -> Vec<f64> {
    let level = water_level(bases, caps, amount);
    let quota = |(&base, &cap): (&f64, &f64)| (level - base).clamp(0.0, cap);
    bases.iter().zip(caps).map(quota).collect()
}

/// As [`water_fill`], in whole `unit`s: how many of `count` each takes, at most `caps[i]` of them.
pub(crate) fn unit_fill(
    bases: &[f64],
    caps: &[u64],
    unit: f64,
    count: u64,
    work: &mut Work,
) -> Vec<u64> {
    let mut taken = vec![0; bases.len()];
    let height = |at: usize, taken: u64| {
        let has_room = taken < caps[at];
        if has_room {
            -(bases[at] + unit * taken as f64)
        } else {
            f64::NEG_INFINITY
        }
    };
    let mut lowest = Tournament::new((0..bases.len()).map(|at| height(at, 0)).collect());
    for _ in 0..count {
        let Some((at, _)) = lowest.best() else { break };
        taken[at] += 1;
        lowest.set(at, height(at, taken[at]), work);
    }
    taken
}

/// The height at which the water stands; infinite if the lids do not hold it.
fn water_level(bases: &[f64], caps: &[f64], amount: f64) -> f64 {
    // The surface widens by one broker at every base and narrows by one at every lid.
    let mut edges: Vec<(f64, f64)> = Vec::with_capacity(2 * bases.len());
    for (&base, &cap) in bases.iter().zip(caps) {
        edges.push((base, 1.0));
        edges.push((base + cap, -1.0));
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(&(mut level, _)) = edges.first() else {
        return f64::INFINITY;
    };
    let (mut poured, mut width) = (0.0, 0.0);
    for (height, change) in edges {
        let next = poured + width * (height - level);
        if width > 0.0 && next >= amount {
            return level + (amount - poured) / width;
        }
        (poured, level) = (next, height);
        width += change;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests;
