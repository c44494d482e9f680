//! Figure 7: load balancing against concentration (SRTM-long, section 6.2).

use super::{Verdicts, across, judged, keeps_promise, ms, pairs};
use crate::figures::summary::{Point, Summary};

pub(super) fn panel(summary: &Summary, verdicts: &mut Verdicts<'_>) {
    let at = |name: &str, judge: fn(bool) -> bool| -> Vec<(bool, String)> {
        let point = |point: &Point| {
            let figures = format!("{}: {}", point.x, judged(point));
            (judge(keeps_promise(point)), figures)
        };
        summary.curve(name).map(point).collect()
    };
    verdicts.add_all(
        "Conc keeps the promise everywhere",
        &at("Conc", |kept| kept),
    );
    verdicts.add_all("LB keeps the promise nowhere", &at("LB", |kept| !kept));
    let better: Vec<(bool, String)> = pairs(summary, "Conc", "LB")
        .into_iter()
        .filter(|(conc, lb)| conc.k.mean < lb.k.mean)
        .map(|(conc, lb)| {
            let figures = format!("{}: {} to {}", conc.x, judged(conc), judged(lb));
            (conc.worst_p99_us.median < lb.worst_p99_us.median, figures)
        })
        .collect();
    verdicts.add_all(
        "Conc is better than LB where it takes fewer brokers",
        &better,
    );
    let mut lb = summary.curve("LB");
    if let (Some(first), Some(last)) = (lb.next(), lb.last()) {
        verdicts.add(
            "what LB pays shrinks as the topic's rate grows",
            last.worst_p99_us.median < first.worst_p99_us.median,
            format!(
                "{} at {}, {} at {}",
                ms(first.worst_p99_us),
                first.x,
                ms(last.worst_p99_us),
                last.x
            ),
        );
    }
}

/// Panels with single messages and with batches.
pub(super) fn batches(
    (one, single): (&str, &Summary),
    (other, batched): (&str, &Summary),
    verdicts: &mut Verdicts<'_>,
) {
    let worse: Vec<(bool, String)> = across(single, batched, "LB")
        .into_iter()
        .map(|(single, batched)| {
            let (from, to) = (ms(single.worst_p99_us), ms(batched.worst_p99_us));
            let figures = format!("{}: {from} in {one}, {to} in {other}", single.x);
            (
                batched.worst_p99_us.median > single.worst_p99_us.median,
                figures,
            )
        })
        .collect();
    verdicts.add_all("batches make LB's penalty worse", &worse);
}
