//! Figure 6: the cost and the gain of splitting a bucket (SRTM-long, section 6.1).

use super::{NOISE, Verdicts, ms};
use crate::figures::summary::{Point, Summary};

pub(super) fn at_low_load(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let points: Vec<&Point> = summary.points.iter().collect();
    verdicts.add_all(
        "at low load p99 grows with every broker that is added",
        &steps(&points),
    );
}

pub(super) fn at_high_load(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let points: Vec<&Point> = summary.points.iter().collect();
    let [one, two, ..] = points.as_slice() else {
        return;
    };
    verdicts.add(
        "one broker is overloaded, a second one brings p99 down",
        two.p99_us.median < one.p99_us.median,
        format!("{} with one, {} with two", ms(one.p99_us), ms(two.p99_us)),
    );
    verdicts.add_all(
        "from the second broker on p99 grows with every broker that is added",
        &steps(&points[1..]),
    );
}

/// Whether each point's p99 is above the one's before, or within noise of it; the last must be above the first.
fn steps(points: &[&Point]) -> Vec<(bool, String)> {
    let step = |before: &Point, after: &Point, noise: f64| {
        let grows = after.p99_us.median > before.p99_us.median * (1.0 - noise);
        let figures = format!(
            "{} at {} to {} at {}",
            ms(before.p99_us),
            before.x,
            ms(after.p99_us),
            after.x
        );
        (grows, figures)
    };
    let neighbours = points.windows(2).map(|pair| step(pair[0], pair[1], NOISE));
    let whole = match points {
        [first, _, .., last] => Some(step(first, last, 0.0)),
        _ => None,
    };
    neighbours.chain(whole).collect()
}
