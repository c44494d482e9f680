//! Turns the outcome of a simulation into the figures that results keep.

use statistics::jain;

use super::definition::Planned;
use super::record::{Control, Downloads, LocalLimits, Measured, Rates, SizeClass, Steps, rounded};
use super::traffic::Part;
use crate::drl::outcome::{FlowOutcome, LimiterOutcome, Outcome};
use crate::drl::scenario::Scenario;

/// The most series of one kind that a record keeps.
const SERIES_MAX: usize = 16;

/// The most flows whose rates a record keeps.
const FLOWS_MAX: usize = 32;

/// Sizes of web objects as table 1 groups them, bytes.
const CLASSES: [(u64, Option<u64>); 4] = [
    (0, Some(5_000)),
    (5_000, Some(50_000)),
    (50_000, Some(500_000)),
    (500_000, None),
];

/// How much a record keeps, and from when on it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub(super) warmup_s: f64,
    pub(super) step_s: f64,
}

/// The figures of a run.
pub(super) fn measured(
    planned: &Planned,
    parts: &[Part],
    outcome: &Outcome,
    keep: Keep,
) -> Measured {
    let (from_s, to_s) = (keep.warmup_s, outcome.duration_s);
    let is_few = outcome.limiters.len() <= SERIES_MAX;
    let bulk: Vec<&FlowOutcome> = outcome.flows.iter().filter(|flow| !flow.web).collect();
    let flows_mbps: Vec<f64> = bulk
        .iter()
        .map(|flow| flow.goodput_mbps(from_s, to_s))
        .collect();
    let all_mbps: f64 = outcome
        .flows
        .iter()
        .map(|flow| flow.goodput_mbps(from_s, to_s))
        .sum();
    let sites = 0..outcome.limiters.len();
    let limiter_mbps = sites.map(|site| {
        let rates = outcome.limiter_mbps(site, to_s - from_s, from_s, to_s);
        rounded(rates.first().copied().unwrap_or(0.0))
    });
    Measured {
        forwarded: forwarded(outcome, keep, is_few),
        forwarded_mbps_1s: Rates::of(&outcome.aggregate_mbps(1.0, from_s, to_s)),
        forwarded_mbps_100ms: Rates::of(&outcome.aggregate_mbps(0.1, from_s, to_s)),
        limiter_mbps: limiter_mbps
            .take(if is_few { SERIES_MAX } else { 0 })
            .collect(),
        local_limits: local_limits(planned, outcome),
        dropped_packets: outcome.drops(),
        goodput: goodput(planned, parts, outcome),
        goodput_mbps: rounded(all_mbps),
        jain: (!bulk.is_empty()).then(|| rounded(jain(flows_mbps.iter().copied()))),
        flows_kbps: flows_kbps(planned, parts.len(), &flows_mbps),
        flows_never_served: bulk
            .iter()
            .filter(|flow| flow.delivered.iter().all(|&bytes| bytes == 0))
            .count() as u32,
        flows: bulk.len() as u32,
        downloads: downloads(outcome, from_s),
        control: control(&planned.scenario, outcome),
        hash: format!("{:016x}", outcome.hash),
    }
}

fn forwarded(outcome: &Outcome, keep: Keep, apart: bool) -> Steps {
    let per_step = (keep.step_s / outcome.bin_s).round().max(1.0) as usize;
    let bin_s = per_step as f64 * outcome.bin_s;
    let steps = (outcome.duration_s / bin_s).round() as usize;
    let each = outcome.limiters.iter().map(|limiter| {
        let mut bytes = vec![0; steps];
        for (bin, &forwarded) in limiter.forwarded.iter().enumerate() {
            if let Some(step) = bytes.get_mut(bin / per_step) {
                *step += u64::from(forwarded);
            }
        }
        bytes
    });
    let bytes = if apart {
        each.collect()
    } else {
        each.reduce(added).into_iter().collect()
    };
    Steps {
        bin_s: rounded(bin_s),
        bytes,
    }
}

fn added(mut sums: Vec<u64>, more: Vec<u64>) -> Vec<u64> {
    for (sum, bytes) in sums.iter_mut().zip(more) {
        *sum += bytes;
    }
    sums
}

fn local_limits(planned: &Planned, outcome: &Outcome) -> Option<LocalLimits> {
    let deciding = planned.deciding() as usize;
    let seconds = 0..outcome.duration_s as u32;
    let of_limiter = |limiter: &LimiterOutcome| -> Vec<f64> {
        let limits = seconds
            .clone()
            .map(|at_s| limiter.limit_mbps(f64::from(at_s)));
        limits.map(|mbps| (mbps * 1e3).round() / 1e3).collect()
    };
    (deciding <= SERIES_MAX).then(|| LocalLimits {
        bin_s: 1.0,
        mbps: outcome
            .limiters
            .iter()
            .take(deciding)
            .map(of_limiter)
            .collect(),
    })
}

/// By part of the traffic; payload is counted by second.
fn goodput(planned: &Planned, parts: &[Part], outcome: &Outcome) -> Steps {
    let seconds = outcome.duration_s.ceil() as usize;
    let mut bytes = vec![vec![0_u64; seconds]; parts.len()];
    for (number, flow) in outcome.flows.iter().enumerate() {
        let part = match planned.part_of_flow.get(number) {
            Some(&part) => Some(part),
            None => part_of_transfer(planned, parts, flow),
        };
        let Some(counted) = part.and_then(|part| bytes.get_mut(part)) else {
            continue;
        };
        for (second, delivered) in counted.iter_mut().zip(&flow.delivered) {
            *second += u64::from(*delivered);
        }
    }
    Steps { bin_s: 1.0, bytes }
}

fn part_of_transfer(planned: &Planned, parts: &[Part], flow: &FlowOutcome) -> Option<usize> {
    let began_s = flow.began.as_nanos() as f64 * 1e-9;
    let limiters = planned.scenario.limiters;
    let is_of = |part: &Part| part.has_transfer(flow.limiter, began_s, limiters);
    parts.iter().position(is_of)
}

fn flows_kbps(planned: &Planned, parts: usize, flows_mbps: &[f64]) -> Vec<Vec<f64>> {
    if flows_mbps.len() > FLOWS_MAX || flows_mbps.is_empty() {
        return Vec::new();
    }
    let mut lists = vec![Vec::new(); parts];
    for (&part, mbps) in planned.part_of_flow.iter().zip(flows_mbps) {
        if let Some(list) = lists.get_mut(part) {
            list.push((mbps * 1e6).round() / 1e3);
        }
    }
    lists
}

/// Those that began after warm-up.
fn downloads(outcome: &Outcome, from_s: f64) -> Option<Downloads> {
    let web = outcome.flows.iter().filter(|flow| flow.web);
    let web: Vec<&FlowOutcome> = web
        .filter(|flow| flow.began.as_nanos() as f64 * 1e-9 >= from_s)
        .collect();
    if web.is_empty() {
        return None;
    }
    let rows = CLASSES.map(|(from_bytes, below_bytes)| {
        let of_class =
            |bytes: u64| bytes >= from_bytes && below_bytes.is_none_or(|below| bytes < below);
        let taken = web.iter().filter_map(|flow| {
            let bytes = flow.transfer_bytes.filter(|&bytes| of_class(bytes))?;
            Some((bytes as f64 * 8e-3, flow.took_s()?))
        });
        // The harmonic mean of kilobits per second.
        let (count, slowness) = taken.fold((0_u64, 0.0), |(count, sum), (kilobits, took_s)| {
            (count + 1, sum + took_s / kilobits)
        });
        SizeClass {
            from_bytes,
            below_bytes,
            downloads: count,
            kbps: (count > 0).then(|| rounded(count as f64 / slowness)),
        }
    });
    Some(Downloads {
        begun: web.len() as u64,
        whole: web.iter().filter(|flow| flow.finished.is_some()).count() as u64,
        rows: rows.into(),
    })
}

fn control(scenario: &Scenario, outcome: &Outcome) -> Control {
    let per_s = outcome.control_bytes as f64 / outcome.duration_s;
    Control {
        updates: outcome.updates,
        lost: outcome.updates_lost,
        limiter_bytes_per_s: rounded(per_s / f64::from(scenario.limiters)),
        all_bits_per_s: rounded(outcome.control_bps()),
    }
}
