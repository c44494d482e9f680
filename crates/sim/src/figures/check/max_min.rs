//! Figure 8: equal total loads against the highest least share, on brokers that are already loaded
//! (SRTM-long, section 6.3).

use super::{NOISE, Verdicts, across, judged, keeps_promise, ms, pairs};
use crate::figures::summary::{Point, Summary};

/// The number of publishers that the paper gives latencies for.
const PUBLISHERS_IN_TEXT: f64 = 8_000.0;

pub(super) fn panel(panel: &str, summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let both = pairs(summary, "Max-Min", "Conc");
    let on_one = |pair: &&(&Point, &Point)| pair.0.k.greatest <= 1.0 && pair.1.k.greatest <= 1.0;
    let compared = |(max_min, conc): &(&Point, &Point)| {
        format!(
            "{}: Max-Min {}, Conc {}",
            max_min.x,
            judged(max_min),
            judged(conc)
        )
    };
    let same: Vec<(bool, String)> = both
        .iter()
        .filter(on_one)
        .map(|pair| {
            let (one, other) = (pair.0.worst_p99_us.median, pair.1.worst_p99_us.median);
            let differs = (one - other).abs() > NOISE * one.max(other);
            (!differs, compared(pair))
        })
        .collect();
    verdicts.add_all("where one broker suffices both are the same", &same);
    let better: Vec<(bool, String)> = both
        .iter()
        .filter(|pair| !on_one(pair))
        .map(|pair| {
            let most = pair.1.worst_p99_us.median * (1.0 + NOISE);
            (pair.0.worst_p99_us.median <= most, compared(pair))
        })
        .collect();
    verdicts.add_all("beyond one broker Max-Min is no worse than Conc", &better);
    match panel {
        "a" => in_text(summary, verdicts),
        "b" | "d" => recovery(summary, verdicts),
        _ => {}
    }
}

/// Panels with single messages and with batches.
pub(super) fn batches(
    (one, single): (&str, &Summary),
    (other, batched): (&str, &Summary),
    verdicts: &mut Verdicts<'_>,
) {
    for (series, finding) in [
        ("Max-Min", "with batches Max-Min does as well or better"),
        ("Conc", "with batches Conc does as well or better"),
    ] {
        let as_well: Vec<(bool, String)> = across(single, batched, series)
            .into_iter()
            .map(|(single, batched)| {
                let (from, to) = (judged(single), judged(batched));
                let figures = format!("{}: {from} in {one}, {to} in {other}", single.x);
                let most = single.worst_p99_us.median * (1.0 + NOISE);
                (batched.worst_p99_us.median <= most, figures)
            })
            .collect();
        verdicts.add_all(finding, &as_well);
    }
}

/// The one point with numbers: 1.50 ms on three brokers under Conc, 0.87 ms under Max-Min.
fn in_text(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let at = |series| summary.at(series, PUBLISHERS_IN_TEXT);
    let (Some(conc), Some(max_min)) = (at("Conc"), at("Max-Min")) else {
        return;
    };
    verdicts.add(
        "with 8,000 publishers Max-Min keeps the promise and Conc does not",
        keeps_promise(max_min) && !keeps_promise(conc),
        format!("Max-Min {}, Conc {}", judged(max_min), judged(conc)),
    );
}

/// What is left over for the last broker grows, so that Conc gets better again.
fn recovery(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let at = |x| summary.at("Conc", x);
    let (Some(before), Some(after)) = (at(PUBLISHERS_IN_TEXT), at(10_000.0)) else {
        return;
    };
    verdicts.add(
        "Conc gets better from 8,000 to 10,000 publishers",
        after.worst_p99_us.median < before.worst_p99_us.median,
        format!("{} to {}", ms(before.worst_p99_us), ms(after.worst_p99_us)),
    );
}
