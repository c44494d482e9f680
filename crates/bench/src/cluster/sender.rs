//! The sending thread: a fleet of publishers on the workload's open-loop schedule.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use client::placed::Traffic;
use client::{Acknowledgement, PlacedOptions};

use super::Plan;
use super::board::Board;
use super::fleet::Fleet;
use crate::error::BenchError;
use crate::stamp::Stamp;
use crate::sys::{monotonic_ns, pause_for};
use crate::workload::Workload;

/// Publishers must be connected within this time.
const CONNECT_TIMEOUT_NS: u64 = 60_000_000_000;
/// Interval at which the sender's figures are renewed.
const TELL_NS: u64 = 20_000_000;

/// The sender's figures.
#[derive(Debug, Default)]
pub struct Shared {
    /// All publishers were connected once, and sending has begun.
    pub has_begun: AtomicBool,
    /// Publishers with a broker.
    pub connected: AtomicU64,
    /// Batches that could not be taken, since too much was unacknowledged.
    pub overflowed: AtomicU64,
    /// How late a batch was sent at most, since this was set to 0.
    pub late_us: AtomicU64,
    /// Groups are this many times as large as the workload says; 0 counts as 1.
    pub burst_factor: AtomicU64,
    /// Part of the scheduled batches that publishers at a broker send; all of those at others.
    pub thinning: Mutex<HashMap<String, f64>>,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    traffic: Traffic,
    brokers: Vec<Option<String>>,
}

impl Shared {
    /// Counters of all publishers.
    pub fn traffic(&self) -> Traffic {
        self.state().traffic
    }

    /// The broker of each publisher.
    pub fn brokers(&self) -> Vec<Option<String>> {
        self.state().brokers
    }

    fn state(&self) -> State {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Starts the thread.
pub(super) fn spawn(
    plan: Plan,
    board: Arc<Board>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<Result<(), BenchError>>, BenchError> {
    std::thread::Builder::new()
        .name(String::from("fleet"))
        .spawn(move || send(&plan, &board, &shared))
        .map_err(BenchError::io("start a thread"))
}

fn send(plan: &Plan, board: &Board, shared: &Shared) -> Result<(), BenchError> {
    let mut fleet = Fleet::new(
        (0..plan.workload.publishers)
            .map(|n| options(plan, n))
            .collect(),
    )?;
    connect(&mut fleet, shared)?;
    let workload = &plan.workload;
    let mut schedule = workload.schedule();
    let mut factor = 1;
    // Spread, so that those who leave batches out do not all send the same ones.
    let spread = |number: u32| (f64::from(number) * 0.618_034).fract();
    let mut credit: Vec<f64> = (0..workload.publishers).map(spread).collect();
    let (mut start_ns, mut told_ns) = (monotonic_ns(), 0);
    shared.has_begun.store(true, Ordering::Relaxed);
    'run: loop {
        let wanted = shared.burst_factor.load(Ordering::Relaxed).max(1);
        if wanted != factor {
            factor = wanted;
            let group_publishers = workload.group_publishers * factor as u32;
            let together = Workload {
                group_publishers,
                ..workload.clone()
            };
            schedule = together.schedule();
            start_ns = monotonic_ns();
        }
        let Some(due) = schedule.next() else {
            break;
        };
        let scheduled_ns = start_ns + due.at_ns;
        loop {
            let now_ns = monotonic_ns();
            if board.is_silent.load(Ordering::Relaxed) {
                break 'run;
            }
            if now_ns - told_ns >= TELL_NS {
                told_ns = now_ns;
                tell(&fleet, shared);
            }
            if now_ns >= scheduled_ns {
                break;
            }
            let wait = Duration::from_nanos((scheduled_ns - now_ns).min(TELL_NS));
            // epoll counts in milliseconds; what is nearer is slept for, since brokers need the cores.
            fleet.serve(Duration::from_millis(wait.as_millis() as u64))?;
            if wait < Duration::from_millis(1) {
                pause_for(wait);
            }
        }
        if is_thinned(shared, &fleet, due.publisher, &mut credit) {
            continue;
        }
        publish(
            (plan, board, shared),
            &mut fleet,
            due.publisher,
            scheduled_ns,
        )?;
    }
    // Those that were published and not accepted yet are still to come.
    let end_ns = monotonic_ns() + CONNECT_TIMEOUT_NS / 2;
    while fleet.unacknowledged() > 0 && monotonic_ns() < end_ns {
        fleet.serve(Duration::from_millis(10))?;
    }
    tell(&fleet, shared);
    Ok(())
}

/// Sends a batch that is due.
fn publish(
    (plan, board, shared): (&Plan, &Board, &Shared),
    fleet: &mut Fleet,
    publisher: u32,
    scheduled_ns: u64,
) -> Result<(), BenchError> {
    let messages = u64::from(plan.workload.batch_messages);
    let Some(first) = board.number(messages) else {
        return Err(BenchError::protocol(
            "cluster",
            "the run takes longer than planned",
        ));
    };
    let bodies = bodies(&plan.workload, publisher, first, scheduled_ns);
    let now_ns = monotonic_ns();
    board.send(first, messages, scheduled_ns, now_ns);
    let late_us = now_ns.saturating_sub(scheduled_ns) / 1000;
    shared.late_us.fetch_max(late_us, Ordering::Relaxed);
    if !fleet.publish(publisher, &bodies) {
        shared.overflowed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether this batch is left out: a publisher sends when its credit reaches one.
fn is_thinned(shared: &Shared, fleet: &Fleet, publisher: u32, credit: &mut [f64]) -> bool {
    let thinning = shared
        .thinning
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if thinning.is_empty() {
        return false;
    }
    let part = fleet
        .broker_of(publisher)
        .and_then(|broker| thinning.get(broker));
    let credit = &mut credit[publisher as usize];
    *credit += part.copied().unwrap_or(1.0);
    if *credit < 1.0 {
        return true;
    }
    *credit -= 1.0;
    false
}

fn connect(fleet: &mut Fleet, shared: &Shared) -> Result<(), BenchError> {
    let end_ns = monotonic_ns() + CONNECT_TIMEOUT_NS;
    let all = shared;
    loop {
        fleet.serve(Duration::from_millis(5))?;
        tell(fleet, all);
        let Some(trouble) = fleet.trouble() else {
            return Ok(());
        };
        if monotonic_ns() >= end_ns {
            let text = format!(
                "only {} publishers have a broker: {trouble}",
                fleet.connected()
            );
            return Err(BenchError::protocol("cluster", text));
        }
    }
}

fn tell(fleet: &Fleet, shared: &Shared) {
    shared
        .connected
        .store(fleet.connected() as u64, Ordering::Relaxed);
    let brokers = (0..fleet.len() as u32)
        .map(|n| fleet.broker_of(n).map(str::to_owned))
        .collect();
    let state = State {
        traffic: fleet.traffic(),
        brokers,
    };
    *shared.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
}

fn options(plan: &Plan, number: u32) -> PlacedOptions {
    let workload = &plan.workload;
    let mut options = PlacedOptions::new(&plan.controller, &plan.topic, format!("s{number:05}"));
    options.rate = plan.declared_rate;
    options.batch = workload.batch_messages;
    options.acknowledgement = Acknowledgement::Cumulative {
        every_messages: 64,
        interval_ms: 50,
    };
    if plan.tells_groups && workload.group_publishers > 1 {
        options.group = Some(format!("g{}", number / workload.group_publishers));
    }
    options
}

fn bodies(workload: &Workload, publisher: u32, first: u64, scheduled_ns: u64) -> Vec<Vec<u8>> {
    (0..u64::from(workload.batch_messages))
        .map(|number| {
            let mut body = vec![b'x'; workload.body_bytes];
            let stamp = Stamp {
                run: 0,
                publisher,
                sequence: first + number,
                scheduled_ns,
            };
            stamp.write_to(&mut body);
            body
        })
        .collect()
}
