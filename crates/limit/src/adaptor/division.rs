//! Division of one quantity in proportion, with least parts, that never adds up to more than the
//! whole.
//!
//! Parts are multiples of the last binary digit of the whole. Any sum of such numbers up to the
//! whole is exact in an `f64`, so the parts add up to no more than the whole in whatever order they
//! are added.

/// Divides `whole` in proportion to `weights`, each part at least its `least`; all weights zero:
/// evenly.
///
/// Where the least parts alone exceed the whole, they are what is divided in proportion to. The
/// parts add up to exactly the whole. `whole` is above 0, all other numbers are at least 0 and
/// finite, and there are as many weights as least parts.
pub(super) fn divide(whole: f64, weights: &[f64], least: &[f64]) -> Vec<f64> {
    debug_assert_eq!(weights.len(), least.len());
    let total_least: f64 = least.iter().sum();
    let mut parts = if total_least >= whole {
        let scaled = |part: &f64| whole * part / total_least;
        least.iter().map(scaled).collect()
    } else {
        fill(whole, weights, least)
    };
    settle(whole, &mut parts);
    parts
}

/// `part`, or the next smaller number whose sums with others of its kind up to `whole` are exact.
pub(crate) fn round_down(part: f64, whole: f64) -> f64 {
    let digit = whole.next_up() - whole;
    // Both operations are exact: a digit is a power of two.
    (part / digit).floor() * digit
}

/// max(least, λ·weight) with the λ for which the parts add up: those below their least part get
/// that, and the others share what remains, until none is below.
fn fill(whole: f64, weights: &[f64], least: &[f64]) -> Vec<f64> {
    let greatest = weights.iter().copied().fold(0.0, f64::max);
    let even = greatest <= 0.0;
    let mut parts = least.to_vec();
    let mut sharing: Vec<usize> = (0..least.len()).collect();
    let mut remains = whole;
    while !sharing.is_empty() {
        // Relative to the greatest, so that the sum stays within the range of an f64.
        let weight = |at: usize| if even { 1.0 } else { weights[at] / greatest };
        let total: f64 = sharing.iter().map(|&at| weight(at)).sum();
        let part = |at: usize| remains * (weight(at) / total);
        let (below, above): (Vec<usize>, Vec<usize>) = sharing
            .iter()
            .partition(|&&at| total <= 0.0 || part(at) < least[at]);
        if below.is_empty() {
            for at in above {
                parts[at] = part(at);
            }
            break;
        }
        remains -= below.iter().map(|&at| least[at]).sum::<f64>();
        sharing = above;
    }
    parts
}

/// Rounds all parts down; the greatest gets what is over.
fn settle(whole: f64, parts: &mut [f64]) {
    let Some(greatest) = (0..parts.len()).max_by(|&a, &b| parts[a].total_cmp(&parts[b])) else {
        return;
    };
    for part in parts.iter_mut() {
        *part = round_down(*part, whole);
    }
    let others: f64 = (0..parts.len())
        .filter(|&at| at != greatest)
        .map(|at| parts[at])
        .sum();
    parts[greatest] = (whole - others).max(0.0);
}
