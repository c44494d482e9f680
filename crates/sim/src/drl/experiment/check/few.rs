//! Two to five limiters (DRL, sections 5.1 to 5.5).

use super::{Findings, JAIN_NOISE, NEAR, RATE_NOISE, is_near, jain};
use crate::drl::experiment::record::Record;
use crate::experiment::Spread;

/// Part that FPS's deviation over short windows may be above a central token bucket's and still "closely match" it.
const CLOSE_MATCH: f64 = 0.25;

/// A fairness that is visibly less than that of equal shares. GTB's is around 0.7 in the paper.
const VISIBLY_UNFAIR: f64 = 0.9;

/// Figures 3 to 5.
pub(super) fn baseline(findings: &mut Findings<'_>) {
    findings.limit_holds(
        "every policy forwards the limit over 1 s, within 2 % on average",
        NEAR,
    );
    let short = |run: &Record| run.result.forwarded_mbps_100ms.deviation;
    findings.compare(
        "GTB is burstier than CTB over 100 ms",
        short,
        ("GTB", "CTB"),
        |gtb, ctb| gtb > ctb,
    );
    findings.compare(
        "GRD is burstier than CTB over 100 ms",
        short,
        ("GRD", "CTB"),
        |grd, ctb| grd > ctb,
    );
    findings.compare(
        "FPS closely matches CTB over 100 ms (deviation within a quarter)",
        short,
        ("FPS", "CTB"),
        |fps, ctb| is_near(fps, ctb, CLOSE_MATCH),
    );
    findings.three_to_seven("GRD divides about 3 to 7", "GRD");
    findings.three_to_seven("FPS divides about 3 to 7", "FPS");
    if let Some(fairness) = findings.spread("GTB", jain) {
        let figures = format!(
            "{:.3} ({:.3}..{:.3})",
            fairness.median, fairness.least, fairness.greatest
        );
        let holds = fairness.median < VISIBLY_UNFAIR;
        findings.add(
            "GTB is unfair (below 0.9; paper: around 0.7)",
            holds,
            figures,
        );
    }
    findings.compare(
        "GRD is at least as fair as CTB",
        jain,
        ("GRD", "CTB"),
        |grd, ctb| grd >= ctb - JAIN_NOISE,
    );
    findings.compare(
        "FPS is at least as fair as CTB",
        jain,
        ("FPS", "CTB"),
        |fps, ctb| fps >= ctb - JAIN_NOISE,
    );
    findings.compare(
        "a central limiter that drops at random is fairer than CTB",
        jain,
        ("CRD", "CTB"),
        |crd, ctb| crd >= ctb,
    );
}

/// Figure 6. Variation is the deviation of the rate of all over 1 s, over the whole run and while all five flows are there.
pub(super) fn join(findings: &mut Findings<'_>) {
    let whole = |run: &Record| run.result.forwarded_mbps_1s.deviation;
    let of_five = |run: &Record| {
        let seconds = (45..60).map(f64::from);
        let rates: Vec<f64> = seconds
            .map(|at_s| run.result.forwarded.mbps(at_s, at_s + 1.0))
            .collect();
        Spread::of(&rates).deviation
    };
    findings.compare(
        "GRD at 500 ms varies more than at 50 ms",
        whole,
        ("GRD 500 ms", "GRD 50 ms"),
        |slow, quick| slow > quick,
    );
    findings.compare(
        "GRD at 500 ms varies more than at 50 ms while five flows are there",
        of_five,
        ("GRD 500 ms", "GRD 50 ms"),
        |slow, quick| slow > quick,
    );
    findings.compare(
        "GRD at 500 ms forwards less than at 50 ms",
        |run| run.result.forwarded_mbps_1s.mean,
        ("GRD 500 ms", "GRD 50 ms"),
        |slow, quick| slow < quick,
    );
    for (of_whole, of_steady, other) in [
        (
            "FPS at 500 ms varies less than GRD at 50 ms",
            "FPS at 500 ms varies less than GRD at 50 ms while five flows are there",
            "GRD 50 ms",
        ),
        (
            "FPS at 500 ms varies less than CTB",
            "FPS at 500 ms varies less than CTB while five flows are there",
            "CTB",
        ),
    ] {
        findings.compare(of_whole, whole, ("FPS 500 ms", other), |fps, other| {
            fps < other
        });
        findings.compare(of_steady, of_five, ("FPS 500 ms", other), |fps, other| {
            fps < other
        });
    }
    fifths(findings);
}

/// What each of the five flows has while all are there.
fn fifths(findings: &mut Findings<'_>) {
    for (finding, series) in [
        (
            "with FPS at 500 ms each of the five flows has a fifth, within 10 %",
            "FPS 500 ms",
        ),
        (
            "with FPS at 50 ms each of the five flows has a fifth, within 10 %",
            "FPS 50 ms",
        ),
    ] {
        let worst = findings.spread(series, |run| {
            let parts = 0..run.result.goodput.bytes.len();
            let mbps: Vec<f64> = parts
                .map(|part| run.result.goodput.series_mbps(part, 45.0, 60.0))
                .collect();
            let fifth = mbps.iter().sum::<f64>() / 5.0;
            let missed = mbps.iter().map(|mbps| (mbps / fifth - 1.0).abs());
            missed.fold(0.0, f64::max)
        });
        if let Some(worst) = worst {
            let figures = format!("the worst is off by {:.1} %", 100.0 * worst.median);
            findings.add(finding, worst.median <= 0.1, figures);
        }
    }
}

/// Table 1.
pub(super) fn web(findings: &mut Findings<'_>) {
    let bulk = |run: &Record| part_mbps(run, 0);
    let web = |run: &Record| part_mbps(run, 1);
    for (finding, series) in [
        (
            "bulk flows get about the same by GRD as by CTB (10 %)",
            "GRD",
        ),
        (
            "bulk flows get about the same by FPS as by CTB (10 %)",
            "FPS",
        ),
    ] {
        findings.compare(finding, bulk, (series, "CTB"), |one, ctb| {
            is_near(one, ctb, RATE_NOISE)
        });
    }
    for (finding, series) in [
        ("web requests get at least as much by GRD as by CTB", "GRD"),
        ("web requests get at least as much by FPS as by CTB", "FPS"),
    ] {
        findings.compare(finding, web, (series, "CTB"), |one, ctb| {
            one >= ctb * (1.0 - RATE_NOISE)
        });
    }
    for class in 1..4 {
        let kbps = |run: &Record| {
            let rows = run.result.downloads.as_ref().map(|all| all.rows.as_slice());
            let row = rows.and_then(|rows| rows.get(class));
            row.and_then(|row| row.kbps).unwrap_or(0.0)
        };
        let finding = match class {
            1 => "FPS serves transfers of 5 to 50 kB at least as fast as CTB",
            2 => "FPS serves transfers of 50 to 500 kB at least as fast as CTB",
            _ => "FPS serves larger transfers at least as fast as CTB",
        };
        findings.compare(finding, kbps, ("FPS", "CTB"), |fps, ctb| {
            fps >= ctb * (1.0 - RATE_NOISE)
        });
    }
    findings.compare(
        "GRD is fairest to the bulk flows",
        jain,
        ("GRD", "CTB"),
        |grd, ctb| grd >= ctb,
    );
    findings.compare(
        "FPS is about as fair to the bulk flows as CTB",
        jain,
        ("FPS", "CTB"),
        |fps, ctb| fps >= ctb - JAIN_NOISE,
    );
}

/// Payload megabits per second of a part of the traffic, after warm-up.
fn part_mbps(run: &Record, part: usize) -> f64 {
    let work = &run.workload;
    run.result
        .goodput
        .series_mbps(part, work.warmup_s, work.seconds)
}

/// Figure 7. Ten seconds after each change, within 10 %: the means over the next 5 s and up to the next change.
pub(super) fn bottleneck(findings: &mut Findings<'_>) {
    /// Payload of a packet, as a part of it.
    const PAYLOAD: f64 = 1_448.0 / 1_500.0;
    let spans = [
        (
            "flows are divided 8 to 2 from 10 s after the bottleneck came",
            (25.0, 31.0),
            [8.0, 2.0, 0.0],
        ),
        (
            "flows are divided 6 to 2 + 2 from 10 s after the eighth flow came, for 5 s",
            (41.0, 46.0),
            [6.0, 2.0, 2.0],
        ),
        (
            "flows are divided 6 to 2 + 2 until the end",
            (41.0, 60.0),
            [6.0, 2.0, 2.0],
        ),
    ];
    for (finding, (from_s, to_s), wanted) in spans {
        let mut holds = true;
        let mut figures = Vec::new();
        for (part, wanted) in wanted.into_iter().enumerate() {
            let got = findings.spread("FPS", |run| {
                run.result.goodput.series_mbps(part, from_s, to_s) / PAYLOAD
            });
            let Some(got) = got else { return };
            if wanted > 0.0 {
                holds &= is_near(got.median, wanted, RATE_NOISE);
                figures.push(format!(
                    "{:.2} ({:.2}..{:.2})",
                    got.median, got.least, got.greatest
                ));
            }
        }
        findings.add(finding, holds, figures.join(" : ") + " Mbps");
    }
}

/// Table 2.
pub(super) fn round_trips(findings: &mut Findings<'_>) {
    findings.limit_holds("all deliver the same in all, within 2 % of the limit", NEAR);
    let long = |run: &Record| part_mbps(run, 0) / 3.0;
    let short = |run: &Record| part_mbps(run, 1) / 7.0;
    let ratio = move |run: &Record| short(run) / long(run).max(1e-9);
    for (finding, other) in [
        (
            "FPS is fairer between round trip times than CTB (short to long)",
            "CTB",
        ),
        (
            "FPS is fairer between round trip times than GRD (short to long)",
            "GRD",
        ),
    ] {
        findings.compare(finding, ratio, ("FPS", other), |fps, other| fps < other);
    }
    findings.compare(
        "long flows get at least twice as much by FPS as by CTB",
        long,
        ("FPS", "CTB"),
        |fps, ctb| fps >= 2.0 * ctb,
    );
}
