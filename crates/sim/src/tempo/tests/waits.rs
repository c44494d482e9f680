//! The worst waits of events. "If the system is conformant and stable, no event will wait in a
//! queue for longer than a period T before being scheduled" (Tempo): where that fails, and what
//! holds instead.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use kernel::theory::{Claim, Demand, claims, wait_bound};

const T: Duration = Duration::from_millis(10);
const QUANTUM: Duration = Duration::from_micros(100);

/// `events` events of 100 µs at once.
fn burst(at: Duration, events: usize) -> Vec<(Duration, Duration)> {
    vec![(at, us(100)); events]
}

/// No overruns, and no backlog that lasts.
fn assert_conformant_and_stable(measured: &Measured) {
    for task in &measured.tasks {
        assert_eq!(
            (task.overruns, task.unstable_spells, task.queued),
            (0, 0, 0),
            "{task:?}"
        );
    }
}

#[test]
fn a_burst_waits_longer_than_a_period_though_all_are_conformant_and_stable() {
    let measured = run(&spec(
        ms(200),
        vec![traced("burst", 1.0, &burst(ms(0), 500))],
    ));
    assert_conformant_and_stable(&measured);
    assert!((measured.tasks[0].wait.max_us - 49_900.0).abs() < 0.5);
}

/// Also an event that finds an empty queue: its task has used its credits, others use theirs, and then have more.
#[test]
fn a_task_waits_longer_than_a_period_for_its_turn() {
    let mut own = burst(ms(0), 10);
    own.extend(burst(ms(1), 1));
    let tasks = vec![
        traced("small", 0.1, &own),
        traced("large", 0.9, &burst(ms(1), 300)),
    ];
    let measured = run(&spec(ms(200), tasks));
    assert_conformant_and_stable(&measured);
    // 9 ms of the present period, and 8 of the next until both have a millisecond left.
    let waited = measured.tasks[0].turn_wait_max_us;
    assert!((waited - 17_000.0).abs() <= 200.0, "{waited}");
}

/// And one whose work keeps to its share in every window of a period, where its neighbour's does not: a period of
/// credits lasts as long as the system has next to nothing to do.
#[test]
fn keeping_to_ones_share_in_every_window_does_not_help_after_idle_time() {
    let mut own = burst(ms(0), 10);
    own.extend(burst(ms(10), 1));
    let tasks = vec![
        traced("small", 0.1, &own),
        traced("large", 0.9, &burst(us(9_990), 300)),
    ];
    let measured = run(&spec(ms(200), tasks));
    assert_conformant_and_stable(&measured);
    assert!(measured.tasks[0].demand_periods_max <= 0.1 + 1e-9);
    let waited = measured.tasks[0].turn_wait_max_us;
    assert!((waited - 17_000.0).abs() <= 200.0, "{waited}");
}

/// Gaps and service times in microseconds; gaps are often nothing.
fn events() -> impl Strategy<Value = Vec<(Duration, Duration)>> {
    let gap = prop_oneof![4 => Just(0_u64), 3 => 1_u64..300, 1 => 300_u64..30_000];
    prop::collection::vec((gap, 1_u64..400), 1..150).prop_map(|gaps| {
        let mut at_us = 0;
        let event = |(gap_us, service_us)| {
            at_us += gap_us;
            (us(at_us), us(service_us))
        };
        gaps.into_iter().map(event).collect()
    })
}

/// Shares of two to five tasks that sum up to one.
fn shares() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1_u32..20, 2..6).prop_map(|parts| {
        let sum: u32 = parts.iter().sum();
        parts
            .iter()
            .map(|&part| (f64::from(part) / f64::from(sum) * 1e3).floor() / 1e3)
            .collect()
    })
}

fn of_traces(shares: &[f64], traces: &[Vec<(Duration, Duration)>]) -> Spec {
    let tasks = shares.iter().zip(traces);
    let tasks = tasks.map(|(&share, events)| traced("task", share, events));
    spec(ms(5_000), tasks.collect())
}

/// Leaves events out so that no window of `window` brings more than `most` of work.
fn shaped(
    events: &[(Duration, Duration)],
    window: Duration,
    most: Duration,
) -> Vec<(Duration, Duration)> {
    let mut demand = Demand::new(window);
    let mut kept = Vec::new();
    for &(at, service) in events {
        let now = clock::Instant::ZERO + at;
        if demand.at(now) + service <= most {
            demand.add(now, service);
            kept.push((at, service));
        }
    }
    kept
}

fn claims_of(shares: &[f64], turn_max: Duration) -> Vec<Claim> {
    let shares: Vec<_> = shares.iter().map(|&value| share(value)).collect();
    claims(T, 100, &shares, &vec![turn_max; shares.len()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever arrives: no event waits longer than the bound for the work of its own that is ahead of it.
    #[test]
    fn no_event_waits_longer_than_the_bound(
        shares in shares(),
        traces in prop::collection::vec(events(), 5),
    ) {
        let spec = of_traces(&shares, &traces);
        let claims = claims_of(&shares, us(400));
        let mut worst = None;
        simulate_with(&spec, |served| {
            let bound = wait_bound(&claims, served.task, QUANTUM, served.work_ahead);
            if served.wait() > bound {
                worst = Some((*served, bound));
            }
        })
        .expect("valid");
        prop_assert_eq!(worst, None);
    }

    /// Where every task keeps to its share in every window of a period, the paper's T holds: on one thread and on
    /// several, and in any order of service.
    #[test]
    fn no_event_waits_longer_than_a_period_where_no_window_brings_more_than_its_share(
        shares in shares(),
        traces in prop::collection::vec(events(), 5),
        threads in 1_u32..5,
        in_order: bool,
    ) {
        let allotment = |share: f64| T.mul_f64(share);
        let traces: Vec<_> = shares.iter().zip(&traces)
            .map(|(&share, events)| shaped(events, T, allotment(share)))
            .collect();
        let mut spec = of_traces(&shares, &traces);
        spec.kernel.threads = threads;
        if in_order {
            spec.kernel.served_by = ServedBy::Arrival;
        }
        let mut longest = Duration::ZERO;
        let measured = simulate_with(&spec, |served| {
            longest = longest.max(served.ended.saturating_since(served.arrived));
        }).expect("valid");
        prop_assert!(measured.demand_periods_max <= 1.0 + 1e-9);
        prop_assert!(longest <= T, "{longest:?}");
    }

    /// Where only one task does, by an event less than its allotment, and others never leave the server idle: a period
    /// of credits is then never longer than all allotments and one overrun each, and the task's credits never run out.
    #[test]
    fn a_task_that_keeps_to_its_share_is_safe_from_others_that_never_pause(
        shares in shares(),
        own in events(),
        others in prop::collection::vec(events(), 5),
    ) {
        let turn_max = us(400);
        let claims = claims_of(&shares, turn_max);
        let longest_period: Duration =
            claims.iter().map(|claim| claim.allotment + claim.turn_max).sum();
        prop_assume!(claims[0].allotment > turn_max);
        let most = claims[0].allotment - turn_max;
        let mut traces = others;
        traces[0] = shaped(&own, longest_period, most);
        let mut spec = of_traces(&shares, &traces);
        spec.duration = ms(400);
        // Has work from the first nanosecond on.
        spec.tasks[1] = TaskSpec {
            arrivals: Arrivals::Periodic(1e9),
            service: Service::Uniform(us(50), turn_max),
            ..spec.tasks[1].clone()
        };
        let mut longest = Duration::ZERO;
        simulate_with(&spec, |served| {
            if served.task == 0 {
                longest = longest.max(served.wait());
            }
        }).expect("valid");
        prop_assert!(longest <= longest_period, "{longest:?}");
    }
}

/// The bound is not far off: a search for the worst finds waits close to it.
#[test]
fn the_bound_is_nearly_reached() {
    let shares = [0.1, 0.6, 0.3];
    let mut worst = 0.0_f64;
    for begin_us in (0..12_000).step_by(500) {
        let mut own = burst(ms(0), 10);
        own.extend(burst(us(begin_us + 1_050), 1));
        let traces = [
            own,
            burst(us(begin_us + 1_000), 300),
            burst(us(begin_us + 1_000), 300),
        ];
        let claims = claims_of(&shares, us(100));
        simulate_with(&of_traces(&shares, &traces), |served| {
            let bound = wait_bound(&claims, served.task, QUANTUM, served.work_ahead);
            if served.task == 0 && served.work_ahead.is_zero() {
                worst = worst.max(served.wait().as_secs_f64() / bound.as_secs_f64());
            }
        })
        .expect("valid");
    }
    assert!((0.93..=1.0).contains(&worst), "{worst}");
}
