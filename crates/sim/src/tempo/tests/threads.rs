//! Several threads, and threads that do not always run.

use std::time::Duration;

use super::*;
use kernel::theory::largest_share;

fn on_threads(threads: u32, duration: Duration, tasks: Vec<TaskSpec>) -> Spec {
    let mut spec = spec(duration, tasks);
    spec.kernel.threads = threads;
    spec
}

#[test]
fn nobody_exceeds_the_bound_and_modest_tasks_get_what_they_ask() {
    let shares = [0.4, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05];
    for threads in [2, 4, 8] {
        let tasks = shares.map(|value| saturated(value, Service::Exponential(us(100))));
        let measured = run(&on_threads(threads, Duration::from_secs(4), tasks.to_vec()));
        let bound = largest_share(threads, 1.0);
        let sum: f64 = measured.tasks.iter().map(|task| task.obtained_share).sum();
        assert!((sum - 1.0).abs() < 0.001, "every thread is busy: {sum}");
        for (task, wanted) in measured.tasks.iter().zip(shares) {
            let obtained = task.obtained_share;
            assert!(
                obtained <= bound * 1.0001,
                "{threads} threads, {}: {obtained}",
                task.name
            );
            let promised = wanted.min(bound);
            assert!(
                obtained >= promised * 0.97,
                "{threads} threads, {}: {obtained}",
                task.name
            );
        }
    }
}

/// One task that asks for nearly everything, others that ask for nothing and keep all threads busy, turns that are short
/// beside the time that a thread runs: it gets what the formula says.
#[test]
fn the_largest_share_is_that_of_the_formula() {
    for (threads, availability) in [(1, 0.5), (2, 0.5), (4, 0.3)] {
        let mut tasks = vec![saturated(0.9, Service::Constant(us(200)))];
        let others = (0..2 * threads).map(|_| saturated(0.001, Service::Constant(us(200))));
        tasks.extend(others);
        let mut spec = on_threads(threads, Duration::from_secs(50), tasks);
        (spec.kernel.availability, spec.kernel.slice) = (availability, ms(20));
        let bound = largest_share(threads, availability);
        let measured = run(&spec);
        let obtained = measured.tasks[0].obtained_share;
        println!("{threads} threads, {availability} of the time: {obtained} of {bound}");
        assert!(
            (obtained / bound - 1.0).abs() < 0.025,
            "{threads} threads, {availability} of the time: {obtained} instead of {bound}"
        );
        let ran = measured.scheduling_s / measured.measured_s / f64::from(threads);
        assert!(
            (ran / availability - 1.0).abs() < 0.05,
            "a thread ran {ran} of the time"
        );
    }
}

/// A thread that loses its processor in the middle of a turn keeps its task: nobody gets more than 1/N then.
#[test]
fn a_thread_that_is_interrupted_keeps_its_task() {
    for (threads, availability) in [(2, 0.5), (4, 0.3)] {
        let mut tasks = vec![saturated(0.9, Service::Constant(ms(1)))];
        tasks.extend((0..2 * threads).map(|_| saturated(0.01, Service::Constant(ms(1)))));
        let mut spec = on_threads(threads, Duration::from_secs(150), tasks);
        (spec.kernel.availability, spec.kernel.slice) = (availability, ms(40));
        spec.kernel.loses_processor = LosesProcessor::WithinTurn;
        let obtained = run(&spec).tasks[0].obtained_share;
        let equal_part = 1.0 / f64::from(threads);
        assert!(
            (obtained / equal_part - 1.0).abs() < 0.07,
            "{threads} threads, {availability} of the time: {obtained} instead of {equal_part}"
        );
    }
}
