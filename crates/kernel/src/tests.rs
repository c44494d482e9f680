//! The scheduler on one thread, in virtual time.

use std::time::Duration;

use clock::Instant;

use crate::{OnOverrun, Scheduler, SchedulerConfig, Share, TaskId};

/// Serves saturated tasks with turns of `turn_us` each until `until`; gives the time that each got.
fn saturate(shares: &[f64], turn_us: &[u64], on_overrun: OnOverrun) -> Vec<f64> {
    let config = SchedulerConfig {
        on_overrun,
        ..SchedulerConfig::default()
    };
    let scheduler = Scheduler::new(config).expect("the default is valid");
    let mut now = Instant::ZERO;
    let tasks: Vec<TaskId> = shares
        .iter()
        .map(|&share| {
            let share = Share::new(share).expect("a share");
            let task = scheduler.add(Some(share)).expect("they fit");
            scheduler.post(task, 1, now);
            task
        })
        .collect();
    while now < Instant::from_nanos(10_000_000_000) {
        let turn = scheduler.take(now).expect("all have work");
        let task = turn.task;
        let number = tasks.iter().position(|&other| other == task);
        now += Duration::from_micros(turn_us[number.expect("one of ours")]);
        scheduler.post(task, 1, now);
        assert!(scheduler.finish(turn, 1, now));
    }
    let used = |&task: &TaskId| scheduler.stats_of(task, now).expect("it lives").used;
    let total = now.as_nanos() as f64 / 1e9;
    tasks
        .iter()
        .map(|task| used(task).as_secs_f64() / total)
        .collect()
}

#[test]
fn saturated_tasks_get_what_they_declare() {
    for turn_us in [[10, 10, 10], [400, 100, 7], [3, 50, 900]] {
        let obtained = saturate(&[0.5, 0.3, 0.2], &turn_us, OnOverrun::Penalise);
        for (got, wanted) in obtained.iter().zip([0.5, 0.3, 0.2]) {
            assert!(
                (got / wanted - 1.0).abs() < 0.02,
                "{turn_us:?}: {obtained:?}"
            );
        }
    }
}

#[test]
fn without_a_penalty_long_turns_pay_off() {
    let obtained = saturate(&[0.5, 0.5], &[900, 10], OnOverrun::Report);
    assert!(obtained[0] > 0.5, "{obtained:?}");
}

#[test]
fn a_removed_task_leaves_its_place_and_its_share() {
    let config = SchedulerConfig {
        tasks_max: 1,
        ..SchedulerConfig::default()
    };
    let scheduler = Scheduler::new(config).expect("valid");
    let now = Instant::ZERO;
    for _ in 0..5 {
        let task = scheduler.add(Some(Share::WHOLE)).expect("there is room");
        assert!(scheduler.add(None).is_err());
        scheduler.post(task, 3, now);
        scheduler.remove(task, now).expect("it is there");
        assert!(!scheduler.post(task, 1, now), "its name finds nothing");
        assert!(scheduler.take(now).is_none(), "nor is it served");
        assert!(scheduler.is_idle());
    }
}
