//! The cost of a turn: takes and finishes of tasks that always have work, on one thread, and on two
//! that share one schedule or have one each.
//!
//! `cargo run -p kernel --release --example turns`
#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long the kernel takes"
)]

use std::error::Error;
use std::time::Duration;

use clock::Instant;
use kernel::{Scheduler, SchedulerConfig};

/// Steps of one round, and rounds: a round is short enough for most to pass undisturbed by others on the machine.
const STEPS: usize = 2_000;
const ROUNDS: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    for tasks in [1, 10, 1_000] {
        print(&format!("turn, {tasks} with work"), turns(tasks)?);
    }
    print("post to idle, turn", first_events()?);
    print("two threads, one schedule", together(true)?);
    print("two threads, one each", together(false)?);
    Ok(())
}

fn print(what: &str, [shortest_ns, median_ns]: [f64; 2]) {
    let per_second = 1e9 / median_ns;
    println!(
        "{what:>26}: {median_ns:>6.1} ns in the median, {shortest_ns:>6.1} ns at best, {per_second:>9.0}/s"
    );
}

/// Take and finish of `tasks` tasks that have work without end, in turns of 1 µs in virtual time: 10,000 to a period.
fn turns(tasks: usize) -> Result<[f64; 2], Box<dyn Error>> {
    let scheduler = Scheduler::new(SchedulerConfig::default())?;
    let mut now = Instant::ZERO;
    for _ in 0..tasks {
        let task = scheduler.add(None)?;
        scheduler.post(task, ROUNDS * STEPS, now);
    }
    measure(|| {
        let turn = scheduler.take(now).ok_or("all have work")?;
        now += Duration::from_micros(1);
        scheduler.finish(turn, 1, now);
        Ok(())
    })
}

/// Post, take and finish of a task that has nothing else to do.
fn first_events() -> Result<[f64; 2], Box<dyn Error>> {
    let scheduler = Scheduler::new(SchedulerConfig::default())?;
    let task = scheduler.add(None)?;
    let mut now = Instant::ZERO;
    measure(|| {
        scheduler.post(task, 1, now);
        let turn = scheduler.take(now).ok_or("it has work")?;
        now += Duration::from_micros(1);
        scheduler.finish(turn, 1, now);
        Ok(())
    })
}

/// Turns of two threads at a time, 100 tasks each, in one schedule of all tasks (`is_shared`) or in one for each thread.
fn together(is_shared: bool) -> Result<[f64; 2], Box<dyn Error>> {
    const TASKS: usize = 100;
    let mut schedulers = vec![Scheduler::new(SchedulerConfig::default())?];
    if !is_shared {
        schedulers.push(Scheduler::new(SchedulerConfig::default())?);
    }
    for number in 0..2 * TASKS {
        let scheduler = &schedulers[number % schedulers.len()];
        let task = scheduler.add(None)?;
        scheduler.post(task, 2 * ROUNDS * STEPS, Instant::ZERO);
    }
    let work = |number: usize| {
        let scheduler = &schedulers[number % schedulers.len()];
        let mut now = Instant::ZERO;
        let turns = measure(|| {
            let turn = scheduler.take(now).ok_or("all have work")?;
            now += Duration::from_micros(1);
            scheduler.finish(turn, 1, now);
            Ok(())
        });
        turns.map_err(|error| error.to_string())
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| work(0));
        let second = work(1);
        (first.join(), second)
    });
    let (first, second) = (first.map_err(|_| "it panicked")??, second?);
    Ok([0, 1].map(|which| first[which].max(second[which])))
}

/// Nanoseconds for one `step`: in the shortest round, and in the median of all.
fn measure(
    mut step: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<[f64; 2], Box<dyn Error>> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = std::time::Instant::now();
        for _ in 0..STEPS {
            step()?;
        }
        rounds.push(began.elapsed());
    }
    rounds.sort_unstable();
    let per_step_ns = |round: Duration| round.as_nanos() as f64 / STEPS as f64;
    Ok([rounds[0], rounds[ROUNDS / 2]].map(per_step_ns))
}
