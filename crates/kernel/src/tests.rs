//! The scheduler on one thread, in virtual time.

use std::time::Duration;

use clock::Instant;

use crate::{CpuShare, OnOverrun, Scheduler, SchedulerConfig, TaskId};

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
            let share = CpuShare::new(share).expect("a share");
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

/// A task pays for what is done for it in others' turns: with what it gets in its own that makes its share.
#[test]
fn what_is_charged_outside_turns_is_part_of_the_share() {
    for charged_us in [0, 3, 8] {
        let scheduler = Scheduler::new(SchedulerConfig::default()).expect("valid");
        let mut now = Instant::ZERO;
        let tasks = [0.5, 0.3, 0.2].map(|share| {
            let share = CpuShare::new(share).expect("a share");
            let task = scheduler.add(Some(share)).expect("they fit");
            scheduler.post(task, 1, now);
            task
        });
        while now < Instant::from_nanos(5_000_000_000) {
            let mut turn = scheduler.take(now).expect("all have work");
            let task = turn.task;
            now += Duration::from_micros(30);
            if task == tasks[0] {
                // A part of every turn of the first is work for the last.
                let charged = Duration::from_micros(charged_us);
                turn.began += charged;
                scheduler.charge(tasks[2], charged);
            }
            scheduler.post(task, 1, now);
            scheduler.finish(turn, 1, now);
        }
        let used = tasks.map(|task| scheduler.stats_of(task, now).expect("it lives").used);
        let total: Duration = used.iter().sum();
        assert_eq!(total, now - Instant::ZERO, "every instant is charged once");
        for (used, share) in used.iter().zip([0.5, 0.3, 0.2]) {
            let obtained = used.as_secs_f64() / total.as_secs_f64();
            assert!(
                (obtained / share - 1.0).abs() < 0.02,
                "{charged_us}: {used:?}"
            );
        }
    }
}

#[test]
fn a_charge_to_an_idle_task_is_missing_when_it_wakes_up() {
    let scheduler = Scheduler::new(SchedulerConfig::default()).expect("valid");
    let now = Instant::ZERO;
    let half = CpuShare::new(0.5).expect("a share");
    let task = scheduler.add(Some(half)).expect("room");
    scheduler.charge(task, Duration::from_millis(2));
    assert!(!scheduler.is_exhausted(task));
    assert!(scheduler.post(task, 1, now));
    let turn = scheduler.take(now).expect("it has work");
    assert_eq!(turn.credits, Duration::from_millis(3));
    scheduler.finish(turn, 1, now);
    scheduler.charge(task, Duration::from_millis(3));
    assert!(scheduler.is_exhausted(task));
    let stats = scheduler.stats_of(task, now).expect("it lives");
    assert_eq!(stats.used, Duration::from_millis(5));
    scheduler.remove(task).expect("it is there");
    scheduler.charge(task, Duration::from_millis(3));
    assert!(!scheduler.is_exhausted(task));
}

/// A task that is charged while it waits for its turn stands where it no longer belongs; whoever has credits goes first.
#[test]
fn a_task_charged_while_it_waits_goes_behind_those_with_credits() {
    let scheduler = Scheduler::new(SchedulerConfig::default()).expect("valid");
    let now = Instant::ZERO;
    let [rich, poor] = [0.6, 0.4].map(|share| {
        let share = CpuShare::new(share).expect("a share");
        let task = scheduler.add(Some(share)).expect("room");
        scheduler.post(task, 1, now);
        task
    });
    scheduler.charge(rich, Duration::from_millis(7));
    let turn = scheduler.take(now).expect("both have work");
    assert_eq!((turn.task, scheduler.stats().periods), (poor, 0));
    scheduler.finish(turn, 1, now);
    let turn = scheduler.take(now).expect("one has work");
    assert_eq!((turn.task, scheduler.stats().periods), (rich, 1));
    assert_eq!(
        turn.credits,
        Duration::from_millis(5),
        "1 of 6 ms is worked off"
    );
    scheduler.finish(turn, 1, now);
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
        let task = scheduler.add(Some(CpuShare::WHOLE)).expect("there is room");
        assert!(scheduler.add(None).is_err());
        scheduler.post(task, 3, now);
        scheduler.remove(task).expect("it is there");
        assert!(!scheduler.post(task, 1, now), "its name finds nothing");
        assert!(scheduler.take(now).is_none(), "nor is it served");
        assert!(scheduler.is_idle());
    }
}

/// A scheduler with one task of half the period, 5 ms, and one that keeps periods going.
fn half() -> (Scheduler, TaskId) {
    let scheduler = Scheduler::new(SchedulerConfig::default()).expect("valid");
    let share = CpuShare::new(0.5).expect("a share");
    let task = scheduler.add(Some(share)).expect("room");
    (scheduler, task)
}

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

#[test]
fn an_overrun_is_worked_off_in_the_periods_that_follow() {
    let (scheduler, task) = half();
    scheduler.post(task, 10, at_ms(0));
    let turn = scheduler.take(at_ms(0)).expect("it has work");
    assert_eq!(turn.credits, Duration::from_millis(5));
    scheduler.finish(turn, 1, at_ms(12));
    // −7 ms, −2 ms, 3 ms.
    let turn = scheduler.take(at_ms(12)).expect("it has work");
    assert_eq!(turn.credits, Duration::from_millis(3));
    assert_eq!(scheduler.stats().periods, 2);
    scheduler.finish(turn, 9, at_ms(12));
    let stats = scheduler.stats_of(task, at_ms(12)).expect("it is there");
    assert_eq!(stats.overruns, 1);
    assert_eq!(stats.overrun_max, Duration::from_millis(7));
}

#[test]
fn an_overrun_is_worked_off_while_a_task_is_idle() {
    let (scheduler, idle) = half();
    scheduler.post(idle, 1, at_ms(0));
    let turn = scheduler.take(at_ms(0)).expect("it has work");
    scheduler.finish(turn, 1, at_ms(12));
    // Another task goes through three periods meanwhile.
    let busy = scheduler.add(Some(CpuShare::new(0.5).expect("a share")));
    let busy = busy.expect("room");
    for _ in 0..4 {
        scheduler.post(busy, 1, at_ms(12));
        let turn = scheduler.take(at_ms(12)).expect("it has work");
        scheduler.finish(turn, 1, at_ms(17));
    }
    assert_eq!(scheduler.stats().periods, 3);
    scheduler.post(idle, 1, at_ms(30));
    let turn = scheduler.take(at_ms(30)).expect("it has work");
    assert_eq!((turn.task, turn.credits), (idle, Duration::from_millis(5)));
    scheduler.finish(turn, 1, at_ms(30));
}

#[test]
fn a_deficit_is_bounded() {
    let (scheduler, task) = half();
    scheduler.post(task, 2, at_ms(0));
    let turn = scheduler.take(at_ms(0)).expect("it has work");
    scheduler.finish(turn, 1, at_ms(1_000_000));
    let _turn = scheduler.take(at_ms(1_000_000)).expect("it has work");
    // 16 periods' credits were held against it, so those of the 17th are the first that it has.
    assert_eq!(scheduler.stats().periods, 17);
}

#[test]
fn a_task_that_never_empties_its_queue_is_unstable_until_it_does() {
    let (scheduler, task) = half();
    let is_unstable = || {
        let stats = scheduler.stats_of(task, at_ms(0)).expect("it is there");
        (stats.is_unstable, stats.unstable_spells)
    };
    scheduler.post(task, 1_000, at_ms(0));
    for period in 0..u64::from(crate::UNSTABLE_PERIODS) {
        assert_eq!(is_unstable(), (false, 0), "in period {period}");
        let turn = scheduler.take(at_ms(5 * period)).expect("it has work");
        scheduler.finish(turn, 1, at_ms(5 * period + 5));
    }
    let turn = scheduler.take(at_ms(1_000)).expect("it has work");
    assert_eq!(is_unstable(), (true, 1));
    let left = turn.events;
    assert!(!scheduler.finish(turn, left, at_ms(1_001)));
    assert_eq!(is_unstable(), (false, 1), "idle, so it is not");
}

#[test]
fn more_events_than_are_counted_are_not_taken_off() {
    let (scheduler, task) = half();
    scheduler.post(task, 2, at_ms(0));
    let turn = scheduler.take(at_ms(0)).expect("it has work");
    assert_eq!(turn.events, 2);
    assert!(!scheduler.finish(turn, 5, at_ms(0)));
    let stats = scheduler.stats_of(task, at_ms(0)).expect("it is there");
    assert_eq!((stats.served_events, stats.queued_events), (2, 0));
    assert!(scheduler.post(task, 1, at_ms(0)));
}

#[test]
fn a_task_removed_in_its_turn_is_gone_when_the_turn_ends() {
    let (scheduler, task) = half();
    scheduler.post(task, 3, at_ms(0));
    let turn = scheduler.take(at_ms(0)).expect("it has work");
    scheduler.remove(task).expect("it is there");
    assert_eq!(scheduler.remove(task), Err(crate::KernelError::NoSuchTask));
    assert!(!scheduler.finish(turn, 3, at_ms(1)));
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.stats().tasks, 0);
}

#[test]
fn settings_out_of_range_are_refused() {
    let with = |change: fn(&mut SchedulerConfig)| {
        let mut config = SchedulerConfig::default();
        change(&mut config);
        Scheduler::new(config)
            .map(|_| ())
            .expect_err("out of range")
    };
    use crate::KernelError::{Buckets, Capacity, Period};
    assert_eq!(
        with(|config| config.period = Duration::ZERO),
        Period(Duration::ZERO)
    );
    let long = Duration::from_secs(61);
    assert_eq!(
        with(|config| config.period = Duration::from_secs(61)),
        Period(long)
    );
    assert_eq!(with(|config| config.buckets = 0), Buckets(0));
    assert_eq!(with(|config| config.buckets = 10_001), Buckets(10_001));
    assert_eq!(with(|config| config.tasks_max = 0), Capacity(0));
}

#[test]
fn shares_never_add_up_to_more_than_the_whole() {
    let (scheduler, task) = half();
    let share = |value| Some(CpuShare::new(value).expect("a share"));
    assert!(scheduler.add(share(0.6)).is_err());
    let other = scheduler.add(share(0.5)).expect("exactly the whole");
    assert!(scheduler.set_share(task, share(0.51)).is_err());
    scheduler.set_share(task, share(0.4)).expect("less");
    scheduler
        .set_share(other, share(0.6))
        .expect("what became free");
    let rest = scheduler.add(None).expect("room");
    let stats = scheduler.stats_of(rest, at_ms(0)).expect("it is there");
    assert_eq!(
        stats.allotment,
        Duration::from_micros(100),
        "one step of credits"
    );
    for value in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY, 1e-9] {
        assert!(CpuShare::new(value).is_err(), "{value}");
    }
    assert_eq!("0.25".parse(), CpuShare::new(0.25));
    assert!("a quarter".parse::<CpuShare>().is_err());
}
