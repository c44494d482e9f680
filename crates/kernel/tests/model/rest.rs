//! Sleeping: no wake-up is lost, whoever waits for it.

use std::sync::Arc as StdArc;

use clock::Instant;
use kernel::{Bell, Kernel, Rest, SchedulerConfig, Serve, Turn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::check;

/// Takes one of the `work`, if there is some.
fn take(work: &AtomicUsize) -> bool {
    work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |work| {
        work.checked_sub(1)
    })
    .is_ok()
}

#[test]
fn a_sleeper_is_woken() {
    check(3, || {
        let shared = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let sleeper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (bell, work) = &*shared;
                while !take(work) {
                    bell.rest(&|| work.load(Ordering::Relaxed) == 0);
                }
            })
        };
        let (bell, work) = &*shared;
        work.fetch_add(1, Ordering::Relaxed);
        bell.wake();
        sleeper.join().expect("it wakes");
        assert_eq!(bell.sleepers(), 0);
    });
}

#[test]
fn two_pieces_of_work_wake_two_sleepers() {
    check(2, || {
        let shared = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (bell, work) = &*shared;
                    while !take(work) {
                        bell.rest(&|| work.load(Ordering::Relaxed) == 0);
                    }
                })
            })
            .collect();
        let (bell, work) = &*shared;
        for _ in 0..2 {
            work.fetch_add(1, Ordering::Relaxed);
            bell.wake();
        }
        for sleeper in sleepers {
            sleeper.join().expect("it wakes");
        }
    });
}

#[test]
fn all_are_woken() {
    check(2, || {
        let shared = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (bell, is_over) = &*shared;
                    while is_over.load(Ordering::Relaxed) == 0 {
                        bell.rest(&|| is_over.load(Ordering::Relaxed) == 0);
                    }
                })
            })
            .collect();
        let (bell, is_over) = &*shared;
        is_over.store(1, Ordering::Relaxed);
        bell.wake_all();
        for sleeper in sleepers {
            sleeper.join().expect("it wakes");
        }
    });
}

/// Counts its turns and stops the kernel at the last; counts its end, too.
struct Counter {
    kernel: std::sync::Weak<Kernel>,
    left: usize,
    ends: StdArc<std::sync::atomic::AtomicUsize>,
}

impl Serve for Counter {
    fn serve(&mut self, _turn: &Turn) -> usize {
        self.left -= 1;
        if self.left == 0 {
            self.kernel.upgrade().expect("it works").stop();
        }
        1
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.ends.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

fn kernel(tasks_max: usize) -> StdArc<Kernel> {
    let config = SchedulerConfig {
        buckets: 1,
        tasks_max,
        ..SchedulerConfig::default()
    };
    StdArc::new(Kernel::new(config, StdArc::new(Bell::new())).expect("valid"))
}

#[test]
fn a_worker_sleeps_through_no_post() {
    check(3, || {
        let kernel = kernel(1);
        let ends = StdArc::default();
        let counter = Counter {
            kernel: StdArc::downgrade(&kernel),
            left: 2,
            ends: StdArc::clone(&ends),
        };
        let task = kernel.add(None, Box::new(counter)).expect("room");
        let worker = {
            let kernel = StdArc::clone(&kernel);
            thread::spawn(move || kernel.work(&|| Instant::ZERO))
        };
        kernel.post(task, 1, Instant::ZERO);
        kernel.post(task, 1, Instant::ZERO);
        worker.join().expect("it saw both");
        kernel.remove(task).expect("it is there");
        assert_eq!(ends.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}

#[test]
fn a_handler_ends_once_however_it_is_removed() {
    check(3, || {
        let kernel = kernel(1);
        let ends = StdArc::default();
        let counter = Counter {
            kernel: StdArc::downgrade(&kernel),
            left: 2,
            ends: StdArc::clone(&ends),
        };
        let task = kernel.add(None, Box::new(counter)).expect("room");
        let worker = {
            let kernel = StdArc::clone(&kernel);
            thread::spawn(move || kernel.work(&|| Instant::ZERO))
        };
        kernel.post(task, 1, Instant::ZERO);
        kernel.remove(task).expect("it is there");
        kernel.stop();
        worker.join().expect("no panic");
        // What was met by nobody before the stop is met now.
        assert!(kernel.scheduler().is_idle() || kernel.scheduler().take(Instant::ZERO).is_none());
        drop(kernel);
        assert_eq!(ends.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}
