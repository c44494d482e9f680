//! The scheduler: a task is with one thread at most, and no event is forgotten.

#![allow(unsafe_code)]

use clock::Instant;
use kernel::{CpuShare, Scheduler, SchedulerConfig, TaskId};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

use super::check;

/// Tasks, each with what only one thread at a time may touch: loom tells if two do.
struct Station {
    scheduler: Scheduler,
    served: Vec<(TaskId, UnsafeCell<usize>)>,
}

// SAFETY: whether two threads ever touch a cell at once is what is checked here; loom ends the model if they do.
unsafe impl Sync for Station {}

const PERIOD: Duration = Duration::from_micros(100);

fn at_us(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

impl Station {
    fn new(shares: &[f64]) -> Arc<Station> {
        let scheduler = Scheduler::new(SchedulerConfig {
            period: PERIOD,
            buckets: 1,
            tasks_max: shares.len(),
            ..SchedulerConfig::default()
        });
        let scheduler = scheduler.expect("valid");
        let served = shares
            .iter()
            .map(|&share| {
                let share = CpuShare::new(share).expect("a share");
                let task = scheduler.add(Some(share)).expect("there is room");
                (task, UnsafeCell::new(0))
            })
            .collect();
        Arc::new(Station { scheduler, served })
    }

    fn post(&self, task: usize) -> bool {
        self.scheduler.post(self.served[task].0, 1, at_us(0))
    }

    /// Serves one event, for `long`; says whether there was one.
    fn serve_one(&self, long: Duration) -> bool {
        let Some(turn) = self.scheduler.take(at_us(0)) else {
            return false;
        };
        let found = self.served.iter().find(|(task, _)| *task == turn.task);
        let (_, served) = found.expect("one of ours");
        // SAFETY: the pointer is the cell's; that nobody else uses it now is what loom checks.
        served.with_mut(|served| unsafe { *served += 1 });
        self.scheduler.finish(turn, 1, at_us(0) + long);
        true
    }

    fn finish(&self, expected: &[usize]) {
        while self.serve_one(Duration::ZERO) {}
        assert!(self.scheduler.is_idle());
        for ((task, served), &expected) in self.served.iter().zip(expected) {
            // SAFETY: the pointer is the cell's; that nobody else writes to it now is what loom checks.
            let served = served.with(|served| unsafe { *served });
            assert_eq!(served, expected);
            let stats = self.scheduler.stats_of(*task, at_us(1_000));
            let stats = stats.expect("it is there");
            assert_eq!(stats.queued_events, 0);
            assert_eq!(stats.served_events, expected as u64);
        }
    }
}

fn spawn<T: 'static>(
    station: &Arc<Station>,
    act: impl FnOnce(&Station) -> T + 'static,
) -> thread::JoinHandle<T> {
    let station = Arc::clone(station);
    thread::spawn(move || act(&station))
}

#[test]
fn two_writers_and_a_server() {
    check(3, || {
        let station = Station::new(&[1.0]);
        let writers = [
            spawn(&station, |station| station.post(0)),
            spawn(&station, |station| station.post(0)),
        ];
        station.serve_one(Duration::ZERO);
        station.serve_one(Duration::ZERO);
        for writer in writers {
            writer.join().expect("no panic");
        }
        station.finish(&[2]);
    });
}

#[test]
fn two_servers_and_a_writer() {
    check(2, || {
        let station = Station::new(&[1.0]);
        station.post(0);
        let servers = [
            spawn(&station, |station| station.serve_one(Duration::ZERO)),
            spawn(&station, |station| station.serve_one(Duration::ZERO)),
        ];
        station.post(0);
        for server in servers {
            server.join().expect("no panic");
        }
        station.finish(&[2]);
    });
}

#[test]
fn a_writer_and_two_servers_on_two_tasks() {
    check(2, || {
        let station = Station::new(&[0.5, 0.5]);
        station.post(0);
        let writer = spawn(&station, |station| {
            station.post(0);
            station.post(1);
        });
        let server = spawn(&station, |station| {
            station.serve_one(Duration::ZERO);
        });
        station.serve_one(Duration::ZERO);
        writer.join().expect("no panic");
        server.join().expect("no panic");
        station.finish(&[2, 1]);
    });
}

#[test]
fn credits_are_given_out_anew_while_a_task_is_served() {
    check(3, || {
        let station = Station::new(&[0.5, 0.5]);
        for task in [0, 0, 1, 1] {
            station.post(task);
        }
        // Every turn uses up more than a period's credits, so every take begins a period, or several.
        let server = spawn(&station, |station| {
            assert!(station.serve_one(PERIOD), "there is work for two");
        });
        assert!(station.serve_one(PERIOD), "there is work for two");
        server.join().expect("no panic");
        station.finish(&[2, 2]);
    });
}

#[test]
fn a_task_is_removed_while_it_is_posted_to_and_served() {
    check(3, || {
        let station = Station::new(&[1.0]);
        let task = station.served[0].0;
        let writer = spawn(&station, |station| station.post(0));
        let server = spawn(&station, |station| station.serve_one(Duration::ZERO));
        station.scheduler.remove(task).expect("it is there");
        writer.join().expect("no panic");
        server.join().expect("no panic");
        assert!(!station.serve_one(Duration::ZERO), "it is gone");
        assert!(station.scheduler.is_idle());
        // Its place is free again, and whole.
        let next = station.scheduler.add(Some(CpuShare::WHOLE)).expect("room");
        assert!(!station.post(0), "the name of the one that is gone");
        assert!(station.scheduler.post(next, 1, at_us(0)));
        let turn = station.scheduler.take(at_us(0)).expect("it has work");
        assert!(!station.scheduler.finish(turn, 1, at_us(0)));
    });
}
