//! Table 1: how long the fit takes (SRTM-long, section 6.5).

use super::{NOISE, Verdicts};
use crate::figures::summary::{Point, Summary};
use crate::figures::table::brokers;

/// Ours: what the fit by replay is to stay below at the largest group size, in seconds.
const REPLAY_SECONDS_MAX: f64 = 150.0;

pub(super) fn table(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let measured: Vec<&Point> = summary.curve("measure").collect();
    if let (Some(first), Some(last)) = (measured.first(), measured.last()) {
        let steps: Vec<(bool, String)> = measured
            .windows(2)
            .map(|pair| {
                let least = pair[0].windows.median * (1.0 - NOISE);
                let figures = format!("{} to {}", windows(pair[0]), windows(pair[1]));
                (pair[1].windows.median >= least, figures)
            })
            .collect();
        verdicts.add_all("windows grow with the group size", &steps);
        verdicts.add(
            "brokers grow from one for groups of 5 to six for groups of 30",
            first.k.mean.round() == 1.0 && last.k.mean.round() == 6.0,
            format!(
                "{} for {}, {} for {}",
                brokers(first),
                first.x,
                brokers(last),
                last.x
            ),
        );
        verdicts.add(
            "the largest groups take more than 15 minutes",
            last.fit_seconds.median > 900.0,
            format!("{:.0} s", last.fit_seconds.median),
        );
    }
    if let Some(last) = summary.curve("replay").last() {
        verdicts.add(
            "by replay (not in the paper) the largest groups take at most 150 s",
            last.fit_seconds.median <= REPLAY_SECONDS_MAX,
            format!("{:.0} s", last.fit_seconds.median),
        );
    }
}

fn windows(point: &Point) -> String {
    format!("{:.1} for {}", point.windows.median, point.x)
}
