//! Laws of the scheduler on one thread, in virtual time, compared with the paper's scheduler in its
//! simplest form: tasks with numbers, and a loop over all of them.
#![cfg(not(feature = "loom"))]

use std::time::Duration;

use clock::Instant;
use kernel::{CpuShare, OnOverrun, Scheduler, SchedulerConfig, TaskId, Turn};
use proptest::prelude::*;

const PERIOD_NS: u64 = 10_000_000;
const BUCKETS: usize = 100;
const DEFICIT_PERIODS: i64 = 16;

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    Post { task: usize, events: usize },
    Take,
    Finish { held: usize, events: usize },
    Pass { ns: u64 },
}

/// The paper's schedule, spelled out.
struct Spec {
    tasks: Vec<SpecTask>,
    on_overrun: OnOverrun,
    epoch: i64,
}

#[derive(Default)]
struct SpecTask {
    allotment_ns: i64,
    credits_ns: i64,
    epoch: i64,
    is_held: bool,
    events: usize,
    posted: u64,
    served: u64,
    sojourn_ns: u64,
}

impl Spec {
    fn renew(&mut self, task: usize) {
        let (epoch, on_overrun) = (self.epoch, self.on_overrun);
        let task = &mut self.tasks[task];
        let deficit_ns = match on_overrun {
            OnOverrun::Report => 0,
            OnOverrun::Penalise => task
                .credits_ns
                .clamp(-DEFICIT_PERIODS * task.allotment_ns, 0),
        };
        if task.epoch != epoch {
            let earned_ns = (epoch - task.epoch) * task.allotment_ns;
            task.credits_ns = task.allotment_ns.min(deficit_ns + earned_ns);
            task.epoch = epoch;
        }
    }

    fn waiting(&self) -> Vec<usize> {
        let waits = |&task: &usize| self.tasks[task].events > 0 && !self.tasks[task].is_held;
        (0..self.tasks.len()).filter(waits).collect()
    }

    fn bucket(&self, task: usize) -> i64 {
        let quantum_ns = (PERIOD_NS / BUCKETS as u64) as i64;
        (self.tasks[task].credits_ns.max(0) + quantum_ns - 1) / quantum_ns
    }

    /// Gives out credits until a task that waits has some; the best bucket then.
    fn best_bucket(&mut self) -> Option<i64> {
        let waiting = self.waiting();
        loop {
            let best = waiting.iter().map(|&task| self.bucket(task)).max()?;
            if best > 0 {
                return Some(best);
            }
            self.epoch += 1;
            for &task in &waiting {
                self.renew(task);
            }
        }
    }

    fn pass(&mut self, ns: u64) {
        for task in &mut self.tasks {
            task.sojourn_ns += ns * task.events as u64;
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..5usize, 1..4usize).prop_map(|(task, events)| Step::Post { task, events }),
        3 => Just(Step::Take),
        3 => (0..5usize, 0..4usize).prop_map(|(held, events)| Step::Finish { held, events }),
        2 => (0..PERIOD_NS).prop_map(|ns| Step::Pass { ns }),
    ];
    proptest::collection::vec(step, 1..300)
}

fn on_overrun() -> impl Strategy<Value = OnOverrun> {
    prop_oneof![Just(OnOverrun::Report), Just(OnOverrun::Penalise)]
}

fn scheduler(on_overrun: OnOverrun) -> Scheduler {
    let config = SchedulerConfig {
        period: Duration::from_nanos(PERIOD_NS),
        buckets: BUCKETS,
        tasks_max: 16,
        on_overrun,
    };
    Scheduler::new(config).expect("valid")
}

/// Shares of five tasks at most, each at least 2 %, together at most the whole.
fn shares() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(1..10u32, 2..6).prop_map(|parts| {
        let sum: u32 = parts.iter().sum();
        parts
            .iter()
            .map(|&part| (f64::from(part) / f64::from(sum)).max(0.02) * 0.9)
            .collect()
    })
}

proptest! {
    /// Work-conserving; the task with the most credits first; credits never above what a period gives; every event that
    /// was posted is served or waits; the time that events spend is that of each, summed up.
    #[test]
    fn the_schedule_is_the_papers(steps in steps(), shares in shares(), on_overrun in on_overrun()) {
        let scheduler = scheduler(on_overrun);
        let mut spec = Spec { tasks: Vec::new(), on_overrun, epoch: 0 };
        let mut ids = Vec::new();
        for &share in &shares {
            let share = CpuShare::new(share).expect("a share");
            ids.push(scheduler.add(Some(share)).expect("room"));
            let allotment_ns = share.of_ns(PERIOD_NS) as i64;
            spec.tasks.push(SpecTask { allotment_ns, credits_ns: allotment_ns, ..SpecTask::default() });
        }
        let mut now = Instant::from_nanos(5);
        let mut held: Vec<Turn> = Vec::new();
        for step in steps {
            match step {
                Step::Post { task, events } => {
                    let task = task % ids.len();
                    let is_new = scheduler.post(ids[task], events, now);
                    prop_assert_eq!(is_new, spec.tasks[task].events == 0);
                    if is_new {
                        spec.renew(task);
                    }
                    spec.tasks[task].events += events;
                    spec.tasks[task].posted += events as u64;
                }
                Step::Take => {
                    prop_assert_eq!(scheduler.is_idle(), spec.waiting().is_empty());
                    let best = spec.best_bucket();
                    let turn = scheduler.take(now);
                    prop_assert_eq!(turn.is_some(), best.is_some(), "work-conserving");
                    if let (Some(turn), Some(best)) = (turn, best) {
                        let task = index_of(&ids, turn.task);
                        prop_assert!(!spec.tasks[task].is_held);
                        prop_assert_eq!(spec.bucket(task), best);
                        let credits_ns = turn.credits.as_nanos() as i64;
                        prop_assert_eq!(credits_ns, spec.tasks[task].credits_ns);
                        prop_assert!(credits_ns <= spec.tasks[task].allotment_ns);
                        prop_assert_eq!(turn.events, spec.tasks[task].events);
                        spec.tasks[task].is_held = true;
                        held.push(turn);
                    }
                }
                Step::Finish { held: which, events } if !held.is_empty() => {
                    let turn = held.remove(which % held.len());
                    let task = index_of(&ids, turn.task);
                    let used_ns = now.saturating_since(turn.began).as_nanos() as i64;
                    spec.tasks[task].credits_ns -= used_ns;
                    spec.renew(task);
                    let events = events.min(spec.tasks[task].events);
                    let has_more = scheduler.finish(turn, events, now);
                    spec.tasks[task].events -= events;
                    spec.tasks[task].served += events as u64;
                    spec.tasks[task].is_held = false;
                    prop_assert_eq!(has_more, spec.tasks[task].events > 0);
                }
                Step::Finish { .. } => {}
                Step::Pass { ns } => {
                    now += Duration::from_nanos(ns);
                    spec.pass(ns);
                }
            }
            for (id, task) in ids.iter().zip(&spec.tasks) {
                let stats = scheduler.stats_of(*id, now).expect("it is there");
                prop_assert_eq!(stats.served_events, task.served);
                prop_assert_eq!(stats.queued_events, task.events);
                prop_assert_eq!(stats.served_events + stats.queued_events as u64, task.posted);
                prop_assert_eq!(stats.sojourn, Duration::from_nanos(task.sojourn_ns));
            }
        }
        prop_assert_eq!(scheduler.stats().periods, spec.epoch as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Tasks that always have work get what they declare, in parts of the sum of what is declared, if their turns are short
    /// against their credits.
    #[test]
    fn shares_are_respected(
        shares in shares(),
        turns_us in proptest::collection::vec(1..50u64, 5),
    ) {
        let scheduler = scheduler(OnOverrun::Penalise);
        let mut now = Instant::ZERO;
        let mut ids = Vec::new();
        for &share in &shares {
            let share = CpuShare::new(share).expect("a share");
            let id = scheduler.add(Some(share)).expect("room");
            scheduler.post(id, 1, now);
            ids.push(id);
        }
        let end = Instant::from_nanos(200 * PERIOD_NS);
        while now < end {
            let turn = scheduler.take(now).expect("all have work");
            let task = turn.task;
            now += Duration::from_micros(turns_us[index_of(&ids, task)]);
            scheduler.post(task, 1, now);
            scheduler.finish(turn, 1, now);
        }
        let declared: f64 = shares.iter().sum();
        for (id, share) in ids.iter().zip(&shares) {
            let used = scheduler.stats_of(*id, now).expect("it is there").used;
            let obtained = used.as_secs_f64() / now.saturating_since(Instant::ZERO).as_secs_f64();
            let error = obtained / (share / declared) - 1.0;
            prop_assert!(error.abs() < 0.02, "{shares:?} {turns_us:?}: {obtained} of {share}");
        }
    }
}

fn index_of(ids: &[TaskId], task: TaskId) -> usize {
    let found = ids.iter().position(|&id| id == task);
    found.expect("one of ours")
}
