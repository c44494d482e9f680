//! Two ways to divide several processors, in virtual time: one schedule that all threads take from
//! (the paper's), and one schedule per thread with a task for each topic that the thread works for
//! (the broker's reactors).
//!
//! A message costs its reading, anywhere, and its passing on, which the second way does at the
//! topic's home. Publishers are on all threads and always have more. The statements of
//! docs/kernel.md about the two are asserted here.
#![cfg(not(feature = "loom"))]

use std::time::Duration;

use clock::Instant;
use kernel::{CpuShare, Scheduler, SchedulerConfig, TaskId};

const THREADS: usize = 2;
/// What reading a message and passing it on take in the mean, each from half to one and a half of it.
const READ_NS: u64 = 8_000;
const PASS_ON_NS: u64 = 8_000;
const END: Instant = Instant::from_nanos(500_000_000);

/// Messages that one thread has read and the home has not passed on, at most.
const IN_TRANSIT_MAX: usize = 256;

struct Topic {
    share: f64,
    home: usize,
}

/// What became of the topics.
#[derive(Debug)]
struct Outcome {
    /// Processors that each topic used in the mean.
    cores: Vec<f64>,
    /// Turns of a task that followed one of the same task on another thread, of all.
    moved: f64,
}

impl Outcome {
    fn busy(&self) -> f64 {
        self.cores.iter().sum()
    }
}

/// Costs of messages, the same in every run.
struct Costs(u64);

impl Costs {
    fn next(&mut self, mean_ns: u64) -> Duration {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Duration::from_nanos(mean_ns / 2 + (self.0 >> 33) % mean_ns)
    }
}

fn topics(shares_and_homes: &[(f64, usize)]) -> Vec<Topic> {
    let topic = |&(share, home)| Topic { share, home };
    shares_and_homes.iter().map(topic).collect()
}

fn scheduler(topics: &[Topic]) -> (Scheduler, Vec<TaskId>) {
    let scheduler = Scheduler::new(SchedulerConfig::default()).expect("the default is valid");
    let add = |topic: &Topic| {
        let share = CpuShare::new(topic.share).expect("a share");
        scheduler.add(Some(share)).expect("it fits")
    };
    let tasks = topics.iter().map(add).collect();
    (scheduler, tasks)
}

fn number_of(tasks: &[TaskId], task: TaskId) -> usize {
    let found = tasks.iter().position(|&other| other == task);
    found.expect("one of ours")
}

fn outcome(used: &[Duration], moved: usize, turns: usize) -> Outcome {
    let whole = (END - Instant::ZERO).as_secs_f64();
    Outcome {
        cores: used.iter().map(|used| used.as_secs_f64() / whole).collect(),
        moved: moved as f64 / turns as f64,
    }
}

/// One schedule for all threads.
fn together(topics: &[Topic]) -> Outcome {
    let (scheduler, tasks) = scheduler(topics);
    for &task in &tasks {
        scheduler.post(task, 1, Instant::ZERO);
    }
    let mut used = vec![Duration::ZERO; topics.len()];
    let (mut moved, mut turns) = (0, 0);
    let mut costs = Costs(1);
    let mut last_on = vec![None; topics.len()];
    let mut serving: [_; THREADS] = std::array::from_fn(|_| None);
    let mut free_at = [Instant::ZERO; THREADS];
    while let Some(thread) = (0..THREADS).min_by_key(|&thread| free_at[thread]) {
        let now = free_at[thread];
        if now >= END {
            break;
        }
        if let Some(turn) = serving[thread].take() {
            let turn: kernel::Turn = turn;
            scheduler.post(turn.task, 1, now);
            scheduler.finish(turn, 1, now);
        }
        let Some(turn) = scheduler.take(now) else {
            free_at[thread] = now + Duration::from_nanos(READ_NS);
            continue;
        };
        let cost = costs.next(READ_NS + PASS_ON_NS);
        free_at[thread] = now + cost;
        let topic = number_of(&tasks, turn.task);
        let last = last_on[topic].replace(thread);
        moved += usize::from(last.is_some_and(|last| last != thread));
        turns += 1;
        used[topic] += cost;
        serving[thread] = Some(turn);
    }
    outcome(&used, moved, turns)
}

/// What waits for a topic on one thread.
#[derive(Clone, Copy, Default)]
struct Line {
    /// Messages read elsewhere.
    mail: usize,
    in_transit: usize,
    /// The next thing to do is to read.
    is_to_read: bool,
}

/// A schedule for each thread.
fn apart(topics: &[Topic]) -> Outcome {
    let schedules: Vec<_> = (0..THREADS).map(|_| scheduler(topics)).collect();
    for (scheduler, tasks) in &schedules {
        for &task in tasks {
            scheduler.post(task, 1, Instant::ZERO);
        }
    }
    let mut lines = vec![[Line::default(); THREADS]; topics.len()];
    let mut used = vec![Duration::ZERO; topics.len()];
    let mut turns = 0;
    let mut costs = Costs(1);
    let mut free_at = [Instant::ZERO; THREADS];
    while let Some(thread) = (0..THREADS).min_by_key(|&thread| free_at[thread]) {
        let now = free_at[thread];
        if now >= END {
            break;
        }
        let (scheduler, tasks) = &schedules[thread];
        let Some(turn) = scheduler.take(now) else {
            free_at[thread] = now + Duration::from_nanos(READ_NS);
            continue;
        };
        turns += 1;
        let topic = number_of(tasks, turn.task);
        let home = topics[topic].home;
        let line = &mut lines[topic][thread];
        let is_mail = line.mail > 0 && !line.is_to_read;
        line.is_to_read = is_mail;
        // Where as many as may be are in transit there is nothing to do until some are passed on.
        let is_last = thread != home && line.in_transit + 1 == IN_TRANSIT_MAX;
        let (mean_ns, events) = match (is_mail, thread == home) {
            (true, _) => (PASS_ON_NS, 0),
            (false, true) => (READ_NS + PASS_ON_NS, 0),
            (false, false) => (READ_NS, usize::from(is_last)),
        };
        let cost = costs.next(mean_ns);
        let done = now + cost;
        used[topic] += cost;
        free_at[thread] = done;
        if is_mail {
            line.mail -= 1;
            for (other, line) in lines[topic].iter_mut().enumerate() {
                if line.in_transit > 0 {
                    line.in_transit -= 1;
                    if line.in_transit + 1 == IN_TRANSIT_MAX {
                        let (scheduler, tasks) = &schedules[other];
                        scheduler.post(tasks[topic], 1, done);
                    }
                    break;
                }
            }
        } else if thread != home {
            line.in_transit += 1;
            lines[topic][home].mail += 1;
        }
        scheduler.finish(turn, events, done);
    }
    outcome(&used, 0, turns)
}

/// A topic whose publishers are everywhere uses more than one processor only where reading is apart from passing on.
#[test]
fn a_hot_topic_uses_more_than_one_core_when_it_has_a_task_on_each() {
    let hot = topics(&[(0.5, 0)]);
    let (together, apart) = (together(&hot), apart(&hot));
    assert!((together.cores[0] - 1.0).abs() < 0.01, "{together:?}");
    assert!(apart.cores[0] > 1.3, "{apart:?}");
}

/// Where there are topics enough for every thread, both ways use all of it and give each its part of the whole.
#[test]
fn many_topics_get_their_shares_of_all_cores_either_way() {
    let many = topics(&[
        (0.3, 0),
        (0.2, 1),
        (0.2, 1),
        (0.1, 0),
        (0.05, 0),
        (0.05, 0),
        (0.05, 1),
        (0.05, 1),
    ]);
    for outcome in [together(&many), apart(&many)] {
        assert!(outcome.busy() > 1.98, "{outcome:?}");
        for (cores, topic) in outcome.cores.iter().zip(&many) {
            let wanted = topic.share * THREADS as f64;
            assert!(*cores > wanted * 0.9, "{cores} of {wanted}: {outcome:?}");
        }
    }
}

/// One schedule cannot hold a flood to its share where there are fewer topics than threads would need: each gets a thread. Reactors hold
/// it at the home of both, and leave a part of the other unused.
#[test]
fn two_topics_with_one_home_keep_their_shares_there_and_leave_a_core_half_used() {
    let both = topics(&[(0.5, 0), (0.1, 0)]);
    let (together, apart) = (together(&both), apart(&both));
    assert!((together.cores[1] - 1.0).abs() < 0.01, "{together:?}");
    assert!((together.busy() - 2.0).abs() < 0.01, "{together:?}");
    assert!(apart.cores[0] / apart.cores[1] > 4.5, "{apart:?}");
    assert!((1.2..1.6).contains(&apart.busy()), "{apart:?}");
}

/// With one schedule a task is as likely on one thread as on another, so all that a topic is made of changes processors with it. With
/// one for each thread it never does.
#[test]
fn one_schedule_moves_a_topic_with_every_other_turn() {
    let many: Vec<(f64, usize)> = (0..40).map(|number| (0.02, number % THREADS)).collect();
    let many = topics(&many);
    let together = together(&many);
    assert!((0.45..0.55).contains(&together.moved), "{}", together.moved);
}
