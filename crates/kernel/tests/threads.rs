//! The kernel with real threads: each event once, in order, whatever happens around it. Time is a counter.
#![cfg(not(feature = "loom"))]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use clock::Instant;
use kernel::{Bell, Kernel, KernelError, Rest, SchedulerConfig, Serve, TaskId, Turn};

/// A clock that moves on by 10 µs with every look.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Ticks {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.fetch_add(10_000, Ordering::Relaxed))
    }
}

fn kernel(tasks_max: usize) -> Arc<Kernel> {
    let config = SchedulerConfig {
        tasks_max,
        ..SchedulerConfig::default()
    };
    let kernel = Kernel::new(config, Arc::new(Bell::new())).expect("valid");
    Arc::new(kernel.with_cores(2))
}

/// What writers have put in for one task.
type Events = Mutex<VecDeque<(usize, usize)>>;

/// Every writer numbers its events per task; a task sees each writer's in order, none missing, none twice.
fn flood(threads: usize, tasks: usize, writers: usize, events: usize) {
    let kernel = kernel(tasks);
    let ticks = Ticks::default();
    let left = Arc::new(AtomicUsize::new(tasks * writers * events));
    let ends = Arc::new(AtomicUsize::new(0));
    let seen: Vec<Arc<Mutex<Vec<usize>>>> = (0..tasks)
        .map(|_| Arc::new(Mutex::new(vec![0; writers])))
        .collect();
    let lines: Vec<(TaskId, Arc<Events>)> = seen
        .iter()
        .map(|seen| {
            let (seen, left) = (Arc::clone(seen), Arc::clone(&left));
            let (line, kernel_too) = (Arc::<Events>::default(), Arc::downgrade(&kernel));
            let reader = Arc::clone(&line);
            let serve = move |_: &Turn| {
                let event = reader.lock().expect("whole").pop_front();
                let (writer, number) = event.expect("it was there before it was told of");
                let mut next = seen.try_lock().expect("no other thread has this task");
                assert_eq!(next[writer], number, "in order");
                next[writer] += 1;
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    kernel_too.upgrade().expect("it works").stop();
                }
                1
            };
            (add(&kernel, &ends, serve).expect("room"), line)
        })
        .collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| kernel.work(&|| ticks.now()));
        }
        for writer in 0..writers {
            let (lines, ticks, kernel) = (&lines, &ticks, &kernel);
            scope.spawn(move || {
                for number in 0..events {
                    for (task, line) in lines {
                        line.lock().expect("whole").push_back((writer, number));
                        kernel.post(*task, 1, ticks.now());
                    }
                }
            });
        }
    });
    for (seen, (task, line)) in seen.iter().zip(&lines) {
        assert!(
            seen.lock()
                .expect("whole")
                .iter()
                .all(|&next| next == events)
        );
        let stats = kernel.stats_of(*task, ticks.now()).expect("it lives");
        assert_eq!(stats.served_events, (writers * events) as u64);
        assert_eq!(stats.turns, stats.served_events, "one event per turn");
        assert_eq!(stats.queued_events, 0);
        assert!(line.lock().expect("whole").is_empty());
    }
    assert!(kernel.scheduler().is_idle());
    assert_eq!(kernel.stats().panics, 0, "{:?}", kernel.stats());
}

#[test]
fn each_event_is_served_once_and_in_order() {
    for (threads, tasks, writers, events) in [
        (1, 1, 1, 500),
        (1, 40, 2, 50),
        (2, 3, 2, 300),
        (4, 40, 3, 60),
        (4, 1, 4, 500),
        (3, 200, 2, 20),
    ] {
        flood(threads, tasks, writers, events);
    }
}

/// Calls a closure for each turn, and counts its own end.
struct Handler<F> {
    serve: F,
    ends: Arc<AtomicUsize>,
}

impl<F: FnMut(&Turn) -> usize + Send> Serve for Handler<F> {
    fn serve(&mut self, turn: &Turn) -> usize {
        (self.serve)(turn)
    }
}

impl<F> Drop for Handler<F> {
    fn drop(&mut self) {
        self.ends.fetch_add(1, Ordering::Relaxed);
    }
}

fn add(
    kernel: &Kernel,
    ends: &Arc<AtomicUsize>,
    serve: impl FnMut(&Turn) -> usize + Send + 'static,
) -> Result<TaskId, KernelError> {
    let ends = Arc::clone(ends);
    kernel.add(None, Box::new(Handler { serve, ends }))
}

#[test]
fn tasks_come_and_go_while_all_are_busy() {
    const ROUNDS: usize = 300;
    let kernel = kernel(8);
    let ticks = Ticks::default();
    let ends = Arc::new(AtomicUsize::new(0));
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| kernel.work(&|| ticks.now()));
        }
        let churners: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut tasks = VecDeque::new();
                    for _ in 0..ROUNDS {
                        // What is leaving keeps its place until a thread meets it.
                        let task = loop {
                            match add(&kernel, &ends, |_| 1) {
                                Ok(task) => break task,
                                Err(_full) => {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                    thread::yield_now();
                                }
                            }
                        };
                        tasks.push_back(task);
                        for &task in &tasks {
                            kernel.post(task, 2, ticks.now());
                        }
                        if tasks.len() == 2 {
                            let task = tasks.pop_front().expect("two");
                            kernel.remove(task).expect("ours");
                            assert!(!kernel.post(task, 1, ticks.now()));
                            assert!(kernel.stats_of(task, ticks.now()).is_none());
                        }
                    }
                    for task in tasks {
                        kernel.remove(task).expect("ours");
                    }
                })
            })
            .collect();
        for churner in churners {
            churner.join().expect("no panic");
        }
        kernel.stop();
    });
    let stats = kernel.stats();
    assert_eq!((stats.tasks, stats.panics), (0, 0));
    drop(kernel);
    let made = 3 * ROUNDS + refused.into_inner();
    assert_eq!(ends.load(Ordering::Relaxed), made, "each handler once");
}

#[test]
fn a_panic_costs_its_own_task_only() {
    let kernel = kernel(2);
    let ticks = Ticks::default();
    let ends = Arc::new(AtomicUsize::new(0));
    let bad = add(&kernel, &ends, |_| panic!("division by cucumber")).expect("room");
    let kernel_too = Arc::downgrade(&kernel);
    let mut left = 3;
    let good = add(&kernel, &ends, move |_| {
        left -= 1;
        if left == 0 {
            kernel_too.upgrade().expect("it works").stop();
        }
        1
    })
    .expect("room");
    kernel.post(bad, 5, ticks.now());
    kernel.post(good, 3, ticks.now());
    kernel.work(&|| ticks.now());
    let stats = kernel.stats();
    assert_eq!((stats.tasks, stats.panics), (1, 1));
    let last = stats.last_panic.expect("one");
    assert_eq!(last.task, bad);
    assert_eq!(last.message, "division by cucumber");
    assert!(!kernel.post(bad, 1, ticks.now()));
    assert_eq!(ends.load(Ordering::Relaxed), 1, "its handler is gone");
    let stats = kernel.stats_of(good, ticks.now()).expect("it lives");
    assert_eq!(stats.served_events, 3);
    add(&kernel, &ends, |_| 1).expect("its place is free");
}

#[test]
fn a_task_is_removed_by_its_own_handler() {
    let kernel = kernel(1);
    let ticks = Arc::new(Ticks::default());
    let ends = Arc::new(AtomicUsize::new(0));
    let id = Arc::new(Mutex::new(None));
    let (kernel_too, id_too) = (Arc::downgrade(&kernel), Arc::clone(&id));
    let task = add(&kernel, &ends, move |_| {
        let kernel = kernel_too.upgrade().expect("it works");
        let task = id_too.lock().expect("whole").expect("it is known");
        kernel.remove(task).expect("it is there");
        kernel.stop();
        1
    })
    .expect("room");
    *id.lock().expect("whole") = Some(task);
    kernel.post(task, 9, ticks.now());
    kernel.work(&|| ticks.now());
    assert_eq!(ends.load(Ordering::Relaxed), 1);
    assert!(kernel.scheduler().is_idle());
}

#[test]
fn a_handler_may_serve_more_than_was_counted_when_its_turn_began() {
    let kernel = kernel(1);
    let ticks = Ticks::default();
    let ends = Arc::new(AtomicUsize::new(0));
    let queue: Arc<Mutex<VecDeque<u32>>> = Arc::default();
    let (reader, kernel_too) = (Arc::clone(&queue), Arc::downgrade(&kernel));
    let mut served = 0;
    let task = add(&kernel, &ends, move |_| {
        let mut queue = reader.lock().expect("whole");
        let events = queue.drain(..).count();
        served += events;
        if served == 3 && events == 0 {
            kernel_too.upgrade().expect("it works").stop();
        }
        events
    })
    .expect("room");
    queue.lock().expect("whole").extend([1, 2, 3]);
    // Three are there and two are told; the turn serves all, and one that finds nothing settles the third.
    kernel.post(task, 2, ticks.now());
    thread::scope(|scope| {
        scope.spawn(|| kernel.work(&|| ticks.now()));
        while kernel.stats_of(task, ticks.now()).expect("it lives").turns == 0 {
            thread::yield_now();
        }
        kernel.post(task, 1, ticks.now());
    });
    let stats = kernel.stats_of(task, ticks.now()).expect("it lives");
    assert_eq!((stats.served_events, stats.queued_events), (3, 0));
}

/// A place of rest that counts what is asked of it.
#[derive(Default)]
struct Counted {
    bell: Bell,
    glances: AtomicUsize,
}

impl Rest for Counted {
    fn rest(&self, is_idle: &dyn Fn() -> bool) {
        self.bell.rest(is_idle);
    }

    fn wake(&self) {
        self.bell.wake();
    }

    fn wake_all(&self) {
        self.bell.wake_all();
    }

    fn glance(&self) {
        self.glances.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_busy_thread_glances_at_the_place_of_rest() {
    let rest = Arc::new(Counted::default());
    let kernel = Kernel::new(
        SchedulerConfig::default(),
        Arc::clone(&rest) as Arc<dyn Rest>,
    );
    let kernel = Arc::new(kernel.expect("valid"));
    let ticks = Ticks::default();
    let ends = Arc::new(AtomicUsize::new(0));
    let kernel_too = Arc::downgrade(&kernel);
    let mut left = 1_000;
    let task = add(&kernel, &ends, move |_| {
        left -= 1;
        if left == 0 {
            kernel_too.upgrade().expect("it works").stop();
        }
        1
    })
    .expect("room");
    kernel.post(task, 1_000, ticks.now());
    kernel.work(&|| ticks.now());
    // 10 ms of turns, a glance every 50 µs and one look at the clock more for each.
    let glances = rest.glances.load(Ordering::Relaxed);
    assert!((150..=220).contains(&glances), "{glances}");
}
