//! Figures 9 to 11: publishers that send together, split or not (SRTM-long, section 6.4).

use super::{NOISE, Verdicts, judged, keeps_promise, ms, pairs};
use crate::figures::summary::{Point, Summary};

/// Figure 9: each at the number of brokers that its fit finds.
pub(super) fn own_number(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let srtm: Vec<(bool, String)> = summary
        .curve("SRTM")
        .map(|point| {
            (
                keeps_promise(point),
                format!("{}: {}", point.x, judged(point)),
            )
        })
        .collect();
    verdicts.add_all("SRTM keeps the promise at every group size", &srtm);
    let both = pairs(summary, "SRTM", "Max-Min");
    let Some((srtm, max_min)) = both.last() else {
        return;
    };
    let figures = format!(
        "group size {}: SRTM {}, Max-Min {}",
        srtm.x,
        judged(srtm),
        judged(max_min)
    );
    verdicts.add(
        "Max-Min does not keep the promise at the largest group size",
        !keeps_promise(max_min),
        figures.clone(),
    );
    verdicts.add(
        "Max-Min is forced to use fewer brokers at the largest group size",
        max_min.k.mean < srtm.k.mean,
        figures,
    );
}

/// Figure 10: Max-Min on as many brokers as SRTM.
pub(super) fn same_number(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let beyond_one = |(_, srtm): &(&Point, &Point)| srtm.k.least > 1.0;
    let against_srtm: Vec<(bool, String)> = pairs(summary, "Max-Min as SRTM", "SRTM")
        .into_iter()
        .filter(beyond_one)
        .map(|(forced, srtm)| {
            let figures = format!(
                "{}: {} to SRTM's {}",
                forced.x,
                judged(forced),
                judged(srtm)
            );
            (
                forced.worst_p99_us.median > srtm.worst_p99_us.median,
                figures,
            )
        })
        .collect();
    verdicts.add_all(
        "on as many brokers Max-Min is worse than SRTM wherever there is more than one",
        &against_srtm,
    );
    let against_own: Vec<(bool, String)> = pairs(summary, "Max-Min as SRTM", "Max-Min")
        .into_iter()
        .filter(|(forced, own)| own.k.mean < forced.k.mean)
        .map(|(forced, own)| {
            let figures = format!("{}: {} to {}", forced.x, judged(forced), judged(own));
            (
                forced.worst_p99_us.median > own.worst_p99_us.median,
                figures,
            )
        })
        .collect();
    verdicts.add_all(
        "Max-Min gets worse when it is forced onto SRTM's brokers",
        &against_own,
    );
}

/// Figure 11: members of a group ever further apart.
pub(super) fn imprecise(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let both = pairs(summary, "SRTM", "Max-Min");
    let (Some(precise), Some(vague)) = (both.first(), both.last()) else {
        return;
    };
    verdicts.add(
        "SRTM is better while members of a group are close",
        precise.0.worst_p99_us.median < precise.1.worst_p99_us.median,
        compared(precise),
    );
    let benefit = |(srtm, max_min): &(&Point, &Point)| {
        (max_min.worst_p99_us.median - srtm.worst_p99_us.median) / max_min.worst_p99_us.median
    };
    verdicts.add(
        "the benefit fades as they are spread",
        benefit(vague) < benefit(precise),
        format!(
            "{:.0} % less at {}, {:.0} % less at {}",
            100.0 * benefit(precise),
            precise.0.x,
            100.0 * benefit(vague),
            vague.0.x
        ),
    );
    for (series, finding) in [
        (
            "SRTM",
            "SRTM's tail latency and brokers go down with the spread",
        ),
        (
            "Max-Min",
            "Max-Min's tail latency and brokers go down with the spread",
        ),
    ] {
        let mut curve = summary.curve(series);
        let (Some(first), Some(last)) = (curve.next(), curve.last()) else {
            continue;
        };
        // A latency within the promise may go up while fewer brokers are needed.
        let latency = last.worst_p99_us.median <= first.worst_p99_us.median * (1.0 + NOISE);
        let cheaper = last.k.mean < first.k.mean && keeps_promise(last);
        verdicts.add(
            finding,
            last.k.mean <= first.k.mean && (latency || cheaper),
            format!(
                "{} with {} brokers at {}, {} with {} at {}",
                ms(first.worst_p99_us),
                first.k.mean,
                first.x,
                ms(last.worst_p99_us),
                last.k.mean,
                last.x
            ),
        );
    }
}

fn compared((srtm, max_min): &(&Point, &Point)) -> String {
    format!(
        "{}: SRTM {}, Max-Min {}",
        srtm.x,
        judged(srtm),
        judged(max_min)
    )
}
